"""Volcano as one of the vocabularies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.dialects.dialect import (
    AdoptedAllocation,
    Defaults,
    Documents,
    NodeDescription,
    Result,
)
from adapters.dialects.volcano import keys, result
from adapters.dialects.volcano import node as nodes
from adapters.dialects.volcano.adopted import read_adopted
from adapters.dialects.volcano.pod import VolcanoPodReader
from adapters.dialects.volcano.ranking import ranking
from adapters.dialects.volcano.settings import read_device_config, read_scheduling
from adapters.wire.kube import DeviceObject, KubeNode, Pod
from core.hardware.card import Card
from core.hardware.node import Node
from core.requests.grant import Grant, Placement
from core.requests.request import Request


@dataclass(frozen=True, slots=True)
class Volcano:
    """The vocabulary under one cluster's settings.

    Attributes:
        pods: reads pods; it carries the settings.
    """

    pods: VolcanoPodReader

    @classmethod
    def configured(cls, settings: Documents, defaults: Defaults) -> Self:
        """The vocabulary as a cluster's settings have it.

        Raises:
            DialectError: a setting cannot be meant.
        """
        scheduling, document = read_scheduling(settings)
        config = read_device_config(settings, document)
        return cls(VolcanoPodReader(keys.NAME, config, scheduling, ranking(scheduling, defaults)))

    @property
    def name(self) -> str:
        """The word by which requests and cards are told apart."""
        return keys.NAME

    @property
    def result_keys(self) -> frozenset[str]:
        """The annotations that only a scheduler may write."""
        return keys.RESULT_KEYS

    @property
    def companions(self) -> frozenset[str]:
        """None: nothing of another vocabulary is ever passed over."""
        return frozenset()

    def matches(self, pod: Pod) -> bool:
        """Whether the pod names any resource of this vocabulary, in whatever amount."""
        return self.pods.matches(pod)

    def read_request(self, pod: Pod) -> Request:
        """What a pod that ``asks`` wants.

        Raises:
            DialectError: it cannot be meant, or is out of scope.
        """
        return self.pods.read(pod)

    def admission_defaults(self, pod: Pod, request: Request) -> Mapping[str, str]:  # noqa: ARG002
        """None; see ``Dialect``."""
        return {}

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> NodeDescription:  # noqa: ARG002
        """The cards of a node, from the node object alone."""
        return nodes.read_node(node, keys.NAME, self.pods.config)

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """As the device plugin registers them: a sharer, a percent and a unit each is one."""
        return nodes.resources(cards, keys.NAME, self.pods.config)

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:  # noqa: ARG002
        """Never: the lock of its plugin, off by default, names no pod."""
        return False

    def has_result(self, pod: Pod) -> bool:
        """Whether the pod carries a record of what it was given."""
        return result.has_result(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """What a pod was given, in start order of its containers.

        Raises:
            DialectError: the record cannot be understood.
        """
        return result.read_result(pod, request, node, self.pods.config.unit)

    def read_adopted(self, pod: Pod, node: Node) -> AdoptedAllocation | None:
        """What vc-scheduler's own plugin gave a pod; see ``Dialect``.

        Raises:
            DialectError: the record cannot be understood.
        """
        return read_adopted(pod, node, self.pods)

    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> Result:
        """The record of a placement."""
        return result.write_result(pod, request, placement, node, self.pods.config.unit, now)

"""Volcano's dialect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.dialects.dialect import (
    NO_DEFAULTS,
    AdmissionDefaults,
    AdoptedAllocation,
    Defaults,
    Documents,
    NodeDescription,
    QuotaUnit,
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
    """The dialect under one cluster's settings.

    Attributes:
        pods: reads pods; it has the settings.
    """

    pods: VolcanoPodReader

    @classmethod
    def configured(cls, settings: Documents, defaults: Defaults) -> Self:
        """Create the dialect with a cluster's settings.

        Raises:
            DialectError: a setting is invalid.
        """
        scheduling, document = read_scheduling(settings)
        config = read_device_config(settings, document)
        return cls(VolcanoPodReader(keys.NAME, config, scheduling, ranking(scheduling, defaults)))

    @property
    def name(self) -> str:
        """The name that requests and cards carry."""
        return keys.NAME

    @property
    def result_keys(self) -> frozenset[str]:
        """Annotations that only a scheduler may write."""
        return keys.RESULT_KEYS

    @property
    def companions(self) -> frozenset[str]:
        """Empty: the dialect ignores no resource of another dialect."""
        return frozenset()

    @property
    def claims(self) -> frozenset[str]:
        """Empty: no resource of this dialect is another one's too."""
        return frozenset()

    @property
    def quota_units(self) -> Mapping[str, QuotaUnit | None]:
        """Empty: Volcano limits by its queues, which its scheduler still counts."""
        return {}

    def matches(self, pod: Pod) -> bool:
        """Whether the pod names a resource of this dialect, even with an amount of 0."""
        return self.pods.matches(pod)

    def read_request(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests.

        Raises:
            DialectError: the request is invalid, or out of scope.
        """
        return self.pods.read(pod)

    def admission_defaults(self, pod: Pod, request: Request) -> AdmissionDefaults:  # noqa: ARG002
        """Return no defaults: Volcano's webhook adds nothing that matters here."""
        return NO_DEFAULTS

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> NodeDescription:  # noqa: ARG002
        """Read the cards of a node, only from the node object."""
        return nodes.read_node(node, keys.NAME, self.pods.config)

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Amounts as the device plugin registers them: sharers, percent, units of memory."""
        return nodes.resources(cards, keys.NAME, self.pods.config)

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:  # noqa: ARG002
        """Return False: the lock of Volcano's plugin, off by default, names no pod."""
        return False

    def has_result(self, pod: Pod) -> bool:
        """Whether the pod has a record of an allocation."""
        return result.has_result(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the grants of a pod, in start order of its containers.

        Raises:
            DialectError: the record cannot be parsed.
        """
        return result.read_result(pod, request, node, self.pods.config.unit)

    def read_adopted(self, pod: Pod, node: Node) -> AdoptedAllocation | None:
        """Read what vc-scheduler's own plugin allocated to a pod; see ``Dialect``.

        Raises:
            DialectError: the record cannot be parsed.
        """
        return read_adopted(pod, node, self.pods)

    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> Result:
        """Write the record of a placement."""
        return result.write_result(pod, request, placement, node, self.pods.config.unit, now)

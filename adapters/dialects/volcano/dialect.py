"""Volcano's dialect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.dialects.dialect import (
    AdoptedAllocation,
    Defaults,
    Dialect,
    Documents,
    HeldShare,
    NodeDescription,
    Result,
)
from adapters.dialects.volcano import keys, result
from adapters.dialects.volcano import node as nodes
from adapters.dialects.volcano.keys import ranking, read_device_config, read_scheduling
from adapters.dialects.volcano.pod import VolcanoPodReader
from adapters.dialects.volcano.result import read_adopted, write_mirror
from adapters.wire.kube import DeviceObject, KubeNode, Pod
from core.hardware.card import Card
from core.hardware.node import Node
from core.requests.grant import Grant, Placement
from core.requests.request import Request


@dataclass(frozen=True, slots=True)
class Volcano(Dialect):
    """The dialect under one cluster's settings.

    It has no ``quota_units``: Volcano limits by its queues, which its scheduler still counts. Its
    webhook adds nothing that matters here. The lock of its device plugin, off by default, names
    no pod, so that no pod needs it.

    Attributes:
        pods: reads pods; it has the settings.
    """

    name = keys.NAME
    result_keys = keys.RESULT_KEYS

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

    def matches(self, pod: Pod) -> bool:
        """Return whether the pod names a resource of this dialect, even with an amount of 0."""
        return self.pods.matches(pod)

    def read_request(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests.

        Raises:
            DialectError: the request is invalid, or out of scope.
        """
        return self.pods.read(pod)

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> NodeDescription:  # noqa: ARG002
        """Read the cards of a node, only from the node object."""
        return nodes.read_node(node, keys.NAME, self.pods.config)

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return amounts as the device plugin registers them: sharers, percent, units of memory."""
        return nodes.resources(cards, keys.NAME, self.pods.config)

    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has a record of an allocation."""
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

    def write_mirror(self, pod: Pod, shares: Sequence[HeldShare]) -> Mapping[str, str]:  # noqa: ARG002
        """Write what a pod of another dialect has, for vc-scheduler's own plugin."""
        return write_mirror(shares, self.pods.config.unit)

"""The dialect of NVIDIA's device plugin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.dialects.adoption.foreign import read_hami, read_koordinator
from adapters.dialects.dialect import (
    NO_ALLOCATION,
    NO_RESULT,
    AdoptedAllocation,
    Defaults,
    Dialect,
    Documents,
    NodeDescription,
    Result,
)
from adapters.dialects.formats.hami_record import serves_node
from adapters.dialects.formats.koordinator_record import read_record, write_whole_nvidia
from adapters.dialects.formats.koordinator_settings import ALLOCATED, ranking, read_scheduling
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.nvidia import keys
from adapters.dialects.nvidia import pod as pods
from adapters.wire.kube import DeviceObject, KubeNode, Pod, annotations
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.requests.grant import Grant, Placement
from core.requests.request import PluginShare, Ranking, Request


@dataclass(frozen=True, slots=True)
class Nvidia(Dialect):
    """``nvidia.com/gpu``, ``nvidia.com/gpu.shared`` and ``nvidia.com/mig-PROFILE``.

    It has no ``claims``: ``nvidia.com/gpu`` is HAMi's or Koordinator's where the pod says so. It
    has no ``quota_units``: Kubernetes itself counts the resources. NVIDIA has no webhook.

    Attributes:
        ranking: the order of nodes and cards, by the settings of koord-scheduler: whole cards are
            of Koordinator's words too.
    """

    name = keys.NAME
    result_keys = keys.RESULT_KEYS

    ranking: Ranking

    @classmethod
    def configured(cls, settings: Documents, defaults: Defaults) -> Self:
        """Create the dialect with the settings files.

        Raises:
            DialectError: a setting is invalid.
        """
        return cls(ranking(read_scheduling(settings), defaults))

    def matches(self, pod: Pod) -> bool:
        """Return whether a pod requests a device of the plugin; see ``pod.matches``."""
        return pods.matches(pod)

    def read_request(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests.

        Raises:
            DialectError: an amount is invalid.
        """
        return pods.read_request(pod, self.ranking)

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> NodeDescription:  # noqa: ARG002
        """Return an empty description: the device plugin states numbers of devices, no cards."""
        return NodeDescription()

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return whole cards that our agent describes in place of the device plugin."""
        own = [card for card in cards if keys.NAME in card.dialects and card.mode is not Mode.MIG]
        return {GPU: sum(card.healthy for card in own)} if own else {}

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:
        """Return whether a pod gets whole cards that HAMi's device plugin serves."""
        return request.plugin is PluginShare.CARD and serves_node(node)

    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has ``device-allocated`` for whole cards."""
        return ALLOCATED in annotations(pod) and not pods.requests_devices(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the grants of a pod from ``device-allocated``.

        Raises:
            DialectError: the record cannot be parsed.
        """
        return read_record(pod, request, node)

    def read_adopted(self, pod: Pod, node: Node) -> AdoptedAllocation | None:
        """Read what koord-scheduler or HAMi's scheduler allocated to a pod; see ``Dialect``.

        They write a record of whole cards. None is of shared cards or MIG devices: what such a pod
        has as an annotation is text of its author.

        Raises:
            DialectError: the record cannot be parsed.
        """
        members = pods.requesting(pod)
        if not members:
            return NO_ALLOCATION
        if pods.requests_devices(pod):
            return None
        if ALLOCATED in annotations(pod):
            return AdoptedAllocation(read_koordinator(pod, node, members))
        grants = read_hami(pod, node)
        return AdoptedAllocation(grants) if grants else None

    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> Result:
        """Write the record of whole cards; none where the kubelet chooses the devices."""
        if request.plugin is PluginShare.DEVICE or not placement.grants:
            return NO_RESULT
        return write_whole_nvidia(pod, request, placement, node, now)

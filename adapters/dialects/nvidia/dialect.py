"""The dialect of NVIDIA's device plugin: what pods request of it, and their records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.dialects import containers, dialect
from adapters.dialects.device_plugins import plugin_share
from adapters.dialects.formats.hami_record import serves_node
from adapters.dialects.formats.hami_result import read_hami
from adapters.dialects.formats.koordinator_record import (
    read_koordinator,
    read_record,
    write_whole_nvidia,
)
from adapters.dialects.formats.koordinator_settings import ALLOCATED, ranking, read_scheduling
from adapters.dialects.formats.nvidia_words import GPU, MIG_PREFIX, SHARED
from adapters.dialects.nvidia import keys
from adapters.dialects.request_writer import RequestWriter, WrittenRequest
from adapters.wire.kube import DeviceObject, KubeNode, Pod, annotations, full_name
from core.hardware.card import Card, Level, Mode
from core.hardware.node import Node
from core.requests.grant import Grant, Placement
from core.requests.request import PluginShare, Ranking, Request, TopologyConstraint

_WHOLE_MODES = frozenset({Mode.SHARED, Mode.MPS, Mode.WHOLE})
"""Modes of the cards that the device plugin can give for a whole or a shared card."""


@dataclass(frozen=True, slots=True)
class Nvidia(dialect.Dialect):
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
    def configured(cls, settings: dialect.Documents, defaults: dialect.Defaults) -> Self:
        """Create the dialect with the settings files; see ``Dialect``."""
        return cls(ranking(read_scheduling(settings), defaults))

    def matches(self, pod: Pod) -> bool:
        """Return whether a pod names a resource of the plugin in an amount other than 0."""
        return any(
            _is_own(name) and not containers.is_zero(amount)
            for member in containers.pod_containers(pod)
            for amounts in (member.container.resources.limits, member.container.resources.requests)
            for name, amount in (amounts or {}).items()
        )

    def read_request(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests.

        A shared card or a MIG device counts as a whole card: no amount of it is known, and this is
        the most that the container can reach.

        Raises:
            DialectError: an amount is invalid.
        """
        found: list[tuple[containers.PodContainer, dict[str, int]]] = []
        for member in containers.pod_containers(pod):
            stated = {
                name: containers.whole_amount(member, name, 0, containers.LARGEST_QUANTITY)
                for name in _own(member)
            }
            found.append((member, {name: amount for name, amount in stated.items() if amount}))
        resources = {resource for _, amounts in found for resource in amounts}
        return Request(
            uid=pod.metadata.uid,
            pod=full_name(pod),
            dialect=keys.NAME,
            alternatives=keys.ALTERNATIVES,
            containers=tuple(
                containers.whole_cards(member, sum(amounts.values()))
                for member, amounts in found
                if amounts
            ),
            modes=frozenset(
                mode
                for resource in resources
                for mode in ({Mode.MIG} if resource.startswith(MIG_PREFIX) else _WHOLE_MODES)
            ),
            vendor=keys.VENDOR,
            ranking=self.ranking,
            topology=TopologyConstraint(levels=(Level.NUMA, Level.PCIE), by_partition=True),
            priority=pod.spec.priority or 0,
            plugin=PluginShare.CARD if resources == {GPU} else PluginShare.DEVICE,
        )

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> dialect.NodeDescription:
        """Return an empty description: the device plugin states numbers of devices, no cards."""
        return dialect.NodeDescription()

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return whole cards that our agent describes in place of the device plugin."""
        own = [card for card in cards if keys.NAME in card.dialects and card.mode is not Mode.MIG]
        return {GPU: sum(card.healthy for card in own)} if own else {}

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:
        """Return whether a pod gets whole cards that HAMi's device plugin serves."""
        return request.plugin is PluginShare.CARD and serves_node(node)

    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has ``device-allocated`` for whole cards."""
        return ALLOCATED in annotations(pod) and not _requests_devices(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the grants of a pod from ``device-allocated``; see ``Dialect``."""
        return read_record(pod, request, node)

    def read_adopted(self, pod: Pod, node: Node) -> dialect.AdoptedAllocation | None:
        """Read what koord-scheduler or HAMi's scheduler allocated to a pod; see ``Dialect``.

        They write a record of whole cards. None is of shared cards or MIG devices: what such a pod
        has as an annotation is text of its author.

        Raises:
            DialectError: the record cannot be parsed.
        """
        members = [
            one for one in containers.pod_containers(pod) if containers.requests_any(one, _own(one))
        ]
        if not members:
            return dialect.NO_ALLOCATION
        if _requests_devices(pod):
            return None
        if ALLOCATED in annotations(pod):
            return dialect.AdoptedAllocation(read_koordinator(pod, node, members))
        grants = read_hami(pod, node)
        return dialect.AdoptedAllocation(grants) if grants else None

    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> dialect.Result:
        """Write the record of whole cards; none where the kubelet chooses the devices."""
        if request.plugin is PluginShare.DEVICE or not placement.grants:
            return dialect.NO_RESULT
        return write_whole_nvidia(pod, request, placement, node, now)


def _requests_devices(pod: Pod) -> bool:
    """Return whether a pod names shared cards or MIG devices, which no scheduler records."""
    names = (name for member in containers.pod_containers(pod) for name in _own(member))
    return any(plugin_share(name) is PluginShare.DEVICE for name in names)


def _is_own(resource: str) -> bool:
    return resource in {GPU, SHARED} or resource.startswith(MIG_PREFIX)


def _own(member: containers.PodContainer) -> list[str]:
    """Return the resources of this dialect that a container names, even with an amount of 0."""
    resources = member.container.resources
    return sorted(filter(_is_own, {*(resources.limits or ()), *(resources.requests or ())}))


def write(request: Request, card_memory: int | None) -> WrittenRequest:  # noqa: ARG001
    """Write the number of cards; whatever a request says besides is lost."""
    return WrittenRequest(tuple({GPU: container.count} for container in request.containers))


WRITER = RequestWriter(
    resources=frozenset({GPU, SHARED}),
    annotations=frozenset(),
    labels=frozenset(),
    unread=frozenset(),
    write=write,
)

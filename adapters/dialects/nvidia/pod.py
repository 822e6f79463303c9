"""Reads and writes what a pod requests of NVIDIA's device plugin."""

from collections.abc import Iterable, Mapping

from adapters.dialects.containers import (
    PodContainer,
    is_zero,
    pod_containers,
    requests_any,
    whole_amount,
    whole_cards,
)
from adapters.dialects.device_plugins import plugin_share
from adapters.dialects.formats.nvidia_words import GPU, MIG_PREFIX, SHARED
from adapters.dialects.nvidia import keys
from adapters.dialects.request_writer import RequestWriter, WrittenRequest
from adapters.wire.kube import Pod, full_name
from core.hardware.card import Level, Mode
from core.requests.request import PluginShare, Ranking, Request, TopologyConstraint

MAX_DEVICES = 1024
"""More devices than any node has for one container."""


def matches(pod: Pod) -> bool:
    """Return whether a pod names a resource of NVIDIA's device plugin in an amount other than 0."""
    return any(
        _is_own(name) and not is_zero(amount)
        for member in pod_containers(pod)
        for amounts in (member.container.resources.limits, member.container.resources.requests)
        for name, amount in (amounts or {}).items()
    )


def requesting(pod: Pod) -> list[PodContainer]:
    """Return the containers that request devices, in start order.

    Raises:
        DialectError: limit and request of a container differ.
    """
    return [member for member in pod_containers(pod) if requests_any(member, _own(member))]


def requests_devices(pod: Pod) -> bool:
    """Return whether a pod names shared cards or MIG devices, which no scheduler records."""
    names = (name for member in pod_containers(pod) for name in _own(member))
    return any(plugin_share(name) is PluginShare.DEVICE for name in names)


def read_request(pod: Pod, ranking: Ranking) -> Request:
    """Read what a pod that ``matches`` requests.

    A shared card or a MIG device counts as a whole card: no amount of it is known, and this is the
    most that the container can reach.

    Args:
        pod: the pod.
        ranking: the order of nodes and cards.

    Raises:
        DialectError: an amount is invalid.
    """
    found = [(member, _amounts(member)) for member in pod_containers(pod)]
    resources = {resource for _, amounts in found for resource in amounts}
    by_card = resources == {GPU}
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        alternatives=keys.ALTERNATIVES,
        containers=tuple(
            whole_cards(member, sum(amounts.values())) for member, amounts in found if amounts
        ),
        modes=_modes(resources),
        vendor=keys.VENDOR,
        ranking=ranking,
        topology=TopologyConstraint(levels=(Level.NUMA, Level.PCIE), by_partition=True),
        priority=pod.spec.priority or 0,
        plugin=PluginShare.CARD if by_card else PluginShare.DEVICE,
    )


def _is_own(resource: str) -> bool:
    return resource in {GPU, SHARED} or resource.startswith(MIG_PREFIX)


def _own(member: PodContainer) -> list[str]:
    """Return the resources of this dialect that a container names, even with an amount of 0."""
    resources = member.container.resources
    return sorted(filter(_is_own, {*(resources.limits or ()), *(resources.requests or ())}))


def _amounts(member: PodContainer) -> Mapping[str, int]:
    """Return the amounts of a container that are above 0."""
    stated = {name: whole_amount(member, name, 0, MAX_DEVICES) for name in _own(member)}
    return {name: amount for name, amount in stated.items() if amount}


def _modes(resources: Iterable[str]) -> frozenset[Mode]:
    """Return the modes of the cards that the device plugin can give for these resources."""
    whole = (Mode.SHARED, Mode.MPS, Mode.WHOLE)
    return frozenset(
        mode
        for resource in resources
        for mode in ((Mode.MIG,) if resource.startswith(MIG_PREFIX) else whole)
    )


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

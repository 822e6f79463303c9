"""Adopts pods whose own record cannot be parsed, from the devices that the kubelet assigned.

Pods of NVIDIA's own device plugin have no record of their cards; those of Volcano's older plugin
have a number that only the driver understands. The node agent reports what the kubelet assigned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from adapters.dialects.containers import (
    PodContainer,
    pod_containers,
    resource_names,
    whole_amount,
)
from adapters.dialects.dialect import Dialect, DialectError
from adapters.wire.kube import Amount, Container, Pod, PodSpec, Resources
from adapters.wire.records.hardware import DeviceHolding, is_reported
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import KUBELET, Allocation, Grant

_MAX = 2**31 - 1

_Attribution = Sequence[tuple[PodContainer, DeviceHolding]]
"""Containers of a pod, each with devices that the kubelet assigned to it."""


def adopt_from_kubelet(
    found: Allocation,
    pod: Pod,
    node: Node,
    dialects: Sequence[Dialect],
    holdings: Sequence[DeviceHolding],
) -> Allocation:
    """Complete an allocation that could not be parsed, as far as the kubelet's devices allow.

    The kubelet's devices must cover everything that the pod requests: for each container as many
    as it requests, all of cards that the node has. Otherwise the allocation stays as it is. If
    other pods may share the cards, they are blocked, and no others; else the pod gets grants of
    them.

    Args:
        found: the allocation as read from the pod itself.
        pod: bound to the node.
        node: of the pod.
        dialects: all dialects.
        holdings: what the node's agent reports, also of other pods.
    """
    if found.unread is None or _requests_more(pod, dialects):
        return found
    cards = {card.uuid: card for card in node.cards}
    attribution = _attribute(pod, cards, holdings)
    if attribution is None:
        return found
    if any(holding.shared for _, holding in attribution):
        blocked = frozenset(uuid for _, holding in attribution for uuid in holding.cards)
        why = "the kubelet assigned its cards, and no record says which part of them is its own"
        return replace(found, blocked=blocked, unread=why)
    return replace(
        found,
        dialect=KUBELET,
        grants=tuple(grant for each in attribution for grant in _grants(*each, cards)),
        priority=pod.spec.priority or 0,
        unread=None,
        blocked=frozenset(),
    )


def _requests_more(pod: Pod, dialects: Sequence[Dialect]) -> bool:
    """Return whether a pod names a dialect's resource that no agent reports, even if 0 of it."""
    others: dict[str, Amount] = {name: 1 for name in resource_names(pod) if not is_reported(name)}
    spec = PodSpec(containers=(Container("", Resources(limits=others)),))
    return any(dialect.matches(Pod(pod.metadata, spec)) for dialect in dialects)


def _attribute(
    pod: Pod, cards: Mapping[str, Card], holdings: Sequence[DeviceHolding]
) -> _Attribution | None:
    """Return the pod's devices by container.

    None where they are not exactly what the pod requests.
    """
    own = [holding for holding in holdings if holding.pod == pod.metadata.uid]
    if not own or not all(cards.keys() >= set(holding.cards) for holding in own):
        return None
    try:
        found = [
            (member, holding) for member in pod_containers(pod) for holding in _of(member, own)
        ]
    except DialectError:
        return None
    return found if len(found) == len(own) else None


def _of(member: PodContainer, own: Sequence[DeviceHolding]) -> list[DeviceHolding]:
    """Return the devices of a container.

    Raises:
        DialectError: they are more or less than the container requests.
    """
    found = [holding for holding in own if holding.container == member.container.name]
    limits, requests = member.container.resources.limits, member.container.resources.requests
    named = {*(limits or ()), *(requests or ()), *(holding.resource for holding in found)}
    for resource in sorted(filter(is_reported, named)):
        requested = whole_amount(member, resource, 0, _MAX)
        counts = [holding.count for holding in found if holding.resource == resource]
        if counts != ([requested] if requested else []):
            raise DialectError(member.path, counts, f"is not the requested number of {resource}")
    return found


def _grants(member: PodContainer, holding: DeviceHolding, cards: Mapping[str, Card]) -> list[Grant]:
    return [
        Grant(
            member.container.name,
            uuid,
            cards[uuid].memory,
            FULL,
            exclusive=True,
            phase=member.phase,
        )
        for uuid in holding.cards
    ]

"""What a bound pod holds by the kubelet's account, where no record on the pod can be read.

Pods of NVIDIA's own device plugin say nothing of their cards; those of Volcano's older one say a
number, by which the driver counts and nobody else. The node agent tells what the kubelet gave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from adapters.dialects.containers import PodContainer, pod_containers, resource_names, whole_amount
from adapters.dialects.dialect import Dialect, DialectError
from adapters.wire.hardware import KUBELET, REPORTED, DeviceHolding
from adapters.wire.kube import Amount, Container, Pod, PodSpec, Resources
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Allocation, Grant

_MOST = 2**31 - 1


def adopt_from_kubelet(
    found: Allocation,
    pod: Pod,
    node: Node,
    dialects: Sequence[Dialect],
    holdings: Sequence[DeviceHolding],
) -> Allocation:
    """An allocation that could not be read, as far as the kubelet tells it.

    It must tell of everything that the pod asks for: of each container as many devices as that
    asks, all of cards that the node has. Otherwise the allocation stays as it is. Cards of which
    others may have a part are blocked, and no others; cards that are the pod's alone are held.

    Args:
        found: what the pod itself says.
        pod: which is bound to the node.
        node: where.
        dialects: the vocabularies.
        holdings: what the node's agent tells; of other pods too.
    """
    if found.unread is None:
        return found
    mine = [holding for holding in holdings if holding.pod == pod.metadata.uid]
    cards = {card.uuid: card for card in node.cards}
    if not mine or _asks_for_more(pod, dialects):
        return found
    if not all(cards.keys() >= set(holding.cards) for holding in mine):
        return found
    try:
        owners = [
            (member, holding) for member in pod_containers(pod) for holding in _of(member, mine)
        ]
    except DialectError:
        return found
    if len(owners) != len(mine):
        return found
    if any(holding.shared for _, holding in owners):
        held = frozenset(uuid for _, holding in owners for uuid in holding.cards)
        why = "the kubelet tells its cards, and nobody which part of them is its own"
        return replace(found, blocked=held, unread=why)
    return replace(
        found,
        dialect=KUBELET,
        grants=tuple(grant for owner in owners for grant in _grants(*owner, cards)),
        priority=pod.spec.priority or 0,
        unread=None,
        blocked=frozenset(),
    )


def _asks_for_more(pod: Pod, dialects: Sequence[Dialect]) -> bool:
    """Whether a pod names, in whatever amount, any resource of which the kubelet is not asked."""
    others: dict[str, Amount] = dict.fromkeys(resource_names(pod) - REPORTED, 1)
    spec = PodSpec(containers=(Container("", Resources(limits=others)),))
    return any(dialect.matches(Pod(pod.metadata, spec)) for dialect in dialects)


def _of(member: PodContainer, mine: Sequence[DeviceHolding]) -> list[DeviceHolding]:
    """What a container holds.

    Raises:
        DialectError: that is not all that it asks for, or more.
    """
    held = [holding for holding in mine if holding.container == member.container.name]
    for resource in REPORTED:
        asked = whole_amount(member, resource, 0, _MOST)
        counts = [holding.count for holding in held if holding.resource == resource]
        if counts != ([asked] if asked else []):
            raise DialectError(member.path, counts, f"is not what it asks for of {resource}")
    return held


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

"""Adopts bound pods: reads the allocation of each from the pod's own record.

A pod without a usable record blocks every card that it may use. Another scheduler, or a person, may
write any record: ``disagreements`` finds what an operator should look at, and decides nothing.
"""

from collections.abc import Sequence

from adapters.dialects import allocation_record
from adapters.dialects.adoption.foreign import adopt_foreign, adopted_allocation, unread_allocation
from adapters.dialects.allocation_record import ChoiceError, at_least, restate
from adapters.dialects.dialect import Dialect, DialectError, UnclearRecord
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import Pod, UnreadPod, annotations
from core.feasibility.suitability import reachable_cards
from core.hardware.card import Card
from core.hardware.mig import Slice
from core.hardware.node import Node
from core.hardware.quantity import FULL, MAX_COMPUTE, MAX_MEMORY, format_apart
from core.ledger.usage import contested_cards
from core.requests.grant import KUBELET, KUBELET_CHOOSES, Allocation, Grant, Placement
from core.requests.request import ContainerRequest, Request

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases in which all containers of a pod are gone."""

UNKNOWN = "unknown"
"""The dialect of an allocation whose pod cannot be parsed at all."""


def may_use_cards(pod: Pod) -> bool:
    """Return whether a pod may use cards: it is bound, and not all of its containers are gone.

    A terminating pod still uses its cards. One of which no node can be decoded may be bound.
    """
    is_bound = bool(pod.spec.node_name) or (isinstance(pod, UnreadPod) and not pod.node_known)
    return is_bound and pod.status.phase not in FINISHED


def adopt(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> Allocation | None:
    """Return the allocation of a pod that is bound to a node; None where the pod uses no card.

    Where another scheduler bound a pod that admission would reject, the rules of that scheduler
    apply. An allocation whose record is missing or cannot be parsed blocks every card that the
    pod may use, or those that the record names where that is known: these cards count as in use,
    and ``unread`` says why. A pod that cannot be decoded may use each card.
    """
    if isinstance(pod, UnreadPod):
        return _unread(pod, node, UNKNOWN, None, f"cannot be decoded: {pod.problem}")
    try:
        dialect = dialect_of(pod, dialects)
    except DialectError as error:
        return _unread(pod, node, UNKNOWN, None, str(error))
    if dialect is None:
        return adopt_foreign(pod, node)
    request: Request | None = None
    found: Allocation | None = None
    why, cards = "", None
    try:
        request = dialect.read_request(pod)
        if dialect.has_result(pod):
            grants = at_least(request, dialect.read_result(pod, request, node), node)
            found = Allocation.of(request, Placement(node.name, grants))
    except DialectError as error:
        why, cards = str(error), _cards_of(error)
    if found is None and allocation_record.KEY not in annotations(pod):
        try:
            adopted = dialect.read_adopted(pod, node)
            if adopted is not None:
                found = adopted_allocation(pod, node, dialect.name, adopted)
        except DialectError as error:
            why, cards = str(error), _cards_of(error)
    if found is None and request is not None and request.plugin is not None and not why:
        return _by_kubelet(pod, node, request)
    if found is None:
        why = why or f"runs on {node.name} without a record of its cards"
        return _unread(pod, node, dialect.name, request, why, cards)
    if not all(_possible(part) for grant in found.grants for part in (grant, grant.slice or grant)):
        why = "has a record of amounts that no card has"
        return _unread(pod, node, dialect.name, request, why)
    sliced = {grant.card for grant in found.grants if grant.slice is not None}
    if not sliced.isdisjoint(contested_cards(found)):
        why = "has a record that gives a part of a card to two containers: one of them has another"
        return _unread(pod, node, dialect.name, request, why, found.cards)
    return found


def unclear_cards(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> frozenset[str]:
    """Return the cards that the record of a bound pod may mean.

    Empty where it is clear, or unreadable.
    """
    try:
        dialect = dialect_of(pod, dialects)
        if dialect is not None and dialect.has_result(pod):
            dialect.read_result(pod, dialect.read_request(pod), node)
    except DialectError as error:
        return _cards_of(error) or frozenset()
    return frozenset()


def _possible(part: Grant | Slice) -> bool:
    return 0 < part.memory <= MAX_MEMORY and 0 <= part.compute <= MAX_COMPUTE


def _cards_of(error: DialectError) -> frozenset[str] | None:
    """Return the cards that a record names, if it names all cards of its pod."""
    return error.cards if isinstance(error, UnclearRecord) else None


def _by_kubelet(pod: Pod, node: Node, request: Request) -> Allocation | None:
    """Return the allocation of a pod that a device plugin serves: all cards that it can reach.

    None where it can reach none of the ledger's cards.
    """
    blocked = reachable_cards(request, node.cards)
    if not blocked:
        return None
    return unread_allocation(pod, node, KUBELET, blocked, KUBELET_CHOOSES)


def _unread(
    pod: Pod,
    node: Node,
    dialect: str,
    request: Request | None,
    why: str,
    cards: frozenset[str] | None = None,
) -> Allocation | None:
    """Return an allocation that blocks these cards.

    All that the pod may use where they are not known.

    None on a node without cards: no card of the ledger is in use.
    """
    if not node.cards:
        return None
    blocked = (
        card
        for card in node.cards
        if (_may_use(request, card) if cards is None else card.uuid in cards)
    )
    return unread_allocation(pod, node, dialect, blocked, why)


def _may_use(request: Request | None, card: Card) -> bool:
    if request is None:
        return True
    if request.vendor is not None:
        return request.vendor == card.vendor
    return request.dialect in card.dialects


def disagreements(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> tuple[str, ...]:
    """Return where the record of a bound pod differs from its request, in its dialect's terms.

    A record that names impossible cards, or other amounts than the request, was not written by a
    scheduler. What cannot be read at all is not compared, and neither is a record that names no
    containers, or cards that the node does not have. A percentage of a card's memory is rounded
    down by the schedulers, and up where a component takes the ``Value`` of a Kubernetes quantity:
    both are right.

    Returns:
        sentences whose subject is the pod.
    """
    try:
        dialect = dialect_of(pod, dialects)
        if dialect is None or not dialect.has_result(pod):
            return ()
        request = dialect.read_request(pod)
        text = annotations(pod).get(allocation_record.KEY)
        recorded = (
            dialect.read_result(pod, request, node)
            if text is None
            else allocation_record.decode(text)
        )
    except DialectError:
        return ()
    present = {card.uuid for card in node.cards}
    if any(not grant.container or grant.card not in present for grant in recorded):
        return ()
    try:
        expected = restate(request, recorded, node)
    except ChoiceError as error:
        return (f"its record {error}",)
    cards = {card.uuid: card for card in node.cards}
    containers = {each.name: each for each in request.containers}
    return tuple(
        _difference(have, want)
        for have, want in zip(_ordered(recorded), _ordered(expected), strict=True)
        if have.compute != want.compute
        or not _same_memory(have, want, containers[want.container], cards[want.card])
    )


def _ordered(grants: Sequence[Grant]) -> list[Grant]:
    def place(grant: Grant) -> tuple[str, str, int]:
        return grant.container, grant.card, -1 if grant.slice is None else grant.slice.start

    return sorted(grants, key=place)


def _same_memory(have: Grant, want: Grant, container: ContainerRequest, card: Card) -> bool:
    """Return whether the record has the memory of the request, within the record's unit."""
    if have.memory == want.memory:
        return True
    if want.slice is not None or container.memory_percent is None:
        return False
    hundredths = card.memory * container.memory_percent
    return abs(have.memory * FULL - hundredths) < container.step * FULL


def _difference(have: Grant, want: Grant) -> str:
    memory, requested = format_apart(have.memory, want.memory)
    return (
        f"its record gives {have.container} {memory}{_compute(have)} of {have.card},"
        f" its request {requested}{_compute(want)}"
    )


def _compute(grant: Grant) -> str:
    return f" and {grant.compute}%" if grant.compute else ""

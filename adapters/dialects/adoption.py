"""Adopts bound pods: reads the allocation of each from the pod's own record.

A pod without a usable record blocks every card that it may use. Another scheduler, or a person, may
write any record: ``disagreements`` finds what an operator should look at, and decides nothing.

A pod that requests no resource of a dialect can have HAMi's record: its resource names are
configurable (HAMi v2.10.0 charts/hami/values.yaml ``resourceName``), the record is always the same
annotation. Pods of NVIDIA's own device plugin have no record of their cards; those of Volcano's
older plugin have a number that only the driver understands. For these the node agent reports what
the kubelet assigned.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from adapters.dialects import allocation_record
from adapters.dialects.allocation_record import ChoiceError, at_least, restate
from adapters.dialects.containers import PodContainer, pod_containers, resource_names, whole_amount
from adapters.dialects.dialect import AdoptedAllocation, Dialect, DialectError, UnclearRecord
from adapters.dialects.formats import gpu_fractions
from adapters.dialects.formats.hami_record import HAMI, MIG_ALLOCATIONS, NVIDIA_ALLOCATED
from adapters.dialects.formats.hami_result import read_hami
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import (
    Amount,
    Container,
    Pod,
    PodSpec,
    Resources,
    UnreadPod,
    annotations,
    full_name,
)
from adapters.wire.records.hardware import DeviceHolding, is_reported
from core.feasibility.suitability import reachable_cards
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL, MAX_COMPUTE, MAX_MEMORY, format_apart
from core.ledger.usage import contested_cards
from core.requests.grant import KUBELET, KUBELET_CHOOSES, Allocation, Grant, Placement
from core.requests.request import ContainerRequest, Request

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases in which all containers of a pod are gone."""

KUBELET_SHARES = "the kubelet assigned its cards, and no record says which part of them is its own"
"""Why no other pod gets the cards of a replica or a MIG device; they are known."""

UNKNOWN = "unknown"
"""The dialect of an allocation whose pod cannot be parsed at all."""

NVIDIA = "nvidia"
"""The vendor of the cards that HAMi's record names."""

_MOST_DEVICES = 2**31 - 1


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
    reserved = gpu_fractions.reserved_card(pod)
    if any(card.uuid == reserved for card in node.cards):
        return _blocking(pod, node, KUBELET, {reserved or ""}, gpu_fractions.RESERVES)
    try:
        dialect = dialect_of(pod, dialects)
    except DialectError as error:
        return _unread(pod, node, UNKNOWN, None, str(error))
    if dialect is None:
        return _adopt_foreign(pod, node)
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
            found = None if adopted is None else _adopted(pod, node, dialect.name, adopted)
        except DialectError as error:
            why, cards = str(error), _cards_of(error)
    if found is None and request is not None and request.plugin is not None and not why:
        # A device plugin serves the pod, which may have all cards that it can reach.
        blocked = [card.uuid for card in reachable_cards(request, node.cards)]
        return _blocking(pod, node, KUBELET, blocked, KUBELET_CHOOSES) if blocked else None
    if found is None:
        why = why or f"runs on {node.name} without a record of its cards"
        return _unread(pod, node, dialect.name, request, why, cards)
    parts = (part for grant in found.grants for part in (grant, grant.slice or grant))
    if not all(0 < p.memory <= MAX_MEMORY and 0 <= p.compute <= MAX_COMPUTE for p in parts):
        why = "has a record of amounts that no card has"
        return _unread(pod, node, dialect.name, request, why)
    sliced = {grant.card for grant in found.grants if grant.slice is not None}
    if not sliced.isdisjoint(contested_cards(found)):
        why = "has a record that gives a part of a card to two containers: one of them has another"
        return _unread(pod, node, dialect.name, request, why, found.cards)
    return found


def _adopt_foreign(pod: Pod, node: Node) -> Allocation | None:
    """Return the allocation of a pod that requests no resource of a dialect; None without one."""
    if not any(annotations(pod).get(key) for key in (NVIDIA_ALLOCATED, MIG_ALLOCATIONS)):
        grants, unclear = gpu_fractions.read_fractions(
            pod, {card.uuid: card.memory for card in node.cards}
        )
        if unclear:
            every = unclear.union(grant.card for grant in grants)
            return _blocking(pod, node, KUBELET, every, gpu_fractions.UNKNOWN_PART)
        return _adopted(pod, node, KUBELET, AdoptedAllocation(grants)) if grants else None
    try:
        return _adopted(pod, node, HAMI, AdoptedAllocation(read_hami(pod, node)))
    except DialectError as error:
        cards = _cards_of(error)
        if cards is None:
            cards = frozenset(card.uuid for card in node.cards if card.vendor == NVIDIA)
        return _blocking(pod, node, HAMI, cards, str(error))


def _adopted(pod: Pod, node: Node, dialect: str, adopted: AdoptedAllocation) -> Allocation:
    return Allocation(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=dialect,
        node=node.name,
        grants=adopted.grants,
        terms=adopted.terms,
        priority=pod.spec.priority or 0,
    )


def _blocking(pod: Pod, node: Node, dialect: str, cards: Collection[str], why: str) -> Allocation:
    """Return the allocation of a pod whose record is missing or unusable, as ``why`` says.

    All of ``cards`` that the node has count as in use: the pod may use each of them.
    """
    return replace(
        _adopted(pod, node, dialect, AdoptedAllocation(())),
        unread=why,
        blocked=frozenset(card.uuid for card in node.cards if card.uuid in cards),
    )


def _unread(
    pod: Pod,
    node: Node,
    dialect: str,
    request: Request | None,
    why: str,
    cards: frozenset[str] | None = None,
) -> Allocation | None:
    """Return an allocation that blocks these cards, or all that the pod may use.

    None on a node without cards: no card of the ledger is in use.
    """

    def may_use(card: Card) -> bool:
        if request is None or request.vendor is not None:
            return request is None or request.vendor == card.vendor
        return request.dialect in card.dialects

    if not node.cards:
        return None
    if cards is None:
        cards = frozenset(card.uuid for card in node.cards if may_use(card))
    return _blocking(pod, node, dialect, cards, why)


def _cards_of(error: DialectError) -> frozenset[str] | None:
    """Return the cards that a record names, if it names all cards of its pod."""
    return error.cards if isinstance(error, UnclearRecord) else None


def unclear_cards(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> frozenset[str]:
    """Return the cards that a bound pod's record may mean; none where it is clear or unreadable."""
    try:
        dialect = dialect_of(pod, dialects)
        if dialect is not None and dialect.has_result(pod):
            dialect.read_result(pod, dialect.read_request(pod), node)
    except DialectError as error:
        return _cards_of(error) or frozenset()
    return frozenset()


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
    problems: list[str] = []
    for have, want in zip(_ordered(recorded), _ordered(expected), strict=True):
        same = _same_memory(have, want, containers[want.container], cards[want.card])
        if have.compute == want.compute and same:
            continue
        memory, requested = format_apart(have.memory, want.memory)
        problems.append(
            f"its record gives {have.container} {memory}{_compute(have)} of {have.card},"
            f" its request {requested}{_compute(want)}"
        )
    return tuple(problems)


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
    return abs(have.memory * FULL - card.memory * container.memory_percent) < container.step * FULL


def _compute(grant: Grant) -> str:
    return f" and {grant.compute}%" if grant.compute else ""


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
    if found.unread in (None, gpu_fractions.RESERVES):
        return found
    # A dialect's resource that no agent reports, even if the pod requests 0 of it.
    others: dict[str, Amount] = {name: 1 for name in resource_names(pod) if not is_reported(name)}
    rest = Pod(pod.metadata, PodSpec(containers=(Container("", Resources(limits=others)),)))
    if any(dialect.matches(rest) for dialect in dialects):
        return found
    cards = {card.uuid: card for card in node.cards}
    own = [holding for holding in holdings if holding.pod == pod.metadata.uid]
    if not own or not all(cards.keys() >= set(holding.cards) for holding in own):
        return found
    try:
        devices = [(one, holding) for one in pod_containers(pod) for holding in _of(one, own)]
    except DialectError:
        return found
    if len(devices) != len(own):
        return found
    if any(holding.shared for _, holding in devices):
        blocked = frozenset(uuid for _, holding in devices for uuid in holding.cards)
        return replace(found, blocked=blocked, unread=KUBELET_SHARES)
    return replace(
        found,
        dialect=KUBELET,
        grants=tuple(
            Grant(
                one.container.name, uuid, cards[uuid].memory, FULL, exclusive=True, phase=one.phase
            )
            for one, holding in devices
            for uuid in holding.cards
        ),
        priority=pod.spec.priority or 0,
        unread=None,
        blocked=frozenset(),
    )


def _of(member: PodContainer, own: Sequence[DeviceHolding]) -> list[DeviceHolding]:
    """Return the devices of a container.

    Raises:
        DialectError: they are more or less than the container requests.
    """
    found = [holding for holding in own if holding.container == member.container.name]
    limits, requests = member.container.resources.limits, member.container.resources.requests
    named = {*(limits or ()), *(requests or ()), *(holding.resource for holding in found)}
    for resource in sorted(filter(is_reported, named)):
        requested = whole_amount(member, resource, 0, _MOST_DEVICES)
        counts = [holding.count for holding in found if holding.resource == resource]
        if counts != ([requested] if requested else []):
            raise DialectError(member.path, counts, f"is not the requested number of {resource}")
    return found

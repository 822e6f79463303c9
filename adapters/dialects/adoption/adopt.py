"""Adopts bound pods: reads the allocation of each from the pod's own record.

A pod without a usable record blocks every card that it may use.
"""

from collections.abc import Sequence

from adapters.dialects import record
from adapters.dialects.adoption.bound import adopted_allocation, unread_allocation
from adapters.dialects.adoption.foreign import adopt_foreign
from adapters.dialects.containers import resource_names
from adapters.dialects.dialect import Dialect, DialectError, UnclearRecord
from adapters.dialects.matching import dialect_of
from adapters.dialects.merge import MAX_MEMORY
from adapters.dialects.restate import at_least
from adapters.wire.hardware import is_reported
from adapters.wire.kube import Pod, annotations
from core.hardware.card import Card
from core.hardware.mig import Slice
from core.hardware.node import Node
from core.requests.grant import Allocation, Grant, Placement
from core.requests.request import PluginShare, Request

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases in which all containers of a pod are gone."""

MAX_COMPUTE = 1 << 20
"""Percent of a card; a record with more than this is invalid."""

UNKNOWN = "unknown"
"""The dialect of an allocation whose pod cannot be parsed at all."""


def may_use_cards(pod: Pod) -> bool:
    """Whether a pod may use cards: it is bound, and not all of its containers are gone.

    A terminating pod still uses its cards.
    """
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED


def adopt(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> Allocation | None:
    """The allocation of a pod that is bound to a node; None where the pod uses no card.

    Where another scheduler bound a pod that admission would reject, the rules of that scheduler
    apply. An allocation whose record is missing or cannot be parsed blocks every card that the
    pod may use, or those that the record names where that is known: these cards count as in use,
    and ``unread`` says why.
    """
    try:
        dialect = dialect_of(pod, dialects)
    except DialectError as error:
        return _unread(pod, node, UNKNOWN, None, str(error))
    if dialect is None:
        return adopt_foreign(pod, node)
    request: Request | None = None
    found: Allocation | None = None
    cards: frozenset[str] | None = None
    try:
        request = dialect.read_request(pod)
        if dialect.has_result(pod):
            grants = at_least(request, dialect.read_result(pod, request, node), node)
            found = Allocation.of(request, Placement(node.name, grants))
        why = _without_record(pod, request, node)
    except DialectError as error:
        why, cards = str(error), _cards_of(error)
    if found is None and record.KEY not in annotations(pod):
        try:
            found = _adopted(pod, node, dialect)
        except DialectError as error:
            why, cards = str(error), _cards_of(error)
    if found is None:
        return _unread(pod, node, dialect.name, request, why, cards)
    if not all(_possible(part) for grant in found.grants for part in (grant, grant.slice or grant)):
        why = "has a record of amounts that no card has"
        return _unread(pod, node, dialect.name, request, why)
    return found


def unclear_cards(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> frozenset[str]:
    """The cards that the record of a bound pod may mean; empty where it is clear, or unreadable."""
    try:
        dialect = dialect_of(pod, dialects)
        if dialect is not None and dialect.has_result(pod):
            dialect.read_result(pod, dialect.read_request(pod), node)
    except DialectError as error:
        return _cards_of(error) or frozenset()
    return frozenset()


def _adopted(pod: Pod, node: Node, dialect: Dialect) -> Allocation | None:
    adopted = dialect.read_adopted(pod, node)
    return None if adopted is None else adopted_allocation(pod, node, dialect.name, adopted)


def _possible(part: Grant | Slice) -> bool:
    return part.memory <= MAX_MEMORY and part.compute <= MAX_COMPUTE


def _cards_of(error: DialectError) -> frozenset[str] | None:
    """The cards that a record names, if it names all cards of its pod."""
    return error.cards if isinstance(error, UnclearRecord) else None


def _without_record(pod: Pod, request: Request, node: Node) -> str:
    """Why the cards of a pod without a record are not known."""
    if request.plugin is not None and any(map(is_reported, resource_names(pod))):
        return f"the kubelet of {node.name} chose its cards, and the agent has not reported which"
    return f"runs on {node.name} without a record of its cards"


def _unread(
    pod: Pod,
    node: Node,
    dialect: str,
    request: Request | None,
    why: str,
    cards: frozenset[str] | None = None,
) -> Allocation | None:
    """An allocation that blocks these cards; all that the pod may use where they are not known.

    None on a node without cards, and for a pod of a vendor's device plugin that can reach none of
    them: no card of the ledger is in use.
    """
    blocked = [
        card
        for card in node.cards
        if (_may_use(request, card) if cards is None else card.uuid in cards)
    ]
    if not node.cards or (request is not None and request.plugin is not None and not blocked):
        return None
    return unread_allocation(pod, node, dialect, blocked, why)


def _may_use(request: Request | None, card: Card) -> bool:
    if request is None:
        return True
    if request.vendor is None:
        return request.dialect in card.dialects
    by_mode = request.plugin is not PluginShare.DEVICE or card.mode in request.modes
    return request.vendor == card.vendor and by_mode

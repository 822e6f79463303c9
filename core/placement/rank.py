"""The order of cards and nodes where several fit.

Every criterion is a function to an integer, higher is better: no order depends on a float.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from core.hardware.card import Card
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage, shares_by_card
from core.placement.topology import linked_pairs
from core.requests.grant import Grant, Placement
from core.requests.request import CardKey, ContainerRequest, NodeKey, Request, TaskClass, Weights

PPM = 1_000_000
"""Weighted use is counted in parts per million."""

OFFLINE_ONLY = 100
ONLINE_TASK = 20
OFFLINE_TASK = 2
"""What a chosen card costs an online task: for each offline task where it has no others, else
for each online and each offline task. Source: HAMi v2.10.0 pkg/device/metax/sdevice.go:841-881."""

LINK_GAIN = 10
"""How much more a link inside the group counts than a link that the group breaks.
Source: HAMi v2.10.0 pkg/device/metax/sdevice.go:669-736."""

NO_ENTRY = -(1 << 62)
"""The value of a node whose table has no entry for a number of cards: less than any entry."""


@dataclass(frozen=True, slots=True)
class CardCandidate:
    """The state of one card while a container is being placed.

    Attributes:
        use: what other pods hold of it.
        own: what earlier containers of the same pod hold of it at the same time.
    """

    card: Card
    use: CardUsage
    own: tuple[Grant, ...]


def card_value(
    key: CardKey, request: Request, container: ContainerRequest, candidate: CardCandidate
) -> int:
    """Return how good a card is by one criterion."""
    match key:
        case CardKey.LOW_INDEX:
            return -candidate.card.index
        case CardKey.HIGH_INDEX:
            return candidate.card.index
        case CardKey.LOW_NUMA:
            return -_numa(candidate.card)
        case CardKey.HIGH_NUMA:
            return _numa(candidate.card)
        case CardKey.MOST_MEMORY_USED:
            return _with_own(request, candidate).memory
        case CardKey.FEWEST_SHARERS:
            return -_with_own(request, candidate).slots
        case CardKey.FULLEST:
            return _load_after(request, container, candidate)
        case CardKey.EMPTIEST:
            return -_load_after(request, container, candidate)
        case CardKey.IDLE:
            return int(not candidate.use.shares and not candidate.own)
        case CardKey.ONLINE:
            return _online_order(candidate.use)
        case _:
            assert_never(key)


def order_cards(
    request: Request,
    container: ContainerRequest,
    candidates: Sequence[CardCandidate],
    positions: Sequence[int],
) -> tuple[int, ...]:
    """Return positions of cards, best first; ascending index breaks the last tie.

    Args:
        request: it has the ranking.
        container: the one that is being placed.
        candidates: all cards of the node.
        positions: which of them to order.
    """

    def key(position: int) -> tuple[int, ...]:
        candidate = candidates[position]
        values = (card_value(each, request, container, candidate) for each in request.ranking.cards)
        return (*(-value for value in values), candidate.card.index)

    return tuple(sorted(positions, key=key))


def shares(ledger: NodeLedger) -> tuple[int, int, int]:
    """Return slots, compute and memory in use over all cards of a node, each in parts per million.

    A node without compute counts as idle, as for HAMi v2.10: pkg/scheduler/policy/node_policy.go,
    ComputeDefaultScore.
    """
    slots = compute = memory = all_slots = all_compute = all_memory = 0
    for card, use in zip(ledger.node.cards, ledger.usages, strict=True):
        slots, compute, memory = slots + use.slots, compute + use.compute, memory + use.memory
        all_slots, all_memory = all_slots + card.slots, all_memory + card.memory
        all_compute += card.compute
    if not all_compute:
        return 0, 0, 0
    return _ppm(slots, all_slots), _ppm(compute, all_compute), _ppm(memory, all_memory)


def load(ledger: NodeLedger, weights: Weights) -> int:
    """Return a node's weighted use over all its cards, in parts per million of each dimension."""
    slots, compute, memory = shares(ledger)
    return weights.slots * slots + weights.compute * compute + weights.memory * memory


def needs_placement(key: NodeKey) -> bool:
    """Return whether a criterion depends on the chosen cards; others depend on the node alone."""
    return key not in (NodeKey.FULLEST, NodeKey.EMPTIEST)


def node_value(key: NodeKey, request: Request, ledger: NodeLedger, placement: Placement) -> int:
    """Return how good a node is by one criterion.

    Args:
        key: the criterion.
        request: what the pod asks for.
        ledger: the node before the placement.
        placement: on that node.
    """
    match key:
        case NodeKey.FULLEST:
            return load(ledger, request.ranking.weights)
        case NodeKey.EMPTIEST:
            return -load(ledger, request.ranking.weights)
        case NodeKey.CHOSEN_FULLEST:
            return _chosen_fullest(ledger, placement)
        case NodeKey.LINKS:
            return _links(request, ledger, placement)
        case NodeKey.LEAST_LOSS:
            return _table_value(ledger.node.losses, placement, sign=-1)
        case NodeKey.MOST_GAIN:
            return _table_value(ledger.node.gains, placement, sign=1)
        case NodeKey.ONLINE:
            return _online_cost(ledger, placement)
        case _:
            assert_never(key)


def _numa(card: Card) -> int:
    return -1 if card.numa is None else card.numa


def _ppm(amount: int, total: int) -> int:
    return amount * PPM // total if total else 0


def _with_own(request: Request, candidate: CardCandidate) -> CardUsage:
    return (
        candidate.use.plus(shares_by_card(request, candidate.own))
        if candidate.own
        else candidate.use
    )


def _load_after(request: Request, container: ContainerRequest, candidate: CardCandidate) -> int:
    """Return weighted use of a card after the request; 0 of a card without compute.

    Source: HAMi v2.10 pkg/scheduler/policy/gpu_policy.go, ComputeScore.
    """
    weights, card, use = request.ranking.weights, candidate.card, _with_own(request, candidate)
    if not card.compute:
        return 0
    return (
        weights.slots * _ppm(use.slots + 1, card.slots)
        + weights.compute * _ppm(use.compute + container.compute, card.compute)
        + weights.memory * _ppm(use.memory + container.memory_on(card.memory), card.memory)
    )


def _tasks(use: CardUsage, task_class: TaskClass) -> int:
    return sum(holder.terms.task_class is task_class for holder in use.shares)


def _online_order(use: CardUsage) -> int:
    online, offline = _tasks(use, TaskClass.ONLINE), _tasks(use, TaskClass.OFFLINE)
    offline_only = int(offline > 0 and not online)
    return -((offline_only * PPM + online) * PPM + offline)


def _online_cost(ledger: NodeLedger, placement: Placement) -> int:
    cost = 0
    chosen = {grant.card for grant in placement.grants}
    for card, use in zip(ledger.node.cards, ledger.usages, strict=True):
        if card.uuid not in chosen:
            continue
        online, offline = _tasks(use, TaskClass.ONLINE), _tasks(use, TaskClass.OFFLINE)
        cost += ONLINE_TASK * online + OFFLINE_TASK * offline if online else OFFLINE_ONLY * offline
    return -cost


def _chosen_fullest(ledger: NodeLedger, placement: Placement) -> int:
    used = {
        card.uuid: (use.memory, card.memory)
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
    }
    value = 0
    for grant in placement.grants:
        before, total = used[grant.card]
        used[grant.card] = (before + grant.memory, total)
        value += _ppm(before + grant.memory, total)
    return value


def _links(request: Request, ledger: NodeLedger, placement: Placement) -> int:
    taken = {grant.card for grant in placement.grants if grant.exclusive}
    if not taken:
        return 0
    levels = request.topology.levels
    idle = [c for c, use in zip(ledger.node.cards, ledger.usages, strict=True) if not use.shares]
    chosen = linked_pairs([card for card in idle if card.uuid in taken], levels)
    rest = linked_pairs([card for card in idle if card.uuid not in taken], levels)
    return LINK_GAIN * chosen - (linked_pairs(idle, levels) - chosen - rest)


def _table_value(table: tuple[tuple[int, int], ...], placement: Placement, *, sign: int) -> int:
    value = dict(table).get(len(placement.grants))
    return NO_ENTRY if value is None else sign * value

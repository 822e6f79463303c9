"""What it costs at least that pods get cards of which each takes more than half.

No two of them share a card. Of each such card at least as many bytes have to leave as lack for one,
and no pod that leaves is counted for two cards. So any plan costs at least what the cheapest cards
cost, each pod with cards of one node; and where pods differ, the sum over the kinds of pods.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations

from core.feasibility.cache import request_signature
from core.feasibility.suitability import unsuitable
from core.hardware.card import Card, Mode
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import shares_of
from core.moves.places import Places
from core.moves.situation import PlannedPod
from core.requests.required_memory import required_memory

MOST = 12
"""Movable pods of a card of which all sets are compared; of more, one leaves at least."""


class CardPrices:
    """The prices of a situation, before a plan changes it."""

    def __init__(
        self, pods: Sequence[PlannedPod], places: Places, expired: Callable[[], bool]
    ) -> None:
        """Compute what the cards of each kind of pods cost.

        Args:
            pods: that are to get a place.
            places: of the situation.
            expired: whether the time is over; then the cards of further kinds cost nothing.
        """
        self._kind_of: dict[str, Hashable] = {}
        self._prices: dict[Hashable, list[Fraction]] = {}
        for pod in pods:
            kind = request_signature(pod.request), pod.nodes
            if kind not in self._prices:
                self._prices[kind] = [] if expired() else sorted(_prices(pod, places))
            self._kind_of[pod.request.uid] = kind

    def cost(self, placed: Collection[str]) -> Fraction:
        """What every plan costs at least that gives some pods a place, by their uids."""
        counts: dict[Hashable, int] = {}
        for uid in placed:
            kind = self._kind_of[uid]
            counts[kind] = counts.get(kind, 0) + 1
        return sum(
            (sum(self._prices[kind][:count], Fraction(0)) for kind, count in counts.items()),
            Fraction(0),
        )


def _prices(pod: PlannedPod, places: Places) -> Iterator[Fraction]:
    """What each of the places costs at least that pods of a kind can have at the same time.

    Nothing for a kind of which two may share a card, or one has several containers.
    """
    inventory = places.situation.inventory
    (container, *others) = pod.request.containers
    models = [card for card in inventory.models() if unsuitable(pod.request, card) is None]
    if others or not all(
        card.mode is not Mode.MIG
        and 2 * required_memory(pod.request, container, card) > card.memory
        for card in models
    ):
        return
    for node in pod.nodes:
        ledger = inventory.ledger(node)
        prices = sorted(
            price
            for position, card in enumerate(ledger.node.cards)
            if unsuitable(pod.request, card) is None
            for price in _price(
                ledger, position, required_memory(pod.request, container, card), places
            )
        )
        for first in range(0, len(prices) - container.count + 1, container.count):
            yield sum(prices[first : first + container.count], Fraction(0))


def _price(ledger: NodeLedger, position: int, memory: int, places: Places) -> Iterator[Fraction]:
    """The least weight that has to leave a card; nothing where too little may leave."""
    card: Card = ledger.node.cards[position]
    use, movable = ledger.usages[position], places.situation.movable
    lacking = use.memory + memory - card.memory
    if lacking <= 0:
        yield Fraction(0)
        return
    freed: list[tuple[Fraction, int]] = []
    for share in use.shares:
        if share.uid in movable:
            cards = len(shares_of(ledger.allocations[share.uid]))
            freed.append((Fraction(movable[share.uid].weight, cards), share.memory))
    if sum(amount for _, amount in freed) < lacking:
        return
    if len(freed) > MOST:
        yield min(weight for weight, _ in freed)
        return
    yield min(
        sum((weight for weight, _ in some), Fraction(0))
        for size in range(1, len(freed) + 1)
        for some in combinations(freed, size)
        if sum(amount for _, amount in some) >= lacking
    )

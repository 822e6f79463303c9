"""What every plan for many pods costs at least, and which pods no plan gives a place.

A search for one pod after the other proves nothing about all of them. Three relaxations do:

* Each pod alone needs a hole, and its cheapest one has a price.
* A pod without a free place needs a card that a movable pod leaves. All pods that come to such
  cards have together at most what was free there and what left: of the movable pods, those that
  free most for their weight are counted first, the last one in part.
* Pods that need more than half a card have cards of their own: no two of them share one. Of each
  such card at least as many bytes have to leave as lack for one, and no pod that leaves is counted
  for two cards. So any plan costs at least what the cheapest cards cost, each pod with cards of one
  node; and where pods differ, the sum over the kinds of pods.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations
from math import ceil

from core.feasibility.cache import request_signature
from core.feasibility.suitability import unsuitable
from core.hardware.card import Card, Mode
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import shares_of
from core.moves.places import Places, State
from core.moves.search import never
from core.moves.situation import PlannedPod, comparable
from core.requests.request import required_memory

_NOW = State({})

MOST = 12
"""Movable pods of a card of which all sets are compared; of more, one leaves at least."""


@dataclass(frozen=True, slots=True)
class _Price:
    """What one pod needs.

    Attributes:
        hole: the weights of the pods that leave the cheapest hole, 0 where one is free; None where
            no pod that may leave makes room.
        memory: bytes that it has at least of cards that others leave; 0 where it may need none.
    """

    hole: int | None
    memory: int


_FREE = _Price(0, 0)


class Bound:
    """The bounds of a situation, before a plan changes it."""

    def __init__(
        self, pods: Sequence[PlannedPod], places: Places, expired: Callable[[], bool] = never
    ) -> None:
        """Compute the price of each pod that is to get a place; nothing once the time is over."""
        self._price = {pod.request.uid: _FREE if expired() else _price(pod, places) for pod in pods}
        # Of too many sets of pods, some are not compared: a hole may cost less than its price.
        self._complete = places.complete
        self._comparable = comparable(pods, places.situation)
        self._cards = CardPrices(pods, places, expired)
        self._freed = [*_freed(places)]

    def unresolvable(self) -> frozenset[str]:
        """Return the uids of the pods that have no place even if all movable pods leave."""
        if not self._comparable:
            return frozenset()
        return frozenset(uid for uid, price in self._price.items() if price.hole is None)

    def cost(self, placed: Collection[str]) -> int:
        """Return what every plan costs at least that gives some pods a place, by their uids."""
        if not self._comparable:
            return 0
        prices = [self._price[uid] for uid in placed]
        memory = sum(price.memory for price in prices)
        cost = Fraction(0)
        in_order = sorted(self._freed, key=lambda each: Fraction(*each)) if memory else ()
        for weight, freed in in_order:
            part = min(Fraction(memory, freed), Fraction(1))
            cost += weight * part
            memory -= ceil(freed * part)
            if memory <= 0:
                break
        holes = [price.hole or 0 for price in prices if self._complete]
        return max([ceil(cost), ceil(self._cards.cost(placed)), *holes])


def _price(pod: PlannedPod, places: Places) -> _Price:
    if places.is_free(pod, _NOW):
        return _FREE
    costs = (places.least(pod, _NOW, node) for node in pod.nodes)
    hole = min((cost for cost in costs if cost is not None), default=None)
    least_of_a_card = min(
        (
            required_memory(pod.request, container, card)
            for card in places.situation.inventory.models()
            if unsuitable(pod.request, card) is None
            for container in pod.request.containers
        ),
        default=0,
    )
    return _Price(hole, _lacking(pod, places) * least_of_a_card)


def _lacking(pod: PlannedPod, places: Places) -> int:
    """Return how many cards the pod lacks at least, on whichever node it goes to."""
    first, *others = pod.request.containers
    most = 1 if others else first.count
    for fewer in range(most):
        containers = pod.request.containers
        if fewer:
            containers = (replace(first, count=first.count - fewer),)
        # A uid of its own: places are remembered by uid.
        uid = f"{pod.request.uid}-{fewer}"
        part = replace(pod.request, uid=uid, containers=containers)
        if places.is_free(PlannedPod(part, pod.nodes), _NOW):
            return fewer
    return most


def _freed(places: Places) -> Iterable[tuple[int, int]]:
    """Yield of each movable pod its weight and the bytes that its cards have free without it."""
    inventory = places.situation.inventory
    for uid, pod in places.situation.movable.items():
        ledger = inventory.ledger(places.source_of[uid])
        cards = shares_of(ledger.allocations[uid])
        freed = sum(
            max(card.memory - use.memory, 0) + use.memory - use.minus(uid).memory
            for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
            if card.uuid in cards
        )
        if freed:
            yield pod.weight, freed


class CardPrices:
    """The prices of a situation, before a plan changes it."""

    def __init__(
        self, pods: Sequence[PlannedPod], places: Places, expired: Callable[[], bool]
    ) -> None:
        """Compute what the cards of each kind of pods cost; nothing once the time is over."""
        self._kind_of: dict[str, Hashable] = {}
        self._prices: dict[Hashable, list[Fraction]] = {}
        for pod in pods:
            kind = request_signature(pod.request), pod.nodes
            if kind not in self._prices:
                self._prices[kind] = [] if expired() else sorted(_card_prices(pod, places))
            self._kind_of[pod.request.uid] = kind

    def cost(self, placed: Collection[str]) -> Fraction:
        """Return what every plan costs at least that gives some pods a place, by their uids."""
        counts = Counter(map(self._kind_of.__getitem__, placed))
        prices = (self._prices[kind][:count] for kind, count in counts.items())
        return sum(chain.from_iterable(prices), Fraction(0))


def _card_prices(pod: PlannedPod, places: Places) -> Iterator[Fraction]:
    """Yield what each of the places costs at least that pods of a kind can have at the same time.

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
            for price in _card_price(
                ledger, position, required_memory(pod.request, container, card), places
            )
        )
        for first in range(0, len(prices) - container.count + 1, container.count):
            yield sum(prices[first : first + container.count], Fraction(0))


def _card_price(
    ledger: NodeLedger, position: int, memory: int, places: Places
) -> Iterator[Fraction]:
    """Yield the least weight that has to leave a card; nothing where too little may leave."""
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

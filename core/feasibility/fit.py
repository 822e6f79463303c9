"""One request against one node: the cards that it would get, or why it gets none.

Exact: when any assignment of cards and slices to the pod's containers exists, one is found, as
long as the search stays within ``TRIES``. The first assignment tried is the one that the ranking
prefers for each container in turn; only when it leads nowhere are others tried.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import product

from core.hardware import mig
from core.hardware.card import Card, Mode
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardShare, concurrent_grants, first_conflict, shares_by_card
from core.placement.rank import CardCandidate, card_value, order_cards
from core.placement.topology import LinkQuery, linked_groups
from core.requests.grant import Grant, Placement
from core.requests.reason import Cause, Obstacle, Reason, count_causes
from core.requests.request import ContainerRequest, Request

TRIES = 1024
"""How many choices of one container's cards are tried before the node is given up."""

Chosen = tuple[tuple[int, Grant], ...]
"""The cards of one container, by position, and what it gets of each."""


def fit(request: Request, ledger: NodeLedger) -> Placement | Reason:
    """Place a request on a node.

    What the same pod holds there already counts as free.

    Args:
        request: what is asked.
        ledger: the node and what is held of it.
    """
    whole = _whole_node(request, ledger)
    if whole is not None:
        return whole
    return _Search(request, ledger.release(request.uid)).run()


def unsuitable(request: Request, card: Card) -> Cause | None:
    """Why a card will never do for a request, whoever holds it; None where it may do."""
    if request.dialect not in card.dialects:
        return Cause.DIALECT
    if not card.healthy:
        return Cause.UNHEALTHY
    if request.vendor is not None and request.vendor != card.vendor:
        return Cause.VENDOR
    if card.mode not in request.modes:
        return Cause.MODE
    if card.uuid in request.deny_uuids:
        return Cause.UUID
    if request.allow_uuids is not None and card.uuid not in request.allow_uuids:
        return Cause.UUID
    return None if _type_allowed(request, card) else Cause.TYPE


def required_memory(ask: ContainerRequest, card: Card) -> int:
    """Bytes that a container needs of a card.

    Of a card in MIG mode a percentage is at most its largest slice: all of it is what can be had.
    """
    memory = ask.memory_on(card.memory)
    if card.mode is not Mode.MIG or ask.memory is not None:
        return memory
    largest = max((slot.memory for slot in mig.free_slices(card.geometry, ())), default=memory)
    return min(memory, largest)


def _type_allowed(request: Request, card: Card) -> bool:
    if request.allow_types is None and not request.deny_types:
        return True
    names = [name.lower() for name in (*card.names, card.model)]
    if request.allow_types is not None:
        return any(wanted.lower() in name for wanted in request.allow_types for name in names)
    return not any(barred.lower() in name for barred in request.deny_types for name in names)


def _whole_node(request: Request, ledger: NodeLedger) -> Reason | None:
    node = ledger.node
    total = len(node.cards)
    if not total:
        return Reason(node.name, 0, cause=Cause.NO_CARDS)
    if not any(request.dialect in card.dialects for card in node.cards):
        return Reason(node.name, total, cause=Cause.NO_DIALECT)
    if request.isolation is not None and request.isolation != node.isolation:
        return Reason(node.name, total, cause=Cause.ISOLATION)
    for ask in request.containers:
        if ask.count > total:
            return Reason(node.name, total, ask.count, ask.name, Cause.TOO_FEW)
    return None


class _Search:
    """Depth first over the containers; state is what each card has given to them so far."""

    def __init__(self, request: Request, ledger: NodeLedger) -> None:
        self.request = request
        self.node = ledger.node
        self.uses = ledger.usages
        self.never = [unsuitable(request, card) for card in ledger.node.cards]
        self.own: list[tuple[Grant, ...]] = [()] * len(ledger.usages)
        self.last = len(request.containers) - 1
        self.kinds = self._kinds() if self.last else []
        self.dead: set[Hashable] = set()
        self.tries = 0
        self.failure: Reason | None = None

    def run(self) -> Placement | Reason:
        """The first assignment in the order of preference, or the first thing in its way."""
        alone = range(len(self.request.containers)) if self.last else ()
        if all(next(self._choices(turn), None) for turn in alone):
            grants = self._place(0)
            if grants is not None:
                return Placement(self.node.name, grants)
        return self.failure or Reason(self.node.name, len(self.node.cards), cause=Cause.TOGETHER)

    def _place(self, turn: int) -> tuple[Grant, ...] | None:
        if turn > self.last:
            return ()
        state = (turn, self._state()) if turn else None
        if state in self.dead:
            return None
        for chosen in self._choices(turn):
            self.tries += 1
            if self.tries > TRIES:
                return None
            before = [self.own[position] for position, _ in chosen]
            for position, grant in chosen:
                self.own[position] = (*self.own[position], grant)
            rest = self._place(turn + 1)
            if rest is not None:
                return (*(grant for _, grant in chosen), *rest)
            for (position, _), grants in zip(chosen, before, strict=True):
                self.own[position] = grants
        self.dead.add(state)
        return None

    def _choices(self, turn: int) -> Iterator[Chosen]:
        """What one container could be given now, best first; the first failure is noted."""
        ask = self.request.containers[turn]
        offers, obstacles = self._offers(ask)
        if len(offers) < ask.count:
            self._fail(ask, None, obstacles)
            return
        empty = True
        for positions in self._positions(turn, offers):
            for grants in product(*(offers[position] for position in positions)):
                empty = False
                yield tuple(zip(positions, grants, strict=True))
        if empty:
            scoped = self.request.topology.required is not None
            self._fail(ask, Cause.NO_SCOPE if scoped else Cause.NO_PARTITION, obstacles)

    def _fail(self, ask: ContainerRequest, cause: Cause | None, obstacles: list[Obstacle]) -> None:
        if self.failure is None:
            if cause is None and any(self.own):
                cause = Cause.TOGETHER
            self.failure = Reason(
                self.node.name,
                len(self.node.cards),
                ask.count,
                ask.name,
                cause,
                count_causes(obstacles),
            )

    def _offers(self, ask: ContainerRequest) -> tuple[dict[int, tuple[Grant, ...]], list[Obstacle]]:
        offers: dict[int, tuple[Grant, ...]] = {}
        obstacles: list[Obstacle] = []
        alone: dict[int, CardShare] = {}
        for position, never in enumerate(self.never):
            offer = Obstacle(never) if never else self._offer(ask, position, alone)
            if isinstance(offer, Obstacle):
                obstacles.append(offer)
            else:
                offers[position] = offer
        return offers, obstacles

    def _offer(
        self, ask: ContainerRequest, position: int, alone: dict[int, CardShare]
    ) -> tuple[Grant, ...] | Obstacle:
        """All that one card could give: one grant, or on a card in MIG mode any of its slices.

        Args:
            ask: of the container.
            position: of the card.
            alone: by memory, what the pod would hold of a card of which it has nothing yet.
        """
        own = self.own[position]
        beside = concurrent_grants(own, ask.phase)
        if beside and ask.exclusive:
            return Obstacle(Cause.IN_USE)
        if beside and any(earlier.exclusive for earlier in beside):
            return Obstacle(Cause.HELD_EXCLUSIVELY)
        grants = self._grants(ask, position, beside)
        if isinstance(grants, Obstacle):
            return grants
        first = grants[0]
        if own or first.slice is not None:
            holder = shares_by_card(self.request, (*own, first))
        else:
            holder = alone.get(first.memory) or shares_by_card(self.request, grants)
            alone[first.memory] = holder
        return first_conflict(self.node.cards[position], self.uses[position], holder) or grants

    def _grants(
        self, ask: ContainerRequest, position: int, beside: list[Grant]
    ) -> tuple[Grant, ...] | Obstacle:
        card = self.node.cards[position]
        memory = required_memory(ask, card)
        if card.mode is not Mode.MIG:
            return (Grant(ask.name, card.uuid, memory, ask.compute, ask.exclusive, ask.phase),)
        slots = self._slots(ask, position, beside)
        if not slots:
            large = mig.best_free_slice(card.geometry, (), memory, ask.compute)
            return Obstacle(Cause.NO_SLICE if large else Cause.NO_PROFILE)
        return tuple(
            Grant(
                ask.name,
                card.uuid,
                slot.memory,
                slot.compute,
                ask.exclusive,
                ask.phase,
                slot,
            )
            for slot in slots
        )

    def _slots(self, ask: ContainerRequest, position: int, beside: list[Grant]) -> list[mig.Slice]:
        """Slices that an earlier container leaves behind come first: they are the pod's anyway."""
        card, own = self.node.cards[position], self.own[position]
        memory = required_memory(ask, card)
        mine = dict.fromkeys(grant.slice for grant in own if grant.slice is not None)
        busy = {grant.slice for grant in beside}
        left = [
            slot
            for slot in mine
            if slot not in busy and slot.memory >= memory and slot.compute >= ask.compute
        ]
        left.sort(key=lambda slot: (slot.size, slot.memory))
        held = (*self.uses[position].slices(), *mine)
        return left + mig.free_slices(card.geometry, held, memory, ask.compute)

    def _positions(
        self, turn: int, offers: dict[int, tuple[Grant, ...]]
    ) -> Iterator[tuple[int, ...]]:
        ask = self.request.containers[turn]
        views = [
            CardCandidate(card, use, tuple(concurrent_grants(own, ask.phase)))
            for card, use, own in zip(self.node.cards, self.uses, self.own, strict=True)
        ]
        order = order_cards(self.request, ask, views, tuple(offers))
        if ask.linked:
            return linked_groups(self._choice(ask, views, order))
        if turn == self.last:
            return iter((order[: ask.count],))
        return distinct_choices(order, ask.count, self._labels())

    def _choice(
        self, ask: ContainerRequest, views: Sequence[CardCandidate], order: tuple[int, ...]
    ) -> LinkQuery:
        first = self.request.ranking.cards[0]
        return LinkQuery(
            node=self.node,
            topology=self.request.topology,
            count=ask.count,
            exclusive=ask.exclusive,
            order=order,
            worth=tuple(card_value(first, self.request, ask, views[p]) for p in order),
            idle=frozenset(
                position
                for position, view in enumerate(views)
                if not view.use.shares and not view.own
            ),
        )

    def _kinds(self) -> list[Hashable]:
        """By position: what two idle cards have in common if one does wherever the other does."""
        return [
            position
            if use.shares or card.mode is Mode.MIG or self.node.partitions
            else (card.memory, card.slots, card.links)
            for position, (card, use) in enumerate(zip(self.node.cards, self.uses, strict=True))
        ]

    def _labels(self) -> list[Hashable]:
        """The kinds, with what this pod was given so far."""
        return [
            (kind, never, *((g.memory, g.compute, g.exclusive, g.phase, g.slice) for g in own))
            for kind, never, own in zip(self.kinds, self.never, self.own, strict=True)
        ]

    def _state(self) -> Hashable:
        return frozenset(Counter(self._labels()).items())


def distinct_choices(
    order: Sequence[int], count: int, labels: Sequence[Hashable]
) -> Iterator[tuple[int, ...]]:
    """All choices of some positions, earlier ones first; of those with equal labels, the first."""
    if not count:
        yield ()
        return
    done: set[Hashable] = set()
    for place, position in enumerate(order):
        if labels[position] not in done:
            later = [other for other in order[place + 1 :] if labels[other] not in done]
            for rest in distinct_choices(later, count - 1, labels):
                yield (position, *rest)
            done.add(labels[position])

"""One request against one node: the cards that it would get, or why it gets none.

Exact: when any assignment of cards to the pod's containers exists, one is found, as long as the
search stays within ``TRIES``. The first assignment tried is the one that the ranking prefers for
each container in turn; only when it leads nowhere are others tried.
"""

from collections.abc import Iterator
from itertools import combinations

from core import mig
from core.card import Card, Mode
from core.grant import Grant, Placement
from core.ledger import NodeLedger
from core.rank import CardView, card_value, order_cards
from core.reason import Cause, Obstacle, Reason, tally
from core.request import Ask, Request
from core.topology import Choice, groups
from core.usage import CardUse, Holder, concurrent, hold, obstacle

TRIES = 4096
"""How many assignments of one container's cards are tried before the node is given up."""


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


def _type_allowed(request: Request, card: Card) -> bool:
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
    for ask in request.asks:
        if ask.count > total:
            return Reason(node.name, total, ask.count, ask.container, Cause.TOO_FEW)
    return None


class _Search:
    """Depth first over the containers; state is the stack of grants made so far."""

    def __init__(self, request: Request, ledger: NodeLedger) -> None:
        self.request = request
        self.node = ledger.node
        self.uses = ledger.uses
        self.own: list[tuple[Grant, ...]] = [()] * len(ledger.uses)
        self.tries = 0
        self.failure: Reason | None = None

    def run(self) -> Placement | Reason:
        grants = self._place(0)
        if grants is not None:
            return Placement(self.node.name, grants)
        return self.failure or Reason(self.node.name, len(self.node.cards), cause=Cause.TOGETHER)

    def _place(self, turn: int) -> tuple[Grant, ...] | None:
        if turn == len(self.request.asks):
            return ()
        ask = self.request.asks[turn]
        offers, obstacles = self._offers(ask)
        if len(offers) < ask.count:
            self._fail(ask, None, obstacles)
            return None
        seen: set[tuple[object, ...]] = set()
        for positions in self._choices(ask, offers):
            likeness = tuple(self._likeness(position) for position in positions)
            if likeness in seen:
                continue
            seen.add(likeness)
            self.tries += 1
            if self.tries > TRIES:
                break
            taken = [(position, offers[position]) for position in positions]
            before = [self.own[position] for position in positions]
            for position, grant in taken:
                self.own[position] = (*self.own[position], grant)
            rest = self._place(turn + 1)
            if rest is not None:
                return (*(grant for _, grant in taken), *rest)
            for position, grants in zip(positions, before, strict=True):
                self.own[position] = grants
        if not seen:
            self._fail(ask, self._ungrouped(), obstacles)
        return None

    def _ungrouped(self) -> Cause:
        return Cause.NO_SCOPE if self.request.linking.required else Cause.NO_PARTITION

    def _fail(self, ask: Ask, cause: Cause | None, obstacles: list[Obstacle]) -> None:
        if self.failure is None:
            if cause is None and any(self.own):
                cause = Cause.TOGETHER
            self.failure = Reason(
                self.node.name,
                len(self.node.cards),
                ask.count,
                ask.container,
                cause,
                tally(obstacles),
            )

    def _offers(self, ask: Ask) -> tuple[dict[int, Grant], list[Obstacle]]:
        offers: dict[int, Grant] = {}
        obstacles: list[Obstacle] = []
        for position in range(len(self.node.cards)):
            offer = self._offer(ask, position)
            if isinstance(offer, Grant):
                offers[position] = offer
            else:
                obstacles.append(offer)
        return offers, obstacles

    def _offer(self, ask: Ask, position: int) -> Grant | Obstacle:
        card, use, own = self.node.cards[position], self.uses[position], self.own[position]
        never = unsuitable(self.request, card)
        if never is not None:
            return Obstacle(never)
        grant = self._grant(ask, card, use, own)
        if isinstance(grant, Cause):
            return Obstacle(grant)
        beside = concurrent(own, ask.phase)
        if beside and ask.exclusive:
            return Obstacle(Cause.IN_USE)
        if any(earlier.exclusive for earlier in beside):
            return Obstacle(Cause.HELD_EXCLUSIVELY)
        return obstacle(card, use, self._holder((*own, grant))) or grant

    def _holder(self, grants: tuple[Grant, ...]) -> Holder:
        return hold(self.request, grants)

    def _grant(self, ask: Ask, card: Card, use: CardUse, own: tuple[Grant, ...]) -> Grant | Cause:
        memory = ask.memory_on(card.memory)
        if card.mode is not Mode.MIG:
            return Grant(ask.container, card.uuid, memory, ask.compute, ask.exclusive, ask.phase)
        held = (*use.slices(), *(grant.slice for grant in own if grant.slice is not None))
        chosen = mig.choose(card.geometry, held, memory, ask.compute)
        if chosen is None:
            large = mig.choose(card.geometry, (), memory, ask.compute)
            return Cause.NO_SLICE if large else Cause.NO_PROFILE
        return Grant(
            ask.container,
            card.uuid,
            chosen.memory,
            chosen.compute,
            ask.exclusive,
            ask.phase,
            chosen,
        )

    def _choices(self, ask: Ask, offers: dict[int, Grant]) -> Iterator[tuple[int, ...]]:
        views = [
            CardView(card, use, own)
            for card, use, own in zip(self.node.cards, self.uses, self.own, strict=True)
        ]
        order = order_cards(self.request, ask, views, tuple(offers))
        if not ask.linked:
            return combinations(order, ask.count)
        first = self.request.ranking.cards[0]
        return groups(
            Choice(
                node=self.node,
                linking=self.request.linking,
                count=ask.count,
                exclusive=ask.exclusive,
                order=order,
                worth=tuple(card_value(first, self.request, ask, views[p]) for p in order),
                idle=frozenset(
                    position
                    for position, view in enumerate(views)
                    if not view.use.holders and not view.own
                ),
            )
        )

    def _likeness(self, position: int) -> tuple[object, ...]:
        """What two cards must have in common for one to do wherever the other does."""
        card = self.node.cards[position]
        if self.uses[position].holders or self.own[position]:
            return (position,)
        return (-1, card.memory, card.mode, card.links, card.slots, card.model, card.names)

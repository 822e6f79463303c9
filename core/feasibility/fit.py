"""One request against one node: the cards that it would get, or why it gets none.

Exact: when any assignment of cards and slices to the pod's containers exists, the search finds
one, as long as it stays within ``TRIES``. It tries first the assignment that the ranking prefers
for each container in turn, and others only where that one fails.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import combinations, product

from core.feasibility import suitability
from core.hardware import mig
from core.hardware.card import Mode
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardShare, concurrent_grants, first_conflict, shares_by_card
from core.placement.rank import CardCandidate, card_value, order_cards
from core.placement.topology import LinkQuery, linked_groups, scoped_pools
from core.requests.grant import Grant, Placement
from core.requests.reason import Cause, Obstacle, Reason, count_causes
from core.requests.request import ContainerRequest, Request, required_memory

TRIES = 1024
"""How many choices of one container's cards the search tries before it rejects the node."""

ContainerGrants = tuple[tuple[int, Grant], ...]
"""The grants of one container, each with the position of its card."""


def fit(request: Request, ledger: NodeLedger) -> Placement | Reason:
    """Place a request on a node; what its pod holds there already counts as free."""
    if suitability.kubelet_chooses(request, ledger.node.cards):
        return suitability.kubelet_placement(request, ledger.release(request.uid))
    reason = suitability.node_rejection(request, ledger.node)
    return reason if reason is not None else _Search(request, ledger.release(request.uid)).run()


def placements(request: Request, ledger: NodeLedger) -> Iterator[Placement]:
    """Return every choice of cards and slices for a request, the preferred ones first.

    Choices past ``TRIES`` of one container's cards are left out. What the pod of the request holds
    there already counts as free.
    """
    ledger = ledger.release(request.uid)
    if suitability.kubelet_chooses(request, ledger.node.cards):
        answer = suitability.kubelet_placement(request, ledger)
        if isinstance(answer, Placement):
            yield answer
    elif suitability.node_rejection(request, ledger.node) is None:
        for grants in _Search(request, ledger, every=True).all():
            yield Placement(ledger.node.name, grants)


def every_choice(found: Sequence[Placement]) -> bool:
    """Return whether ``placements`` gave all choices: of many containers it counts some twice."""
    return 2 * len(found) < TRIES


class _Search:
    """Depth first over the containers; the state is what they got of each card so far.

    Attributes:
        every: all choices count, also those that are as good as an earlier one.
        uses: by card, what other pods hold of it.
        never: by card, why it never suits the request; None where it suits.
        own: by card, the grants that earlier containers got in the current assignment.
        models: by card, equal for idle cards of which one suits wherever the other does; empty
            for a request of one container, which does not need them.
        failed: states from which no assignment exists.
        failure: the first reason for which a container got no cards.
    """

    def __init__(self, request: Request, ledger: NodeLedger, *, every: bool = False) -> None:
        self.request = request
        self.every = every
        self.node = ledger.node
        self.uses = ledger.usages
        self.never = [suitability.unsuitable(request, card) for card in ledger.node.cards]
        self.own: list[tuple[Grant, ...]] = [()] * len(ledger.usages)
        self.last = len(request.containers) - 1
        self.models: list[Hashable] = []
        if self.last:
            self.models = [
                position
                if use.shares or card.mode is Mode.MIG or self.node.partitions or self.node.scores
                else (card.memory, card.compute, card.slots, card.links)
                for position, (card, use) in enumerate(zip(self.node.cards, self.uses, strict=True))
            ]
        self.failed: set[Hashable] = set()
        self.tries = 0
        self.failure: Reason | None = None

    def run(self) -> Placement | Reason:
        """Return the first assignment by preference, or the first reason against it."""
        # A container that does not fit on its own gives a better reason than the search.
        several = range(len(self.request.containers)) if self.last else ()
        if all(next(self._choices(turn), None) for turn in several):
            grants = next(self.all(), None)
            if grants is not None:
                return Placement(self.node.name, grants)
        return self.failure or Reason(self.node.name, len(self.node.cards), cause=Cause.TOGETHER)

    def all(self, turn: int = 0) -> Iterator[tuple[Grant, ...]]:
        """Return every assignment of cards to this container and all later ones."""
        if turn > self.last:
            yield ()
            return
        state = (turn, frozenset(Counter(self._labels()).items())) if turn else None
        if state in self.failed:
            return
        empty = True
        for chosen in self._choices(turn):
            self.tries += 1
            if self.tries > TRIES:
                return
            before = {position: self.own[position] for position, _ in chosen}
            for position, grant in chosen:
                self.own[position] = (*self.own[position], grant)
            for rest in self.all(turn + 1):
                empty = False
                yield (*(grant for _, grant in chosen), *rest)
            for position, grants in before.items():
                self.own[position] = grants
        if empty:
            self.failed.add(state)

    def _choices(self, turn: int) -> Iterator[ContainerGrants]:
        """Return what one container can get now, best first; notes the first failure."""
        container = self.request.containers[turn]
        offers: dict[int, tuple[Grant, ...]] = {}
        obstacles: list[Obstacle] = []
        idle_shares: dict[tuple[int, bool], CardShare] = {}
        for position, never in enumerate(self.never):
            offer = (
                suitability.obstacle_of(never, self.node.cards[position])
                if never
                else self._offer(container, position, idle_shares)
            )
            if isinstance(offer, Obstacle):
                obstacles.append(offer)
            else:
                offers[position] = offer
        partitioned = [p for p in offers if self.node.cards[p].mode is Mode.MIG]
        stacks = self.request.several_slices and bool(partitioned)
        if not stacks and len(offers) < container.count:
            self._fail(container, None, obstacles)
            return
        empty = True
        for chosen in (
            self._stacked(container, offers)
            if stacks
            else _with_grants(self._positions(turn, offers), offers)
        ):
            empty = False
            # HAMi's and Volcano's plugins number limits by this order, containers their cards by
            # index: a card must not get another one's limit.
            if len({grant.memory for _, grant in chosen}) > 1:
                chosen = tuple(sorted(chosen, key=lambda one: self.node.cards[one[0]].index))
            yield chosen
        if empty and stacks:  # each card in MIG mode gives as many slices as it can
            self._fail(container, None, obstacles + [Obstacle(Cause.NO_SLICE) for _ in partitioned])
        elif empty:
            scoped = self.request.topology.required is not None
            self._fail(container, Cause.NO_SCOPE if scoped else Cause.NO_PARTITION, obstacles)

    def _stacked(
        self, container: ContainerRequest, offers: dict[int, tuple[Grant, ...]]
    ) -> Iterator[ContainerGrants]:
        """Return all choices of a container's cards and slices, card by card.

        The slices of one card come in the order of its offer, so that no set of them comes twice.
        Linked cards come first as a group of different ones, then each scope that is required.
        """
        candidates = self._candidates(container)
        order = order_cards(self.request, container, candidates, tuple(offers))
        pools: Sequence[tuple[int, ...]] = [order]
        if container.linked:
            if len(offers) >= container.count:
                groups = linked_groups(self._link_query(container, candidates, order))
                yield from _with_grants(groups, offers)
            pools = scoped_pools(self.node, order, self.request.topology.required)
        for pool in pools:
            parts = [(position, grant) for position in pool for grant in offers[position]]
            yield from self._stacks(parts, container.count, ())

    def _stacks(
        self, parts: Sequence[tuple[int, Grant]], left: int, taken: ContainerGrants
    ) -> Iterator[ContainerGrants]:
        """Return all choices of ``left`` more parts beside what is taken."""
        if not left:
            yield taken
            return
        for number, (position, grant) in enumerate(parts[: len(parts) - left + 1]):
            self.tries += 1
            if self.tries > TRIES:
                return
            same = [earlier for at, earlier in taken if at == position]
            if same:
                card, own = self.node.cards[position], self.own[position]
                share = shares_by_card(self.request, (*own, *same, grant))
                if first_conflict(card, self.uses[position], share) is not None or any(
                    earlier.slice and grant.slice and earlier.slice.overlaps(grant.slice)
                    for earlier in same
                ):
                    continue
            yield from self._stacks(parts[number + 1 :], left - 1, (*taken, (position, grant)))

    def _fail(
        self, container: ContainerRequest, cause: Cause | None, obstacles: list[Obstacle]
    ) -> None:
        if self.failure is None:
            if cause is None and any(self.own):
                cause = Cause.TOGETHER
            self.failure = Reason(
                self.node.name,
                len(self.node.cards),
                container.count,
                container.name,
                cause,
                count_causes(obstacles),
            )

    def _offer(
        self,
        container: ContainerRequest,
        position: int,
        idle_shares: dict[tuple[int, bool], CardShare],
    ) -> tuple[Grant, ...] | Obstacle:
        """Return the grants that one card allows: one, or in MIG mode one for each free slice.

        Args:
            container: the container's request.
            position: of the card.
            idle_shares: by memory and whether alone, what the pod would hold of a card that it
                does not hold yet.
        """
        own, card = self.own[position], self.node.cards[position]
        concurrent = concurrent_grants(own, container.phase, container.name)
        if concurrent and container.exclusive_on(card):
            return Obstacle(Cause.IN_USE)
        if concurrent and any(earlier.exclusive for earlier in concurrent):
            return Obstacle(Cause.HELD_EXCLUSIVELY)
        grants = self._grants(container, position, concurrent)
        if isinstance(grants, Obstacle):
            return grants
        first = grants[0]
        if own or first.slice is not None:
            share = shares_by_card(self.request, (*own, first))
        else:
            key = (first.memory, first.exclusive)
            share = idle_shares.get(key) or shares_by_card(self.request, grants)
            idle_shares[key] = share
        return first_conflict(card, self.uses[position], share) or grants

    def _grants(
        self, container: ContainerRequest, position: int, concurrent: list[Grant]
    ) -> tuple[Grant, ...] | Obstacle:
        card, own = self.node.cards[position], self.own[position]
        memory, compute = required_memory(self.request, container, card), container.compute
        exclusive, phase = container.exclusive_on(card), container.phase
        if card.mode is not Mode.MIG:
            return (Grant(container.name, card.uuid, memory, compute, exclusive, phase),)
        # First the slices that an earlier container leaves: the pod has them anyway.
        mine = dict.fromkeys(grant.slice for grant in own if grant.slice is not None)
        in_use = {grant.slice for grant in concurrent}
        reusable = [
            slot
            for slot in mine
            if slot not in in_use and slot.memory >= memory and slot.compute >= compute
        ]
        reusable.sort(key=lambda slot: (slot.size, slot.memory))
        held = (*self.uses[position].slices(), *mine)
        slots = reusable + mig.free_slices(card.geometry, held, memory, compute)
        return tuple(
            Grant(container.name, card.uuid, slot.memory, slot.compute, exclusive, phase, slot)
            for slot in slots
        ) or suitability.slice_obstacle(card, memory, compute)

    def _positions(
        self, turn: int, offers: dict[int, tuple[Grant, ...]]
    ) -> Iterator[tuple[int, ...]]:
        container = self.request.containers[turn]
        candidates = self._candidates(container)
        order = order_cards(self.request, container, candidates, tuple(offers))
        if container.linked:
            return linked_groups(self._link_query(container, candidates, order))
        if self.every:
            return combinations(order, container.count)
        if turn == self.last:
            return iter((order[: container.count],))
        return distinct_choices(order, container.count, self._labels())

    def _candidates(self, container: ContainerRequest) -> list[CardCandidate]:
        return [
            CardCandidate(card, use, tuple(concurrent_grants(own, container.phase, container.name)))
            for card, use, own in zip(self.node.cards, self.uses, self.own, strict=True)
        ]

    def _link_query(
        self,
        container: ContainerRequest,
        candidates: Sequence[CardCandidate],
        order: tuple[int, ...],
    ) -> LinkQuery:
        first = self.request.ranking.cards[0]
        return LinkQuery(
            node=self.node,
            topology=self.request.topology,
            count=container.count,
            exclusive=container.exclusive,
            order=order,
            worth=tuple(card_value(first, self.request, container, candidates[p]) for p in order),
            idle=frozenset(
                position
                for position, candidate in enumerate(candidates)
                if not candidate.use.shares and not candidate.own
            ),
        )

    def _labels(self) -> list[Hashable]:
        """Return the models, with what the pod got of each card so far."""
        return [
            (model, never, *((g.memory, g.compute, g.exclusive, g.phase, g.slice) for g in own))
            for model, never, own in zip(self.models, self.never, self.own, strict=True)
        ]


def _with_grants(
    groups: Iterable[tuple[int, ...]], offers: dict[int, tuple[Grant, ...]]
) -> Iterator[ContainerGrants]:
    """Return every choice of one grant of each card, group by group."""
    for positions in groups:
        for grants in product(*(offers[position] for position in positions)):
            yield tuple(zip(positions, grants, strict=True))


def distinct_choices(
    order: Sequence[int], count: int, labels: Sequence[Hashable]
) -> Iterator[tuple[int, ...]]:
    """Return all choices of ``count`` positions, earlier ones first; one choice of equal labels."""
    if not count:
        yield ()
        return
    done: set[Hashable] = set()
    for number, position in enumerate(order):
        if labels[position] not in done:
            later = [other for other in order[number + 1 :] if labels[other] not in done]
            for rest in distinct_choices(later, count - 1, labels):
                yield (position, *rest)
            done.add(labels[position])

"""Whether pods that differ can be placed together: all choices of nodes and cards, up to a bound.

Depth first, pod by pod, on the nodes that rank best first. Of pods that are alike, of equal nodes
and of equal idle cards it does not matter which one is taken, so each such choice is made once.

The order in which pods join a card matters in a few rules. So pods without compute come first:
they do not join a card whose compute is all taken. Where another rule may matter
(``_is_order_free``), the search finds plans and proves nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from core.feasibility.columns import card_model
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.fit import every_choice, placements
from core.feasibility.inventory import NodeNames
from core.hardware.card import Mode
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.request import Request, TaskClass

PODS = 12
"""Pods of which all choices are tried, beside those with more nodes than there are pods."""

STEPS = 1000
"""Places that are looked at before the search is cut: less than a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that is to be placed.

    Attributes:
        evaluation: of the nodes as they are now, one object for all pods that request alike.
        names: where it may go.
    """

    request: Request
    evaluation: NodeEvaluation
    names: NodeNames

    @property
    def kind(self) -> Hashable:
        """What is equal for pods that request alike and may go to the same nodes."""
        return id(self.evaluation), id(self.names)

    def nodes(self) -> list[str]:
        """Return the nodes that it fits, the best one first."""
        ranks = self.evaluation.ranks(self.names.rows(self.evaluation.inventory))
        best_first = (-ranks).argsort(kind="stable")[: (ranks > 0).sum()]
        return [self.names.name(position) for position in best_first.tolist()]


@dataclass(frozen=True, slots=True)
class LeastNumber:
    """A least number of some pods without which no pod of the gang is bound.

    Attributes:
        number: how many of them; none where it is not above 0.
        within: least numbers of some of them, each pod in one at most.
    """

    uids: frozenset[str]
    number: int
    within: "tuple[LeastNumber, ...]" = ()

    def lacks(self, placed: frozenset[str]) -> int:
        """Return how many of its pods must be placed beside these."""
        missing = self.number - len(self.uids & placed)
        return max(0, missing, sum(each.lacks(placed) for each in self.within))


def lacks_of(needs: Sequence[LeastNumber], placed: frozenset[str]) -> int:
    """Return how many pods must be placed beside some before one of the gang is bound."""
    return sum(each.lacks(placed) for each in needs)


class GangSearch:
    """All places of the pods of a gang.

    Attributes:
        last: pods with enough nodes that there is one for each, in this order, whatever the
            others get.
        complete: whether all choices were tried so far: what was not found does not exist.
    """

    def __init__(self, candidates: Sequence[Candidate], needs: Sequence[LeastNumber]) -> None:
        self._needs = needs
        needed = frozenset[str]().union(*(each.uids for each in needs))
        pods = [each for each in candidates if each.request.uid in needed]
        self._nodes = {
            kind: one.nodes() for kind, one in {each.kind: each for each in pods}.items()
        }
        self.last: list[Candidate] = []
        while many := [each for each in pods if len(self._nodes[each.kind]) >= len(pods)]:
            self.last = [*many, *self.last]
            pods = [each for each in pods if len(self._nodes[each.kind]) < len(pods)]
        have_cards = any(each.evaluation.inventory.nodes_of(each.request.uid) for each in pods)
        self.complete = (
            len(pods) <= PODS
            and not have_cards
            and all(_is_order_free(each.request) for each in pods)
        )
        self._are_equal = not have_cards and not any(_names_cards(each.request) for each in pods)
        self._groups = self._alike(pods if len(pods) <= PODS else ())
        self._labels: dict[str, Hashable] = {}
        self._allowed = self._steps = 0
        self._failed = set[Hashable]()
        self._found: list[tuple[Candidate, Placement]] = []
        self._entries: list[Hashable] = []
        self._ledgers: dict[str, NodeLedger] = {}

    def run(self, allowed: int) -> Sequence[tuple[Candidate, Placement]] | None:
        """Return places beside which no more than some pods lack, in order; None for none."""
        self._allowed = allowed
        self._failed.clear()
        last = frozenset(each.request.uid for each in self.last)
        return self._found if self._place(0, 0, last) else None

    def _alike(self, pods: Sequence[Candidate]) -> list[list[Candidate]]:
        """Return groups of pods that may stand for each other, in the order of their turns."""

        def turn(one: Candidate) -> tuple[bool, int, int, int, int, str]:
            totals = one.request.totals()
            size = -totals.cards, -totals.memory, -totals.memory_percent
            return totals.compute > 0, len(self._nodes[one.kind]), *size, one.request.uid

        parts = [part for need in self._needs for part in (need, *need.within)]
        groups: dict[Hashable, list[Candidate]] = {}
        for each in sorted(pods, key=turn):
            key = each.kind, tuple(each.request.uid in part.uids for part in parts)
            groups.setdefault(key, []).append(each)
        return [*groups.values()]

    def _place(self, group: int, number: int, placed: frozenset[str]) -> bool:
        """Place pods until no more lack than may; whether that is possible.

        Args:
            group: whose turn it is.
            number: of the pod in it.
            placed: the pods that have places.
        """
        if lacks_of(self._needs, placed) <= self._allowed:
            return True
        if group == len(self._groups):
            return False
        alike = self._groups[group]
        if number == len(alike):
            return self._place(group + 1, 0, placed)
        later = chain(alike[number:], *self._groups[group + 1 :])
        if lacks_of(self._needs, placed.union(each.request.uid for each in later)) > self._allowed:
            return False
        state = group, number, self._state()
        if state in self._failed:
            return False
        pod = alike[number]
        for placement, entry in self._choices(pod, group):
            if self._steps > STEPS:
                self.complete = False
                return False
            node, before = placement.node, self._ledgers.get(placement.node)
            after = self._ledger(pod, node).reserve(Allocation.of(pod.request, placement))
            self._ledgers[node] = after
            self._found.append((pod, placement))
            self._entries.append(entry)
            if self._place(group, number + 1, placed | {pod.request.uid}):
                return True
            self._found.pop()
            self._entries.pop()
            if before is None:
                del self._ledgers[node]
            else:
                self._ledgers[node] = before
        if self._place(group + 1, 0, placed):  # without this one and those that are alike
            return True
        self._failed.add(state)
        return False

    def _state(self) -> Hashable:
        """Return what is equal for places that differ in equal pods, nodes or cards alone."""
        nodes: defaultdict[str, Counter[Hashable]] = defaultdict(Counter)
        for (_, placement), entry in zip(self._found, self._entries, strict=True):
            nodes[placement.node][entry] += 1
        got = ((self._label(node), frozenset(each.items())) for node, each in nodes.items())
        return frozenset(Counter(got).items())

    def _label(self, node: str) -> Hashable:
        """Return what is equal for nodes on which each pod has equal places."""
        if not self._are_equal:
            return node
        if node not in self._labels:
            inventory = self._groups[0][0].evaluation.inventory
            kinds = frozenset(kind for kind, nodes in self._nodes.items() if node in nodes)
            self._labels[node] = inventory.node_class(node), kinds
        return self._labels[node]

    def _ledger(self, pod: Candidate, node: str) -> NodeLedger:
        """Return the ledger of a node with the places of now."""
        ledger = self._ledgers.get(node) or pod.evaluation.inventory.ledger(node)
        return ledger.release(pod.request.uid)  # an attempt to bind it may have begun just now

    def _choices(self, pod: Candidate, group: int) -> Iterator[tuple[Placement, Hashable]]:
        """Yield the places of a pod, of equal ones one, each with what differs from others."""
        tried = set[Hashable]()
        touched = {placement.node for _, placement in self._found}
        for node in self._nodes[pod.kind]:
            ledger, label = self._ledger(pod, node), self._label(node)
            if node not in touched and label in tried:
                continue
            if node not in touched:
                tried.add(label)
            position = {card.uuid: at for at, card in enumerate(ledger.node.cards)}
            models = self._models(ledger)
            found = [*placements(pod.request, ledger)]
            self._steps += 1 + len(found)
            self.complete &= every_choice(found)
            equal = set[Hashable]()
            for placement in found:
                cards = [position[grant.card] for grant in placement.grants]
                what = [(grant.container, grant.slice) for grant in placement.grants]
                key = tuple(zip(map(models.__getitem__, cards), what, strict=True))
                if key not in equal:
                    equal.add(key)
                    yield placement, (group, *zip(cards, what, strict=True))

    def _models(self, ledger: NodeLedger) -> Sequence[Hashable]:
        """Return for each card what is equal for idle cards that may stand for each other."""
        node = ledger.node
        if not self._are_equal or node.partitions or node.scores:
            return range(len(node.cards))
        return [
            at
            if use.shares or card.mode is Mode.MIG
            else (card_model(card), card.links, card.healthy)
            for at, (card, use) in enumerate(zip(node.cards, ledger.usages, strict=True))
        ]


def _is_order_free(request: Request) -> bool:
    """Return whether pods without compute first, all orders lead to the same places."""
    computes = {each.compute > 0 for each in request.containers}
    terms = request.terms
    return terms.task_class is TaskClass.NORMAL and terms.group is None and len(computes) < 2


def _names_cards(request: Request) -> bool:
    """Return whether a request has rules about cards or pods by their names."""
    by_uuid = request.allow_uuids is not None or bool(request.deny_uuids)
    return by_uuid or request.terms.group is not None

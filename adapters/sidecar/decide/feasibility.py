"""Which of many nodes a request fits, exactly, and why it does not fit the others.

Nodes of one kind get one answer, which also holds for later requests that ask for the same.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from adapters.wire.name_index import Mask, NameIndex, NameList, Numbers, Places
from core.feasibility.equivalence import hardware_class
from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory
from core.hardware.card import Mode
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import load, needs_placement, node_value
from core.requests.decision import Decision
from core.requests.grant import Placement
from core.requests.reason import Cause, Reason
from core.requests.request import NodeKey, Request

SHAPES = 128
"""Different requests whose answers are remembered."""

KINDS = 20_000
"""Kinds of nodes for which an answer is remembered, of each request."""

ANSWERS = 10 * KINDS
"""Answers that are remembered, of all requests together."""

EXPLAINED = 200
"""Kinds of nodes for which one call works out why they do not fit. The others are counted."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node will not do.

    Attributes:
        reason: for this node.
        hopeless: it would not do either if nobody held anything of it.
    """

    reason: Reason
    unresolvable: bool


Found = tuple[int, ...] | Reason
"""How good a node is by each criterion for nodes, higher is better; or why it is none."""


class HardwareClassIds:
    """Numbers of nodes that are equal, but for names and uuids, when nobody holds anything."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._of: dict[str, tuple[Node, int]] = {}
        self._fresh = count()

    def of(self, node: Node) -> int:
        """A node's number."""
        known = self._of.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        if len(self._numbers) > KINDS or len(self._of) > 2 * KINDS:
            self._numbers.clear()
            self._of.clear()
        number = self._numbers.setdefault((hardware_class(node), _places(node)), next(self._fresh))
        self._of[node.name] = (node, number)
        return number


class SignatureResults:
    """What is known of one kind of request.

    Attributes:
        found: by the kind of a node.
        hopeless: by the form of a node.
        kinds: by the place of a node, its kind when it was looked at last; -1 for never.
        values: by the place of a node, what was found then: a number of ``distinct``, -1 where it
            was refused.
        distinct: the numbers of all values that were found.
    """

    def __init__(self) -> None:
        self.found: dict[Hashable, Found] = {}
        self.unresolvable: dict[int, bool] = {}
        self.distinct: dict[tuple[int, ...], int] = {}
        self.kinds = self.values = np.zeros(0, np.int64)
        self._roster: NameIndex | None = None

    def fit_for(self, roster: NameIndex) -> None:
        """Forget what is too much, and what was said of places if these are other nodes now."""
        if len(self.found) > KINDS:
            self.found.clear()
        if len(self.unresolvable) > KINDS:
            self.unresolvable.clear()
        if self._roster is not roster or len(self.distinct) > KINDS:
            self._roster = roster
            self.distinct.clear()
            self.kinds = np.full(roster.unknown, -1)
            self.values = np.full(roster.unknown, -1)

    def number(self, found: Found) -> int:
        """The number of some values; -1 for a refusal."""
        if isinstance(found, Reason):
            return -1
        return self.distinct.setdefault(found, len(self.distinct))

    def note(self, place: int, kind: int, found: Found) -> None:
        """What was found at a place."""
        self.kinds[place] = kind
        self.values[place] = self.number(found)


class FeasibilityCache:
    """The answers to earlier requests, for as long as they hold."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, SignatureResults] = OrderedDict()
        self._forms = HardwareClassIds()
        self._roster: tuple[Inventory, int, NameIndex] | None = None

    def survey(self, request: Request, inventory: Inventory) -> "NodeEvaluation":
        """A look at the nodes for a request. It holds as long as the inventory is not changed."""
        asked = replace(request, uid="", pod="", notes=(), priority=0)
        answers = self._answers.setdefault(asked, SignatureResults())
        self._answers.move_to_end(asked)
        kept = sum(len(each.found) for each in self._answers.values())
        while len(self._answers) > (SHAPES if kept <= ANSWERS else 1):
            _, oldest = self._answers.popitem(last=False)
            kept -= len(oldest.found)
        roster = self._roster_of(inventory)
        answers.fit_for(roster)
        return NodeEvaluation(request, inventory, answers, self._forms, roster)

    def _roster_of(self, inventory: Inventory) -> NameIndex:
        """Where its nodes stand; found anew when there are others."""
        known = self._roster
        if known is None or known[0] is not inventory or known[1] != inventory.membership_version:
            known = self._roster = (
                inventory,
                inventory.membership_version,
                NameIndex(inventory.names()),
            )
        return known[2]


class NodeEvaluation:
    """One request against all nodes."""

    def __init__(
        self,
        request: Request,
        inventory: Inventory,
        answers: SignatureResults,
        forms: HardwareClassIds,
        roster: NameIndex,
    ) -> None:
        self.request = request
        self._inventory = inventory
        self._answers = answers
        self._forms = forms
        self._roster = roster
        self._own = frozenset(inventory.nodes_of(request.uid))
        self._by_uuid = request.allow_uuids is not None or bool(request.deny_uuids)
        self._certain = _numbers_decide(request, inventory) and not self._own
        self._here: dict[Hashable, Found] = {}
        self._mask: frozenset[str] | None = None
        self._asked: tuple[NameList, Places] | None = None

    def warm(self, names: NameList, most: int) -> bool:
        """Look at some nodes of kinds that nobody has asked about, which takes its time.

        Args:
            names: of nodes that will be asked about.
            most: kinds that are looked at.

        Returns:
            whether there is nothing left to look at.
        """
        if self._certain or self._by_uuid:
            return True
        places = self._places(names)
        new = self._new(places, self._possible(places))
        for at, name in zip(np.flatnonzero(new).tolist(), names.some(new), strict=True):
            most -= self._kind(name) not in self._answers.found
            if most < 0:
                return False
            if name not in self._own:
                self._answers.note(
                    int(places[at]), self._inventory.node_class(name), self._look(name)
                )
        return True

    def fitting(self, names: NameList) -> Mask:
        """Which of some nodes the request fits, in their order."""
        places = self._places(names)
        fits = self._possible(places)
        return fits if self._certain else self._values(names, places, fits) >= 0

    def ranks(self, names: NameList) -> Numbers:
        """How good some nodes are beside each other: more is better, 0 where it does not fit."""
        places = self._places(names)
        fits = self._possible(places)
        keys = self.request.ranking.nodes
        if self._certain and not keys:
            return fits.astype(np.int64)
        if self._certain and not any(map(needs_placement, keys)):
            loads = self._inventory.loads(self.request.ranking.weights)
            # Two nodes that are equal by the one criterion are equal by the other.
            sign = 1 if keys[0] is NodeKey.FULLEST else -1
            return _dense(np.append(sign * loads, 0)[places], fits)
        values = self._values(names, places, fits)
        order = {value: at for at, value in enumerate(sorted(self._answers.distinct))}
        by_number = np.array([order[value] for value in self._answers.distinct], np.int64)
        return _dense(np.append(by_number, 0)[values], values >= 0)

    def fits(self, name: str) -> bool:
        """Whether the request fits one node."""
        if self._mask is None:
            self._mask = frozenset(self._inventory.candidates(self.request))
        if name not in self._mask:
            return False
        return self._certain or not isinstance(self._look(name), Reason)

    def values(self, name: str) -> tuple[int, ...] | None:
        """How good a node is, criterion after criterion; None where the request does not fit."""
        if self._inventory.get(name) is None:
            return None
        keys = self.request.ranking.nodes
        if self._certain and not any(map(needs_placement, keys)):
            return tuple(self._load(key, name) for key in keys) if self.fits(name) else None
        found = self._look(name)
        return None if isinstance(found, Reason) else found

    def rejection(self, name: str) -> Rejection | None:
        """Why one node will not do; None where it will."""
        ledger = self._inventory.get(name)
        if ledger is None:
            return Rejection(Reason(name, 0, cause=Cause.NO_CARDS), unresolvable=True)
        found = self._look(name)
        if not isinstance(found, Reason):
            return None
        return Rejection(replace(found, node=name), self._without_hope(ledger))

    def rejections(self, names: Iterable[str]) -> dict[str, Rejection]:
        """Why none of some nodes will do; past ``EXPLAINED`` kinds, without the numbers."""
        told: dict[str, Rejection] = {}
        explained: set[Hashable] = set()
        for name in names:
            ledger = self._inventory.get(name)
            kind = name if ledger is None else self._kind(name)
            known = kind in explained or kind in self._answers.found or ledger is None
            if known or len(explained) < EXPLAINED:
                explained.add(kind)
                refused = self.rejection(name)
                if refused is not None:
                    told[name] = refused
            elif ledger is not None:
                reason = Reason(name, len(ledger.node.cards), cause=Cause.TOO_FEW_FIT)
                told[name] = Rejection(reason, self._without_hope(ledger))
        return told

    def decision(self, names: Sequence[str]) -> Decision:
        """For a survey that found nothing: all the reasons, to be told in one line."""
        return Decision(None, {name: one.reason for name, one in self.rejections(names).items()})

    def _places(self, names: NameList) -> Places:
        """Where some nodes stand; the same names are not looked for twice."""
        if self._asked is None or self._asked[0] is not names:
            self._asked = (names, self._roster.places(names))
        return self._asked[1]

    def _possible(self, places: Places) -> Mask:
        """Which nodes the request fits by their numbers."""
        found: Mask = np.append(self._inventory.mask(self.request), np.False_)[places]
        return found

    def _values(self, names: NameList, places: Places, possible: Mask) -> Numbers:
        """For each node the number of its values; -1 where the request does not fit."""
        answers = self._answers
        values: Numbers = np.append(answers.values, -1)[places]
        values[~possible] = -1
        new = self._new(places, possible)
        for at, name in zip(np.flatnonzero(new).tolist(), names.some(new), strict=True):
            found = self._look(name)
            values[at] = answers.number(found)
            if not self._alone(name):
                answers.note(int(places[at]), self._inventory.node_class(name), found)
        return values

    def _new(self, places: Places, possible: Mask) -> Mask:
        """Which of the possible nodes are not as they were when they were looked at last."""
        if self._by_uuid:
            return possible
        kinds = np.append(self._inventory.node_classes(), -1)[places]
        new: Mask = (kinds < 0) | (kinds != np.append(self._answers.kinds, -1)[places])
        if self._own:
            new |= np.isin(places, self._roster.places(NameList.of([*self._own])))
        new &= possible
        return new

    def _alone(self, name: str) -> bool:
        """Whether what is found of a node says nothing of others of its kind."""
        return self._by_uuid or name in self._own

    def _kind(self, name: str) -> Hashable:
        return name if self._alone(name) else self._inventory.node_class(name)

    def _look(self, name: str) -> Found:
        answers = self._here if self._alone(name) else self._answers.found
        kind = self._kind(name)
        known = answers.get(kind)
        if known is None:
            known = self._try(self._inventory.ledger(name).release(self.request.uid))
            answers[kind] = known
        return known

    def _try(self, ledger: NodeLedger) -> Found:
        result = fit(self.request, ledger)
        if isinstance(result, Reason):
            return result
        return tuple(
            node_value(key, self.request, ledger, result) for key in self.request.ranking.nodes
        )

    def _load(self, key: NodeKey, name: str) -> int:
        value = load(
            self._inventory.ledger(name).release(self.request.uid), self.request.ranking.weights
        )
        return value if key is NodeKey.FULLEST else -value

    def _without_hope(self, ledger: NodeLedger) -> bool:
        form = self._forms.of(ledger.node)
        known = None if self._by_uuid else self._answers.unresolvable.get(form)
        if known is None:
            empty = fit(self.request, NodeLedger.of(ledger.node))
            known = not isinstance(empty, Placement)
            if not self._by_uuid:
                self._answers.unresolvable[form] = known
        return known


def _dense(worth: Numbers, fits: Mask) -> Numbers:
    """The order of some numbers, from 1 on; 0 where there is no fit."""
    ranks = np.zeros(len(worth), np.int64)
    ranks[fits] = np.unique(worth[fits], return_inverse=True)[1] + 1
    return ranks


def _places(node: Node) -> Hashable:
    """Of an empty node, what a request may also look at beside its shape."""
    cards = tuple((card.index, card.numa, card.healthy, card.links) for card in node.cards)
    return (node.partitions, node.partitions_bind, cards)


def _numbers_decide(request: Request, inventory: Inventory) -> bool:
    """Whether the numbers of free capacity alone decide that a card fits."""
    return (
        len(request.containers) == 1
        and not any(ask.linked for ask in request.containers)
        and (Mode.MIG not in request.modes or not inventory.has_mig_cards())
        and request.qos is None
        and request.group is None
        and not request.exclusions
        and request.allow_uuids is None
        and not request.deny_uuids
    )

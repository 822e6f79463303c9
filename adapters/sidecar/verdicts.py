"""Which of many nodes a request fits, exactly, and why it does not fit the others.

Nodes of one kind get one answer, which also holds for later requests that ask for the same.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from core.card import Mode
from core.decision import Decision
from core.fit import fit
from core.grant import Placement
from core.inventory import Inventory
from core.ledger import NodeLedger
from core.likeness import shape
from core.node import Node
from core.rank import load, needs_placement, node_value
from core.reason import Cause, Reason
from core.request import NodeKey, Request

SHAPES = 128
"""Different requests whose answers are remembered."""

KINDS = 20_000
"""Kinds of nodes for which an answer is remembered, of each request."""

EXPLAINED = 200
"""Kinds of nodes for which one call works out why they do not fit. The others are counted."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a node will not do.

    Attributes:
        reason: for this node.
        hopeless: it would not do either if nobody held anything of it.
    """

    reason: Reason
    hopeless: bool


Found = tuple[int, ...] | Reason
"""How good a node is by each criterion for nodes, higher is better; or why it is none."""


class Forms:
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
        number = self._numbers.setdefault((shape(node), _places(node)), next(self._fresh))
        self._of[node.name] = (node, number)
        return number


@dataclass(frozen=True, slots=True)
class Answers:
    """What is known of one kind of request.

    Attributes:
        found: by the kind of a node.
        hopeless: by the form of a node.
    """

    found: dict[Hashable, Found]
    hopeless: dict[int, bool]


class Verdicts:
    """The answers to earlier requests, for as long as they hold."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, Answers] = OrderedDict()
        self._forms = Forms()

    def survey(self, request: Request, inventory: Inventory) -> "Survey":
        """A look at the nodes for a request. It holds as long as the inventory is not changed."""
        asked = replace(request, uid="", pod="", notes=(), priority=0)
        answers = self._answers.setdefault(asked, Answers({}, {}))
        self._answers.move_to_end(asked)
        if len(self._answers) > SHAPES:
            self._answers.popitem(last=False)
        if len(answers.found) > KINDS:
            answers.found.clear()
        if len(answers.hopeless) > KINDS:
            answers.hopeless.clear()
        return Survey(request, inventory, answers, self._forms)


class Survey:
    """One request against all nodes."""

    def __init__(
        self, request: Request, inventory: Inventory, answers: Answers, forms: Forms
    ) -> None:
        self.request = request
        self._inventory = inventory
        self._answers = answers.found
        self._known_hopeless = answers.hopeless
        self._forms = forms
        self._own = frozenset(inventory.nodes_of(request.uid))
        self._by_uuid = request.allow_uuids is not None or bool(request.deny_uuids)
        self._certain = _numbers_decide(request, inventory) and not self._own
        self._here: dict[str, Found] = {}
        self._mask: frozenset[str] | None = None

    def fitting(self, names: Sequence[str]) -> list[str]:
        """Those of some nodes that the request fits, in their order."""
        found = self._inventory.candidates(self.request, names)
        if self._certain:
            return found
        return [name for name in found if not isinstance(self._look(name), Reason)]

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

    def refused(self, name: str) -> Refused | None:
        """Why one node will not do; None where it will."""
        ledger = self._inventory.get(name)
        if ledger is None:
            return Refused(Reason(name, 0, cause=Cause.NO_CARDS), hopeless=True)
        found = self._look(name)
        if not isinstance(found, Reason):
            return None
        return Refused(replace(found, node=name), self._without_hope(ledger))

    def refusals(self, names: Iterable[str]) -> dict[str, Refused]:
        """Why none of some nodes will do; past ``EXPLAINED`` kinds, without the numbers."""
        told: dict[str, Refused] = {}
        explained: set[Hashable] = set()
        for name in names:
            ledger = self._inventory.get(name)
            kind = name if ledger is None else self._kind(name)
            known = kind in explained or kind in self._answers or ledger is None
            if known or len(explained) < EXPLAINED:
                explained.add(kind)
                refused = self.refused(name)
                if refused is not None:
                    told[name] = refused
            elif ledger is not None:
                reason = Reason(name, len(ledger.node.cards), cause=Cause.TOO_FEW_FIT)
                told[name] = Refused(reason, self._without_hope(ledger))
        return told

    def decision(self, names: Sequence[str]) -> Decision:
        """For a survey that found nothing: all the reasons, to be told in one line."""
        return Decision(None, {name: one.reason for name, one in self.refusals(names).items()})

    def _kind(self, name: str) -> Hashable:
        return name if self._by_uuid or name in self._own else self._inventory.kind(name)

    def _look(self, name: str) -> Found:
        alone = self._by_uuid or name in self._own
        answers: dict[Hashable, Found] = self._answers
        kind: Hashable = name
        if alone:
            known = self._here.get(name)
        else:
            kind = self._inventory.kind(name)
            known = answers.get(kind)
        if known is None:
            known = self._try(self._inventory.ledger(name).release(self.request.uid))
            if alone:
                self._here[name] = known
            else:
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
        known = None if self._by_uuid else self._known_hopeless.get(form)
        if known is None:
            empty = fit(self.request, NodeLedger.of(ledger.node))
            known = not isinstance(empty, Placement)
            if not self._by_uuid:
                self._known_hopeless[form] = known
        return known


def _places(node: Node) -> Hashable:
    """Of an empty node, what a request may also look at beside its shape."""
    cards = tuple((card.index, card.numa, card.healthy, card.links) for card in node.cards)
    return (node.partitions, node.partitions_bind, cards)


def _numbers_decide(request: Request, inventory: Inventory) -> bool:
    """Whether every candidate by the numbers is sure to fit; see ``core.cell``."""
    return (
        len(request.asks) == 1
        and not any(ask.linked for ask in request.asks)
        and (Mode.MIG not in request.modes or not inventory.sliced())
        and request.qos is None
        and request.group is None
        and not request.exclusions
        and request.allow_uuids is None
        and not request.deny_uuids
    )

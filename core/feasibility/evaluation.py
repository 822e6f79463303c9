"""Which nodes a request fits, exactly, and why it does not fit the others.

Three engines answer, the cheapest that is exact:

1. The columns of free capacity (``Inventory.mask``) exclude nodes that cannot fit. For a request of
   one container without special rules they decide alone (``_columns_are_exact``).
2. The result table (``ResultTable``) has one result for each class of nodes, which ``fit`` computes
   once and later requests of the same signature use too..
3. ``fit`` for a node that is *alone*: its result says nothing about others of its class, because
   the request names UUIDs, its pod or its group has an allocation there, or the inventory does not
   know the node.

Oracle: ``test_every_answer_is_that_of_asking_each_node``. If you change what ``fit`` reads, also
change the class of nodes (``core.feasibility.columns``) and ``_columns_are_exact``.
"""

from array import array
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

import numpy as np

from core.feasibility.columns import Mask, Numbers, Rows
from core.feasibility.fit import fit
from core.feasibility.inventory import (
    NO_CLASS,
    NO_RESULT,
    Inventory,
    NodeNames,
    NodeResult,
    ResultTable,
)
from core.feasibility.suitability import is_not_ours
from core.hardware.card import Mode
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import load, needs_placement, node_value
from core.requests.decision import Decision, NodeReasons
from core.requests.grant import Placement
from core.requests.reason import Cause, Reason
from core.requests.request import NodeKey, Request

EXPLAINED = 200
"""Node classes for which one call computes why the request does not fit. Past that a reason says
so without the counts of cards, because ``fit`` takes up to half a millisecond for each class."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a request does not fit a node.

    Attributes:
        unresolvable: the request would not fit either if the node were empty.
    """

    reason: Reason
    unresolvable: bool


class NodeEvaluation:
    """One request against all nodes. It holds as long as the inventory does not change.

    What the pod of the request holds itself counts as free. Every answer is that of ``fit``; the
    capacity columns of the inventory exclude most nodes, and results by class spare most others.

    Attributes:
        refusal: why the quota of the namespace refuses the request (``RefusedEvaluation``).
    """

    refusal: str | None = None

    def __init__(
        self, request: Request, table: ResultTable, unreadable: Collection[str] = ()
    ) -> None:
        inventory = table.inventory
        self.request = request
        self.inventory = inventory
        self._table = table
        self._unreadable = unreadable
        self._own = frozenset(inventory.nodes_of(request.uid)) | inventory.nodes_of_group(
            request.terms.group
        )
        self._by_uuid = request.allow_uuids is not None or bool(request.deny_uuids)
        self._alone_results: dict[str, tuple[NodeLedger, NodeResult]] = {}
        self._is_exact = _columns_are_exact(request, inventory) and not self._own
        self._ranks_cards = any(map(needs_placement, request.ranking.nodes))

    def warm(self, rows: Rows, max_classes: int) -> bool:
        """Run ``fit`` for some node classes that have no result yet, so that ``fitting`` is fast.

        Args:
            rows: of the nodes that will be asked about.
            max_classes: for how many of them ``fit`` runs.

        Returns:
            whether no class is left without a result.
        """
        if self._is_exact or self._by_uuid:
            return True
        stale = self._possible[rows] & self._table.stale(rows) & ~self._are_alone(rows)
        for row in rows[stale].tolist():
            class_id = self.inventory.node_class(self.inventory.name(row))
            max_classes -= class_id not in self._table.by_class
            if max_classes < 0:
                return False
            self._note(row)
        return True

    def classify(self, rows: Rows, most: int) -> bool:
        """Compute the classes of some nodes that have none yet, so that ``groups`` is fast.

        Args:
            rows: of the nodes that will be asked about.
            most: how many classes are computed.

        Returns:
            whether no node is left without a class.
        """
        if self._by_uuid:
            return True
        known = self.inventory.node_classes()[rows] != NO_CLASS
        missing = rows[~known & (rows < len(self.inventory))]
        for row in missing[:most].tolist():
            self.inventory.node_class(self.inventory.name(row))
        return bool(missing.size <= most)

    def prepare(self, rows: Rows, most: int) -> bool:
        """Run ``fit`` for some nodes that have no result yet, so that ``explain`` is fast.

        Args:
            rows: of the nodes that will be asked about, also those that the columns exclude.
            most: for how many classes, and nodes that are alone, ``fit`` runs.

        Returns:
            whether no node is left without a result.
        """
        alone = self._are_alone(rows) & (rows < len(self.inventory))
        for row in rows[self._table.stale(rows) & ~alone & (rows < len(self.inventory))].tolist():
            class_id = self.inventory.node_class(self.inventory.name(row))
            most -= class_id not in self._table.by_class
            if most < 0:
                return False
            self._note(row)
        for row in rows[alone].tolist():
            name = self.inventory.name(row)
            most -= not self._is_known_alone(name)
            if most < 0:
                return False
            self._result(name)
        return True

    def continued(self, earlier: "NodeEvaluation") -> "NodeEvaluation":
        """Return this evaluation with the results of an earlier one of the request that hold still.

        Results by class are in the table anyway; these are of nodes that are alone.
        """
        self._alone_results = earlier._alone_results
        return self

    def groups(self, rows: Rows) -> Numbers:
        """Return a number for each of some nodes; where equal, so are results but for names.

        Args:
            rows: of the nodes; ``classify`` has returned True for them.
        """
        alone = self._are_alone(rows)
        if not self._unreadable and not self._by_uuid:
            alone &= rows != len(self.inventory)
        classes: Numbers = self.inventory.node_classes()[rows]
        return np.where(alone, NO_CLASS - 1 - np.arange(rows.size), classes)

    def fitting(self, rows: Rows) -> Mask:
        """Return which of some nodes the request fits, in the order of the rows."""
        possible: Mask = self._possible[rows]
        if self._is_exact:
            return possible
        result_ids = self._result_ids(rows, possible)  # before the table is read: it fills it
        fits: Mask = self._table.fits()[result_ids]
        return fits

    def ranks(self, rows: Rows) -> Numbers:
        """Return how good some nodes are beside each other; more is better, 0 is no fit."""
        if self._is_exact and not self._ranks_cards:
            possible = self._possible[rows]
            keys = self.request.ranking.nodes
            if not keys:
                return possible.astype(np.int64)
            # Further criteria are the same one or its opposite: they break no tie.
            loads = self.inventory.loads(self.request.ranking.weights)[rows]
            return _dense(loads if keys[0] is NodeKey.FULLEST else -loads, possible)
        result_ids = self._result_ids(rows, self._possible[rows])
        return _dense(self._table.worth()[result_ids], self._table.fits()[result_ids])

    def untouched(self, rows: Rows) -> Mask:
        """Return which of some nodes give the pod no card: a device plugin serves it there.

        They have no cards in the ledger, and had none that pods still have. Unknown nodes are not
        among them, because a row does not distinguish an undescribed node from one whose ledger
        cannot be read.
        """
        return self.inventory.not_ours()[rows] & (self.request.plugin is not None)

    def is_untouched(self, name: str) -> bool:
        """Return whether the pod gets no card of one node: a device plugin serves it there."""
        if self.request.plugin is None:
            return False
        ledger = self.inventory.get(name)
        return name not in self._unreadable if ledger is None else is_not_ours(ledger)

    def fits(self, name: str) -> bool:
        """Return whether the request fits one node."""
        if self.is_untouched(name):
            return True
        return bool(self._possible[self.inventory.row(name)]) and self._fits_exactly(name)

    def values(self, name: str) -> tuple[int, ...] | None:
        """Return how good a node is, criterion by criterion; None where the request does not fit.

        Nothing where the pod gets no card of the node: no criterion is about it.
        """
        if self.is_untouched(name):
            return ()
        if not self._possible[self.inventory.row(name)]:
            return None
        if self._is_exact and not self._ranks_cards:
            value = load(self.inventory.ledger(name), self.request.ranking.weights)
            keys = self.request.ranking.nodes
            return tuple(value if key is NodeKey.FULLEST else -value for key in keys)
        result = self._result(name)
        return None if isinstance(result, Reason) else result

    def decide(self, selection: NodeNames | None = None, *, explain: bool = False) -> Decision:
        """Return the placement on the best node, or all reasons why there is none.

        Args:
            selection: as for ``best``.
            explain: give the reasons of the nodes that do not fit even where another one fits.
        """
        placement = self.best(selection)
        if placement is not None and not explain:
            return Decision(placement, NodeReasons.of({}))
        return Decision(placement, self.explain(selection))

    def best(self, selection: NodeNames | None = None) -> Placement | None:
        """Return the placement on the best node; None where the request fits none.

        Args:
            selection: the nodes to choose from; None for all. Of equally good ones the first wins.
        """
        rows = self._rows(selection)
        for group in self.inventory.ranked(self.request, rows[self._possible[rows]]):
            # The nodes of a group are equal by the criterion that the columns decide.
            if self._ranks_cards:
                result_ids = self._result_ids(group, self._possible[group])
                ranks = _dense(self._table.worth()[result_ids], self._table.fits()[result_ids])
                name = self.inventory.name(int(group[ranks.argmax()])) if ranks.any() else None
            else:
                names = map(self.inventory.name, group[: 1 if self._is_exact else None].tolist())
                name = next(filter(self._fits_exactly, names), None)
            if name is not None:
                placement = fit(self.request, self.inventory.ledger(name))
                return placement if isinstance(placement, Placement) else None
        return None

    def explain(self, selection: NodeNames | None = None) -> NodeReasons:
        """Return why the request does not fit some nodes; those that fit are left out.

        Args:
            selection: the nodes; None for all. An unknown one counts as one without cards.
        """
        names = self.names(selection)
        rows = self._rows(selection)
        alone = self._are_alone(rows)
        ids = self._result_ids(rows, ~alone)
        for at in np.flatnonzero(alone).tolist():
            result: NodeResult = ()
            if not self.is_untouched(names[at]):
                is_known = self.inventory.get(names[at]) is not None
                result = self._result(names[at]) if is_known else self._unknown(names[at])
            ids[at] = self._table.result_id(result) if isinstance(result, Reason) else NO_RESULT
        rejected = (ids != NO_RESULT) & ~self._table.fits()[ids]
        found = ids[rejected]
        used = np.flatnonzero(np.bincount(found))
        number_of = np.zeros(len(self._table.results), np.int32)
        number_of[used] = np.arange(used.size)
        # The same tuple for all requests that fit none of the nodes: it is most of the memory.
        return NodeReasons(
            tuple(names) if rejected.all() else tuple(compress(names, rejected.tobytes())),
            array("i", number_of[found].tobytes()),
            self._table.reasons(used),
        )

    def rejection(self, name: str) -> Rejection | None:
        """Return why the request does not fit one node; None where it fits."""
        return self.rejections((name,)).get(name)

    def rejections(self, names: Iterable[str]) -> dict[str, Rejection]:
        """Return why the request does not fit some nodes, and whether preemption may help.

        Nodes that fit are left out. Past ``EXPLAINED`` classes a reason has no counts of cards.
        """
        return {
            name: Rejection(reason, self.is_unresolvable(name))
            for name, reason in self.reasons(names, EXPLAINED).items()
        }

    def resolvable(self, names: Iterable[str]) -> list[str]:
        """Return the nodes, of some, that the request would fit if they were empty."""
        return [name for name in names if not self.is_unresolvable(name)]

    def reasons(self, names: Iterable[str], max_classes: int | None = None) -> dict[str, Reason]:
        """Return why the request does not fit some nodes; those that fit are left out.

        Args:
            names: nodes; an unknown one counts as one without cards, of which none is asked where
                a device plugin serves the request.
            max_classes: how many classes get a full reason; None for all. A node of a further class
                that was not evaluated before counts as rejected without being evaluated, so set a
                bound only for nodes that do not fit.
        """
        reasons: dict[str, Reason] = {}
        explained: set[Hashable] = set()
        for name in names:
            if self.is_untouched(name):
                continue
            ledger = self.inventory.get(name)
            if ledger is None:
                reasons[name] = replace(self._unknown(name), node=name)
                continue
            is_alone = self._is_alone(name)
            key = name if is_alone else self.inventory.node_class(name)
            if (
                max_classes is None
                or len(explained) < max_classes
                or key in explained
                or (self._is_known_alone(name) if is_alone else key in self._table.by_class)
            ):
                explained.add(key)
                result = self._result(name)
                if isinstance(result, Reason):
                    reasons[name] = replace(result, node=name)
            else:
                reasons[name] = Reason(name, len(ledger.node.cards), cause=Cause.TOO_FEW_FIT)
        return reasons

    @cached_property
    def _possible(self) -> Mask:
        """Whether the columns of free capacity do not exclude a node, by row."""
        return self.inventory.mask(self.request)

    def _is_alone(self, name: str) -> bool:
        """Return whether a node that the inventory knows is alone."""
        return self._by_uuid or name in self._own

    def _are_alone(self, rows: Rows) -> Mask:
        """Return which nodes are alone."""
        if self._by_uuid:
            return np.ones(rows.size, np.bool_)
        alone: Mask = rows == len(self.inventory)
        if self._own:
            alone |= np.isin(rows, self.inventory.rows(self._own))
        return alone

    def _result(self, name: str) -> NodeResult:
        """Return the result of a node that the inventory knows."""
        if not self._is_alone(name):
            return self._table.results[self._class_result(name, self.inventory.node_class(name))]
        if not self._is_known_alone(name):
            self._alone_results[name] = (self.inventory.ledger(name), self._compute(name))
        return self._alone_results[name][1]

    def _is_known_alone(self, name: str) -> bool:
        """Return whether there is a result of a node that is alone, for its ledger of now."""
        known = self._alone_results.get(name)
        return known is not None and known[0] is self.inventory.ledger(name)

    def _class_result(self, name: str, class_id: int) -> int:
        """Return the result id of a class of nodes.

        Args:
            name: one of its nodes, which is not alone.
            class_id: of the node.
        """
        result_id = self._table.by_class.get(class_id)
        if result_id is None:
            result_id = self._table.result_id(self._compute(name))
            self._table.by_class[class_id] = result_id
        return result_id

    def _note(self, row: int) -> None:
        """Write the result of a node that is not alone to its row of the table."""
        name = self.inventory.name(row)
        class_id = self.inventory.node_class(name)
        self._table.note(row, class_id, self._class_result(name, class_id))

    def _result_ids(self, rows: Rows, wanted: Mask) -> Numbers:
        """Return the result id of each row; ``NO_RESULT`` where it is not wanted.

        Args:
            rows: of the nodes.
            wanted: for each of the rows; False for an unknown node.
        """
        alone = self._are_alone(rows)
        for row in rows[self._table.stale(rows) & wanted & ~alone].tolist():
            self._note(row)
        result_ids = self._table.result_ids(rows)
        result_ids[~wanted] = NO_RESULT
        for at in np.flatnonzero(alone & wanted).tolist():
            result = self._result(self.inventory.name(int(rows[at])))
            result_ids[at] = self._table.result_id(result)
        return result_ids

    def _compute(self, name: str) -> NodeResult:
        ledger = self.inventory.ledger(name).release(self.request.uid)
        result = fit(self.request, ledger)
        if isinstance(result, Reason):
            return replace(result, node="")
        keys = self.request.ranking.nodes if result.grants else ()
        return tuple(node_value(key, self.request, ledger, result) for key in keys)

    def _fits_exactly(self, name: str) -> bool:
        """Return whether the request fits a node that the columns do not exclude."""
        return self._is_exact or not isinstance(self._result(name), Reason)

    def _unknown(self, name: str) -> Reason:
        """Return why nothing fits a node that the inventory does not know."""
        cause = Cause.BLOCKED if name in self._unreadable else Cause.NO_CARDS
        return Reason("", 0, cause=cause)

    def names(self, selection: NodeNames | None) -> Sequence[str]:
        """Return the names of a selection; all names of the inventory without one."""
        return self.inventory.names() if selection is None else selection.names

    def _rows(self, selection: NodeNames | None) -> Rows:
        return self.inventory.rows() if selection is None else selection.rows(self.inventory)

    def is_unresolvable(self, name: str) -> bool:
        """Return whether the request would not fit either if the node were empty."""
        ledger = self.inventory.get(name)
        if ledger is None:
            return name not in self._unreadable
        if self._by_uuid:
            return self._fails_when_empty(ledger)
        class_id = self.inventory.empty_class(name)
        known = self._table.unresolvable.get(class_id)
        if known is None:
            known = self._table.unresolvable[class_id] = self._fails_when_empty(ledger)
        return known

    def _fails_when_empty(self, ledger: NodeLedger) -> bool:
        return isinstance(fit(self.request, NodeLedger.of(ledger.node)), Reason)


def _dense(worth: Numbers, fits: Mask) -> Numbers:
    """Return the order of some numbers, from 1 on; 0 where there is no fit."""
    ranks = np.zeros(len(worth), np.int64)
    ranks[fits] = np.unique(worth[fits], return_inverse=True)[1] + 1
    return ranks


def _columns_are_exact(request: Request, inventory: Inventory) -> bool:
    """Return whether the columns of free capacity suffice to decide if the request fits a node."""
    return (
        len(request.containers) == 1
        and not any(container.linked for container in request.containers)
        and (Mode.MIG not in request.modes or not inventory.has_mig_cards())
        and request.plugin is None
        and not request.terms.has_demands
        and request.allow_uuids is None
        and not request.deny_uuids
    )

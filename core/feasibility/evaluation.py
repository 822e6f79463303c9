"""Which nodes a request fits, exactly, and why it does not fit the others.

Nodes of one class get one result, which also holds for later requests that ask for the same.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from core.feasibility.arrays import Mask, Numbers, Rows
from core.feasibility.equivalence import HardwareClassIds
from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory
from core.feasibility.results import NO_CLASS, REJECTED, NodeResult, Rejection, SignatureResults
from core.hardware.card import Mode
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import load, needs_placement, node_value
from core.requests.grant import Placement
from core.requests.reason import Cause, Reason
from core.requests.request import NodeKey, Request

EXPLAINED = 200
"""Node classes for which one call computes why the request does not fit. Past that a reason says
so without the counts of cards, because ``fit`` takes up to half a millisecond for each class."""


class NodeEvaluation:
    """One request against all nodes. It holds as long as the inventory does not change.

    What the pod of the request holds itself counts as free. Every answer is that of ``fit``; the
    capacity columns of the inventory exclude most nodes, and results by class spare most others.

    Attributes:
        request: what the pod asks for.
        inventory: the nodes.
    """

    def __init__(
        self,
        request: Request,
        inventory: Inventory,
        results: SignatureResults,
        hardware_classes: HardwareClassIds,
        unreadable: Collection[str] = (),
    ) -> None:
        self.request = request
        self.inventory = inventory
        self._results = results
        self._hardware_classes = hardware_classes
        self._unreadable = unreadable
        self._own = frozenset(inventory.nodes_of(request.uid)) | inventory.nodes_of_group(
            request.group
        )
        self._by_uuid = request.allow_uuids is not None or bool(request.deny_uuids)
        self._is_exact = _columns_are_exact(request, inventory) and not self._own
        self._ranks_cards = any(map(needs_placement, request.ranking.nodes))
        self._by_node: dict[str, NodeResult] = {}

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
        for row in rows[self._stale(rows)].tolist():
            name = self.inventory.name(row)
            if name in self._own:
                continue
            class_id = self.inventory.node_class(name)
            max_classes -= class_id not in self._results.by_class
            if max_classes < 0:
                return False
            self._results.by_row.note(row, class_id, self._result(name))
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

    def groups(self, rows: Rows) -> Numbers:
        """For each of some nodes a number; where it is equal, so are the results but for names.

        Args:
            rows: of the nodes; ``classify`` has returned True for them.
        """
        alone: Mask = np.full(rows.size, self._by_uuid)
        if self._own:
            alone |= np.isin(rows, self.inventory.rows(self._own))
        if self._unreadable:
            alone |= rows == len(self.inventory)
        classes: Numbers = self.inventory.node_classes()[rows]
        return np.where(alone, NO_CLASS - 1 - np.arange(rows.size), classes)

    def fitting(self, rows: Rows) -> Mask:
        """Which of some nodes the request fits, in the order of the rows."""
        fits: Mask = self._possible[rows] if self._is_exact else self._value_ids(rows) != REJECTED
        return fits

    def ranks(self, rows: Rows) -> Numbers:
        """How good some nodes are beside each other: more is better, 0 where it does not fit."""
        if self._is_exact and not self._ranks_cards:
            possible = self._possible[rows]
            keys = self.request.ranking.nodes
            if not keys:
                return possible.astype(np.int64)
            # Further criteria are the same one or its opposite: they break no tie.
            loads = self.inventory.loads(self.request.ranking.weights)[rows]
            return _dense(loads if keys[0] is NodeKey.FULLEST else -loads, possible)
        value_ids = self._value_ids(rows)
        distinct = self._results.by_row.distinct
        order = {value: rank for rank, value in enumerate(sorted(distinct))}
        rank_of = np.array([*(order[value] for value in distinct), 0], np.int64)
        return _dense(rank_of[value_ids], value_ids != REJECTED)

    def fits(self, name: str) -> bool:
        """Whether the request fits one node."""
        if not self._possible[self.inventory.row(name)]:
            return False
        return self._is_exact or not isinstance(self._result(name), Reason)

    def values(self, name: str) -> tuple[int, ...] | None:
        """How good a node is, criterion by criterion; None where the request does not fit."""
        if not self._possible[self.inventory.row(name)]:
            return None
        if self._is_exact and not self._ranks_cards:
            value = load(self.inventory.ledger(name), self.request.ranking.weights)
            keys = self.request.ranking.nodes
            return tuple(value if key is NodeKey.FULLEST else -value for key in keys)
        result = self._result(name)
        return None if isinstance(result, Reason) else result

    def best(self, names: Sequence[str] | None = None) -> Placement | None:
        """The placement on the best node; None where the request fits none.

        Args:
            names: the nodes to choose from; None for all. Of equally good ones the first wins.
        """
        for group in self.inventory.ranked(self.request, names):
            name = self._best_of(group)
            if name is not None:
                placement = fit(self.request, self.inventory.ledger(name))
                return placement if isinstance(placement, Placement) else None
        return None

    def rejection(self, name: str) -> Rejection | None:
        """Why the request does not fit one node; None where it fits."""
        return self.rejections((name,)).get(name)

    def rejections(self, names: Iterable[str]) -> dict[str, Rejection]:
        """Why the request does not fit some nodes, and whether preemption cannot change that.

        Nodes that fit are left out. Past ``EXPLAINED`` classes a reason has no counts of cards.
        """
        return {
            name: Rejection(reason, self._is_unresolvable(name))
            for name, reason in self.reasons(names, EXPLAINED).items()
        }

    def reasons(self, names: Iterable[str], max_classes: int | None = None) -> dict[str, Reason]:
        """Why the request does not fit some nodes; those that fit are left out.

        Args:
            names: nodes; an unknown one counts as one without cards.
            max_classes: how many classes get a full reason; None for all. A node of a further class
                that was not evaluated before counts as rejected without being evaluated, so set a
                bound only for nodes that do not fit.
        """
        reasons: dict[str, Reason] = {}
        explained: set[Hashable] = set()
        for name in names:
            ledger = self.inventory.get(name)
            if ledger is None:
                cause = Cause.BLOCKED if name in self._unreadable else Cause.NO_CARDS
                reasons[name] = Reason(name, 0, cause=cause)
                continue
            key = self._key(name)
            if (
                max_classes is None
                or len(explained) < max_classes
                or key in explained
                or self._knows(key)
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
        """By row, whether the columns of free capacity do not exclude the node."""
        return self.inventory.mask(self.request)

    def _best_of(self, group: Sequence[str]) -> str | None:
        """The best of the nodes that are equal by the criterion that the columns decide."""
        if self._is_exact and not self._ranks_cards:
            return group[0] if group else None
        best: tuple[tuple[int, ...], str] | None = None
        for name in group:
            result = self._result(name)
            if not isinstance(result, Reason) and (best is None or result > best[0]):
                best = (result, name)
                if not self._ranks_cards:
                    break
        return None if best is None else best[1]

    def _value_ids(self, rows: Rows) -> Numbers:
        """For each of some nodes its value id, after ``fit`` ran for those without a result."""
        by_row = self._results.by_row
        value_ids: Numbers = by_row.value_ids[rows]
        value_ids[~self._possible[rows]] = REJECTED
        for at in np.flatnonzero(self._stale(rows)).tolist():
            row = int(rows[at])
            name = self.inventory.name(row)
            result = self._result(name)
            value_ids[at] = by_row.value_id(result)
            if not self._is_alone(name):
                by_row.note(row, self.inventory.node_class(name), result)
        return value_ids

    def _stale(self, rows: Rows) -> Mask:
        """Which nodes may fit, but have another class than when their result was noted."""
        possible: Mask = self._possible[rows]
        if self._by_uuid:
            return possible
        class_ids = self.inventory.node_classes()[rows]
        stale: Mask = class_ids == NO_CLASS
        stale |= class_ids != self._results.by_row.class_ids[rows]
        if self._own:
            stale |= np.isin(rows, self.inventory.rows(self._own))
        stale &= possible
        return stale

    def _is_alone(self, name: str) -> bool:
        """Whether the result of a node says nothing about others of its class."""
        return self._by_uuid or name in self._own

    def _key(self, name: str) -> Hashable:
        return name if self._is_alone(name) else self.inventory.node_class(name)

    def _knows(self, key: Hashable) -> bool:
        return key in (self._by_node if isinstance(key, str) else self._results.by_class)

    def _result(self, name: str) -> NodeResult:
        """The result of a node that the inventory knows."""
        if self._is_alone(name):
            result = self._by_node.get(name)
            if result is None:
                result = self._by_node[name] = self._compute(name)
            return result
        class_id = self.inventory.node_class(name)
        result = self._results.by_class.get(class_id)
        if result is None:
            result = self._results.by_class[class_id] = self._compute(name)
        return result

    def _compute(self, name: str) -> NodeResult:
        ledger = self.inventory.ledger(name).release(self.request.uid)
        result = fit(self.request, ledger)
        if isinstance(result, Reason):
            return result
        keys = self.request.ranking.nodes
        return tuple(node_value(key, self.request, ledger, result) for key in keys)

    def _is_unresolvable(self, name: str) -> bool:
        """Whether the request would not fit either if the node were empty."""
        ledger = self.inventory.get(name)
        if ledger is None:
            return name not in self._unreadable
        if self._by_uuid:
            return self._fails_when_empty(ledger)
        class_id = self._hardware_classes.of(ledger.node)
        known = self._results.unresolvable.get(class_id)
        if known is None:
            known = self._results.unresolvable[class_id] = self._fails_when_empty(ledger)
        return known

    def _fails_when_empty(self, ledger: NodeLedger) -> bool:
        return isinstance(fit(self.request, NodeLedger.of(ledger.node)), Reason)


def _dense(worth: Numbers, fits: Mask) -> Numbers:
    """The order of some numbers, from 1 on; 0 where there is no fit."""
    ranks = np.zeros(len(worth), np.int64)
    ranks[fits] = np.unique(worth[fits], return_inverse=True)[1] + 1
    return ranks


def _columns_are_exact(request: Request, inventory: Inventory) -> bool:
    """Whether the columns of free capacity alone decide whether the request fits a node."""
    return (
        len(request.containers) == 1
        and not any(container.linked for container in request.containers)
        and (Mode.MIG not in request.modes or not inventory.has_mig_cards())
        and request.qos is None
        and request.group is None
        and not request.exclusions
        and request.allow_uuids is None
        and not request.deny_uuids
    )

"""The result of one request for each node, computed once for all nodes that are alike."""

from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from core.feasibility.columns import Mask, Numbers, Rows
from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory
from core.feasibility.results import FITS, NO_CLASS, REJECTED, NodeResult, SignatureResults
from core.placement.rank import node_value
from core.requests.grant import Placement
from core.requests.node_reasons import NodeReasons
from core.requests.reason import Reason
from core.requests.request import Request


class NodeResults:
    """Results by node, as long as the inventory does not change.

    A node is *alone* if its result says nothing about others of its class: the request names
    UUIDs, its pod or its group has an allocation there, or the inventory does not know the node.

    Attributes:
        shared: the results by class, which other requests of the same signature use too.
        own: the nodes on which the request's pod or group has an allocation.
        by_uuid: whether the request names UUIDs.
    """

    def __init__(self, request: Request, inventory: Inventory, shared: SignatureResults) -> None:
        self.shared = shared
        self.own = frozenset(inventory.nodes_of(request.uid)) | inventory.nodes_of_group(
            request.group
        )
        self.by_uuid = request.allow_uuids is not None or bool(request.deny_uuids)
        self._request = request
        self._inventory = inventory
        self._by_node: dict[str, NodeResult] = {}

    def note(self, rows: Iterable[int]) -> None:
        """Compute and note the results of some nodes, none of which is alone."""
        for row in rows:
            name = self._inventory.name(row)
            result = self.of(name)
            self.shared.by_row.note(row, self._inventory.node_class(name), result)

    def value_ids(self, rows: Rows, possible: Mask) -> Numbers:
        """For each of some nodes its value id.

        Args:
            rows: of the nodes.
            possible: by row; the others count as rejected without being computed.
        """
        here: Mask = possible[rows]
        alone = self.alone(rows)
        self.note(rows[self.outdated(rows) & here & ~alone].tolist())
        by_row = self.shared.by_row
        value_ids: Numbers = by_row.value_ids[rows]
        value_ids[~here] = REJECTED
        for at in np.flatnonzero(alone & here).tolist():
            value_ids[at] = by_row.value_id(self.of(self._inventory.name(int(rows[at]))))
        return value_ids

    def outdated(self, rows: Rows) -> Mask:
        """Which nodes have no result noted for the class that they have now."""
        class_ids = self._inventory.node_classes()[rows]
        outdated: Mask = class_ids == NO_CLASS
        outdated |= class_ids != self.shared.by_row.class_ids[rows]
        return outdated

    def alone(self, rows: Rows) -> Mask:
        """Which nodes are alone."""
        if self.by_uuid:
            return np.ones(rows.size, np.bool_)
        alone: Mask = rows == len(self._inventory)
        if self.own:
            alone |= np.isin(rows, self._inventory.rows(self.own))
        return alone

    def key(self, name: str) -> Hashable:
        """Equal for nodes that have the same result."""
        return name if self._is_alone(name) else self._inventory.node_class(name)

    def knows(self, key: Hashable) -> bool:
        """Whether the result under a key was computed already."""
        return key in (self._by_node if isinstance(key, str) else self.shared.by_class)

    def of(self, name: str) -> NodeResult:
        """The result of a node that the inventory knows."""
        if self._is_alone(name):
            result = self._by_node.get(name)
            if result is None:
                result = self._by_node[name] = self._compute(name)
            return result
        class_id = self._inventory.node_class(name)
        result = self.shared.by_class.get(class_id)
        if result is None:
            result = self.shared.keep(class_id, self._compute(name))
        return result

    def placement(self, name: str) -> Placement | None:
        """The cards that the request gets on a node that the inventory knows; None for none."""
        node = self._inventory.ledger(name).node
        class_id = None if self._is_alone(name) else self._inventory.node_class(name)
        known = None if class_id is None else self.shared.placements.get(class_id)
        if known is not None:
            return Placement(name, tuple(replace(g, card=node.cards[at].uuid) for at, g in known))
        found = fit(self._request, self._inventory.ledger(name))
        if class_id is not None and isinstance(found, Placement) and not found.blocked:
            positions = {card.uuid: position for position, card in enumerate(node.cards)}
            choice = tuple((positions[grant.card], grant) for grant in found.grants)
            self.shared.keep_placement(class_id, choice)
        return found if isinstance(found, Placement) else None

    def _is_alone(self, name: str) -> bool:
        """Whether a node that the inventory knows is alone."""
        return self.by_uuid or name in self.own

    def _compute(self, name: str) -> NodeResult:
        ledger = self._inventory.ledger(name).release(self._request.uid)
        result = fit(self._request, ledger)
        if isinstance(result, Reason):
            return replace(result, node="")
        keys = self._request.ranking.nodes if result.grants else ()
        return tuple(node_value(key, self._request, ledger, result) for key in keys)


def collected_reasons(
    names: Sequence[str], ids: Numbers, distinct: Sequence[Reason]
) -> NodeReasons:
    """The reasons of those nodes that do not have ``FITS`` in place of a reason's position."""
    rejected = ids != FITS
    if not rejected.all():
        names, ids = tuple(compress(names, rejected.tobytes())), ids[rejected]
    used = np.flatnonzero(np.bincount(ids, minlength=len(distinct)))
    position = np.zeros(len(distinct), np.int32)
    position[used] = np.arange(used.size)
    return NodeReasons(
        names, array("i", position[ids].tobytes()), tuple(distinct[each] for each in used.tolist())
    )

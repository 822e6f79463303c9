"""One request against all nodes: the best placement, or why there is none."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import needs_placement, node_value
from core.requests.decision import Decision
from core.requests.grant import Placement
from core.requests.reason import Cause, Reason
from core.requests.request import Request


def allocate(
    request: Request,
    inventory: Inventory,
    names: Sequence[str] | None = None,
    *,
    explain: bool = False,
) -> Decision:
    """Find the best node for a request, and its cards there.

    Nodes are compared by the request's ranking; where it cannot tell two apart, the earlier wins.

    Args:
        request: what is asked.
        inventory: all nodes.
        names: the nodes to choose from, in order; None for all of them.
        explain: give the reasons of the nodes that will not do even where another one will.

    Returns:
        The decision. A node that is not known counts as one without cards.
    """
    search = _Search(request, inventory)
    groups = inventory.ranked(request, names)
    placement = next(filter(None, map(search.best, groups)), None)
    if placement is not None and not explain:
        return Decision(placement, {})
    return Decision(placement, search.reasons(inventory.names() if names is None else names))


Found = tuple[tuple[int, ...], Placement] | Reason
"""How good a node is by each criterion, higher is better, and the placement; or why it is none."""


class _Search:
    """What is found out about nodes during one call; of nodes of one kind, one is looked at."""

    def __init__(self, request: Request, inventory: Inventory) -> None:
        self.request = request
        self.inventory = inventory
        self.keys = request.ranking.nodes
        self.picky = any(needs_placement(key) for key in self.keys)
        self.by_uuid = request.allow_uuids is not None or bool(request.deny_uuids)
        self.known: dict[Hashable, Found] = {}

    def best(self, group: Iterable[str]) -> Placement | None:
        """The best placement on nodes of which the columns can tell no more."""
        chosen: tuple[tuple[int, ...], Placement] | None = None
        for name in group:
            found = self._look(name, self.inventory.ledger(name))
            if not isinstance(found, Reason) and (chosen is None or found[0] > chosen[0]):
                chosen = found
                if not self.picky:
                    break
        return None if chosen is None else chosen[1]

    def reasons(self, names: Iterable[str]) -> Mapping[str, Reason]:
        """Why the nodes will not do; those that will are left out."""
        told: dict[str, Reason] = {}
        for name in names:
            ledger = self.inventory.get(name)
            if ledger is None:
                told[name] = Reason(name, 0, cause=Cause.NO_CARDS)
                continue
            found = self._look(name, ledger)
            if isinstance(found, Reason):
                told[name] = replace(found, node=name)
        return told

    def _look(self, name: str, ledger: NodeLedger) -> Found:
        alone = self.by_uuid or self.request.uid in ledger.allocations
        kind = name if alone else self.inventory.node_class(name)
        found = self.known.get(kind)
        if found is None:
            found = self.known[kind] = self._try(ledger.release(self.request.uid))
        return found

    def _try(self, ledger: NodeLedger) -> Found:
        result = fit(self.request, ledger)
        if isinstance(result, Reason):
            return result
        values = (node_value(key, self.request, ledger, result) for key in self.keys)
        return tuple(values), result

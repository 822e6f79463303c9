"""The quotas of a cluster's namespaces, with what the pods have by the ledgers."""

from collections.abc import Hashable, Iterable, Mapping

from adapters.cli.fleet.fleet import Fleet
from core.feasibility.cache import FeasibilityCache
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory
from core.hardware.card import Card
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import QuotaAmounts, amounts_of, least
from core.quota.quota import Quota, QuotaHold, holds_of
from core.requests.grant import Allocation
from core.requests.pod_ref import PodRef
from core.requests.request import Request


class NamespaceQuotas:
    """The quotas while pods are placed one after another.

    Attributes:
        by_namespace: as they are now; ``counted``.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.by_namespace = counted(fleet.quotas, (state.ledger for state in fleet.nodes.values()))
        self._feasibility = FeasibilityCache()
        self._unreadable = fleet.unreadable()
        self._cards: dict[Hashable, Card] = (
            {
                (card.memory, card.mode, card.geometry): card
                for state in fleet.nodes.values()
                for card in state.node.cards
            }
            if self.by_namespace
            else {}
        )

    def evaluate(self, request: Request, inventory: Inventory) -> NodeEvaluation:
        """The request against all nodes, as the service evaluates it."""
        quota = self.by_namespace.get(_namespace(request.pod))
        short = quota and quota.shortage(request.uid, least(request, self._cards.values()))
        refusal = short.text() if short else None
        return self._feasibility.evaluate(request, inventory, self._unreadable, refusal)

    def refusal_of(self, holder: PodRef, amounts: QuotaAmounts) -> str | None:
        """Why the quota of a pod's namespace refuses some amounts; None where it does not."""
        quota = self.by_namespace.get(holder.namespace)
        short = quota and quota.shortage(holder.uid, amounts)
        return short.text() if short else None

    def take(self, allocation: Allocation, node: Node) -> str | None:
        """Count an allocation; why the quota refuses it, None where it does not."""
        namespace = _namespace(allocation.pod)
        quota = self.by_namespace.get(namespace)
        if quota is None:
            return None
        changed = quota.hold(_hold(allocation, node))
        if not isinstance(changed, Quota):
            return changed.text()
        self.by_namespace[namespace] = changed
        return None

    def count(self, allocation: Allocation, node: Node) -> None:
        """Count an allocation of a plan, which is within the quota."""
        namespace = _namespace(allocation.pod)
        quota = self.by_namespace.get(namespace)
        if quota is not None:
            self.by_namespace[namespace] = quota.adopt(_hold(allocation, node))


def _hold(allocation: Allocation, node: Node) -> QuotaHold:
    amounts = amounts_of(allocation, node)
    return QuotaHold(allocation.uid, allocation.pod, node.name, amounts)


def counted(quotas: Mapping[str, Quota], ledgers: Iterable[NodeLedger]) -> dict[str, Quota]:
    """The quotas with a hold for every allocation, whatever their status says."""
    if not quotas:
        return {}
    found = {
        name: Quota(name, quota.limits, counted=True, host_limits=quota.host_limits)
        for name, quota in quotas.items()
    }
    for ledger in ledgers:
        for hold in holds_of(ledger):
            namespace = _namespace(hold.pod)
            if namespace in found:
                found[namespace] = found[namespace].adopt(hold)
    return found


def _namespace(pod: str) -> str:
    return PodRef.parse(pod).namespace

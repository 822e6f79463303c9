"""Which pods with cards may be moved, what a move costs, and why the others stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.accounting.movable import IN_GANG, controller, hindrance
from adapters.accounting.pod_requests import AlikePods, template_of
from adapters.cli.fleet.fleet import Fleet
from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRA
from adapters.wire.budget import Budget, selects
from adapters.wire.kube import Pod
from core.requests.grant import KUBELET, Allocation
from core.requests.request import Request

OF_OWNER = {"ReplicaSet": 1, "ReplicationController": 1, "StatefulSet": 2}
"""What the move of a pod costs, by the kind of its controller."""

OTHERS = 4
"""What it costs for every other kind: a Job loses the work since its start."""


@dataclass(frozen=True, slots=True)
class MovablePod:
    """A pod that may be moved.

    Attributes:
        pod: the pod.
        request: what it asks for.
        owner: its controller, such as ``ReplicaSet/web``.
        weight: what a move costs.
    """

    pod: Pod
    request: Request
    owner: str
    weight: int


@dataclass(frozen=True, slots=True)
class Holders:
    """Everything that has cards of ledgers that can be read.

    Attributes:
        movable: by uid.
        staying: by uid, why the others stay.
    """

    movable: Mapping[str, MovablePod]
    staying: Mapping[str, str]


def holders(fleet: Fleet, budgets: Sequence[Budget]) -> Holders:
    """Sort everything that has cards into what may be moved, and what stays."""
    return _Sorter(fleet, budgets).run()


class _Sorter:
    def __init__(self, fleet: Fleet, budgets: Sequence[Budget]) -> None:
        self._fleet = fleet
        self._budgets = budgets
        self._pods = {pod.metadata.uid: pod for pod in fleet.pods.values()}
        self._requests = AlikePods(fleet.dialects)
        self._gangs = fleet.gangs()

    def run(self) -> Holders:
        movable: dict[str, MovablePod] = {}
        staying: dict[str, str] = {}
        for state in self._fleet.nodes.values():
            if state.unreadable is None:
                for allocation in state.ledger.allocations.values():
                    found = self._sorted(allocation)
                    if isinstance(found, str):
                        staying[allocation.uid] = found
                        movable.pop(allocation.uid, None)
                    elif allocation.uid not in staying:
                        movable[allocation.uid] = found
        ranks = {
            priority: rank
            for rank, priority in enumerate(
                sorted({each.request.priority for each in movable.values()}), start=1
            )
        }
        weighed = {
            uid: MovablePod(
                each.pod, each.request, each.owner, each.weight * ranks[each.request.priority]
            )
            for uid, each in movable.items()
        }
        return Holders(weighed, staying)

    def _sorted(self, allocation: Allocation) -> MovablePod | str:
        if allocation.dialect == DRA:
            return "a ResourceClaim has the cards"
        if allocation.dialect == KUBELET or allocation.unread is not None:
            return "which cards it has is not known"
        pod = self._pods.get(allocation.uid)
        if pod is None or pod.spec.node_name != allocation.node:
            return "is not bound yet, or is gone"
        against, owner = self._hindrance(pod), controller(pod)
        if against or owner is None:
            return against
        try:
            found = self._requests.read(pod, template_of(pod))
        except DialectError:
            found = None
        if found is None:
            return "its request cannot be read"
        return MovablePod(
            pod,
            found.request,
            f"{owner.kind}/{owner.name}",
            OF_OWNER.get(owner.kind, OTHERS),
        )

    def _hindrance(self, pod: Pod) -> str:
        """Why a pod is not moved, whatever it requests; empty where nothing is against it."""
        against = hindrance(pod)
        if against:
            return against
        gang = self._gangs.gang(pod)
        if gang is not None and gang.minimum > 1:
            return IN_GANG
        if self._fleet.claims.get(pod.metadata.uid):
            return "a ResourceClaim has the cards"
        return self._budget(pod)

    def _budget(self, pod: Pod) -> str:
        """Why budgets keep a pod; empty where they do not.

        Source: kubernetes pkg/registry/core/pod/storage/eviction.go, Create: of a pod that several
        budgets select, the eviction ends with status 500.
        """
        found = [budget for budget in self._budgets if selects(budget, pod)]
        if len(found) > 1:
            return "several PodDisruptionBudgets select it, so that it cannot be evicted"
        if found and found[0].status.disruptions_allowed < 1:
            return "its PodDisruptionBudget allows no disruption now"
        return ""

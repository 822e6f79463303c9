"""Which pods with cards may be moved, what a move costs, and why the others stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.accounting.pod_requests import AlikePods, template_of
from adapters.cli.fleet.fleet import Fleet
from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.gangs import gang_of
from adapters.wire.budget import Budget, selects
from adapters.wire.kube import OwnerReference, Pod, annotations
from core.requests.grant import KUBELET, Allocation
from core.requests.request import Request

STAYS = {
    "dragoman.dev/move": "false",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""Annotations that keep a pod where it is. Source of the second: kubernetes/autoscaler
cluster-autoscaler/FAQ.md."""

KARPENTER = "karpenter.sh/do-not-disrupt"
"""Annotation that keeps a pod where it is: ``true``, or for a duration from its start, which is not
compared with the time here.
Source: kubernetes-sigs/karpenter pkg/utils/pod/scheduling.go, IsDoNotDisruptActive."""

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod, which is its kubelet's own."""

VOLCANO_JOB = "volcano.sh/job-name"
"""Annotation of the pods of Volcano's Job, which are bound together.
Source: volcano.sh/apis pkg/apis/batch/v1alpha1/labels.go, JobNameKey."""

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
        owner = _controller(pod)
        hindrance = self._hindrance(pod, owner)
        if hindrance or owner is None:
            return hindrance
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

    def _hindrance(self, pod: Pod, owner: OwnerReference | None) -> str:
        """Why a pod is not moved, whatever it requests; empty where nothing is against it."""
        texts = annotations(pod)
        if MIRROR in texts or (owner is not None and owner.kind == "Node"):
            return "a static pod is its kubelet's own"
        if owner is None:
            return "no controller would create it again"
        if owner.kind == "DaemonSet":
            return "a DaemonSet's pod belongs to its node"
        kept = next((key for key, value in STAYS.items() if texts.get(key) == value), None)
        if kept is None and texts.get(KARPENTER, "false") != "false":
            kept = KARPENTER
        if kept is not None:
            return f"its annotation {kept} keeps it"
        if pod.metadata.deletion_timestamp is not None:
            return "is being deleted"
        gang = self._gangs.gang(pod)
        if gang_of(pod) is not None or VOLCANO_JOB in texts or (gang and gang.minimum > 1):
            return "is in a gang, which would lose a member"
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


def _controller(pod: Pod) -> OwnerReference | None:
    owners = pod.metadata.owner_references or ()
    return next((owner for owner in owners if owner.controller), None)

"""Which pods with cards may be moved, what a move costs and needs, and why the others stay.

A pod of a Job that is deleted before it succeeded counts as failed, as an evicted one is: at once,
or, with a ``podFailurePolicy`` or ``podReplacementPolicy: Failed``, when its containers have ended.
Source: kubernetes 1.37 pkg/controller/job/job_controller.go (isPodFailed, syncJob),
pod_failure_policy.go (matchPodFailurePolicy), backoff_utils.go. What pods need beside cards:
k8s.io/component-helpers/resource/helpers.go, PodRequests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from adapters.accounting.movable import BY_CLAIM, IN_GANG, controller, hindrance
from adapters.accounting.pod_requests import read
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.input.manifests import Manifests
from adapters.dialects.adoption import may_use_cards
from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRA
from adapters.wire import kube
from adapters.wire.kube_policy import Budget, JobObject, selects
from adapters.wire.quantity import QuantityError, parse
from core.moves.situation import PlannedPod
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
        owner: its controller.
        weight: what a move costs.
    """

    pod: kube.Pod
    request: Request
    owner: kube.OwnerReference
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


def holders(fleet: Fleet, found: Manifests) -> Holders:
    """Sort everything that has cards into what may be moved, and what stays."""
    return _Sorter(fleet, found).run()


class _Sorter:
    """Sorts by what a pod, its gang, its claims, its budgets and its Job say.

    Attributes:
        movable: by uid, what may be moved so far; the weight is that of the controller.
        staying: by uid, why the others stay.
    """

    def __init__(self, fleet: Fleet, found: Manifests) -> None:
        self.movable: dict[str, MovablePod] = {}
        self.staying: dict[str, str] = {}
        self._fleet = fleet
        self._budgets: dict[str, list[Budget]] = {}
        for budget, _ in found.budgets:
            self._budgets.setdefault(budget.metadata.namespace, []).append(budget)
        self._jobs = {name: job for name, (job, _) in found.jobs.items()}
        self._pods = {pod.metadata.uid: pod for pod in fleet.pods.values()}
        self._gangs = fleet.gangs()

    def run(self) -> Holders:
        for state in self._fleet.nodes.values():
            if state.unreadable is None:
                for allocation in state.ledger.allocations.values():
                    found = self._sorted(allocation)
                    if isinstance(found, str):
                        self._stays(allocation.uid, found)
                    elif allocation.uid not in self.staying:
                        self.movable[allocation.uid] = found
        self._sort_jobs()
        priorities = sorted({each.request.priority for each in self.movable.values()})
        ranks = {priority: rank for rank, priority in enumerate(priorities, start=1)}
        weighed = {
            uid: replace(each, weight=each.weight * ranks[each.request.priority])
            for uid, each in self.movable.items()
        }
        return Holders(weighed, self.staying)

    def _stays(self, uid: str, why: str) -> None:
        self.staying[uid] = why
        self.movable.pop(uid, None)

    def _sort_jobs(self) -> None:
        """Keep the pods whose evictions their Jobs would not outlive, the last ones by name."""
        counted: dict[str, list[MovablePod]] = {}
        for each in sorted(self.movable.values(), key=lambda each: kube.full_name(each.pod)):
            if each.owner.kind == "Job":
                namespace = each.pod.metadata.namespace or "default"
                name = f"{namespace}/{each.owner.name}"
                job = self._jobs.get(name)
                if job is None:
                    self._stays(each.pod.metadata.uid, UNKNOWN)
                    continue
                counts, why = eviction(job, each.pod)
                if why:
                    self._stays(each.pod.metadata.uid, why)
                elif counts:
                    counted.setdefault(name, []).append(each)
        for name, pods in counted.items():
            for each in pods[failures_left(self._jobs[name]) :]:
                self._stays(each.pod.metadata.uid, BY_LIMIT)

    def _sorted(self, allocation: Allocation) -> MovablePod | str:
        if allocation.dialect == DRA:
            return BY_CLAIM
        if allocation.dialect == KUBELET or allocation.unread is not None:
            return "which cards it has is not known"
        pod = self._pods.get(allocation.uid)
        if pod is None or pod.spec.node_name != allocation.node:
            return "is not bound yet, or is gone"
        against, owner = self._hindrance(pod), controller(pod)
        if against or owner is None:
            return against
        try:
            found = read(pod, self._fleet.dialects)
        except DialectError:
            found = None
        if found is None:
            return "its request cannot be read"
        return MovablePod(pod, found.request, owner, OF_OWNER.get(owner.kind, OTHERS))

    def _hindrance(self, pod: kube.Pod) -> str:
        """Return why a pod is not moved, whatever it requests; empty where it may be."""
        against = hindrance(pod)
        if against:
            return against
        gang = self._gangs.any_gang(pod)
        if gang is not None and gang.minimum > 1:
            return IN_GANG
        if self._fleet.claims.of_pod(pod.metadata.uid):
            return BY_CLAIM
        # Of a pod that several budgets select, the eviction ends with status 500.
        # Source: kubernetes pkg/registry/core/pod/storage/eviction.go, Create.
        namespace = pod.metadata.namespace or "default"
        found = [each for each in self._budgets.get(namespace, ()) if selects(each, pod)]
        if len(found) > 1:
            return "several PodDisruptionBudgets select it, so that it cannot be evicted"
        if found and found[0].status.disruptions_allowed < 1:
            return "its PodDisruptionBudget allows no disruption now"
        return ""


DISRUPTED = "DisruptionTarget"
"""The condition that the Eviction API gives a pod.
Source: kubernetes pkg/registry/core/pod/storage/eviction.go, addConditionAndDeletePod."""

KILLED = (137, 143)
"""Exit codes of a program that SIGKILL or SIGTERM has ended."""

INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""Annotation: how often the pod's index failed before.
Source: k8s.io/api/batch/v1/types.go, JobIndexFailureCountAnnotation."""

BACKOFF_LIMIT = 6
"""Failures that a Job has by default; with ``backoffLimitPerIndex``, those of its indexes count.
Source: kubernetes pkg/apis/batch/v1/defaults.go, SetDefaults_Job."""

BY_LIMIT = "its Job would fail, which allows no further failure (backoffLimit)"

UNKNOWN = "its Job is not in the input, and may fail when the pod is evicted"


def failures_left(job: JobObject) -> int:
    """Return how many more of its pods may fail before the Job does, 0 or more."""
    limit = job.spec.backoff_limit
    if limit is None:
        limit = BACKOFF_LIMIT if job.spec.backoff_limit_per_index is None else (1 << 31) - 1
    return max(limit - job.status.failed, 0)


def eviction(job: JobObject, pod: kube.Pod) -> tuple[bool, str]:
    """Return whether an eviction counts as a failure, and why the Job would then fail at once.

    Of a program that ends by a signal. One that catches SIGTERM may end with any exit code.
    """
    policy = job.spec.pod_failure_policy
    conditions = {each.type: each.status for each in pod.status.conditions or ()}
    conditions[DISRUPTED] = "True"
    for rule in (policy and policy.rules) or ():
        if rule.on_exit_codes is not None:
            values, inside = rule.on_exit_codes.values or (), rule.on_exit_codes.operator == "In"
            matches = any((code in values) == inside for code in KILLED)
        else:
            matches = any(
                conditions.get(each.type) == each.status for each in rule.on_pod_conditions or ()
            )
        if matches and rule.action in {"FailJob", "FailIndex"}:
            return True, "its Job would fail by its podFailurePolicy"
        if matches:
            counts = rule.action != "Ignore"
            return counts, _index_limit(job, pod) if counts else ""
    return True, _index_limit(job, pod)


def _index_limit(job: JobObject, pod: kube.Pod) -> str:
    limit, failed = job.spec.backoff_limit_per_index, kube.annotations(pod).get(INDEX_FAILURES, "0")
    if limit is None or (failed.isascii() and failed.isdecimal() and int(failed) < limit):
        return ""
    return BY_LIMIT


UNITS = {"cpu": 1000, "memory": 1, "ephemeral-storage": 1}
"""The resources that count, with the factor to whole numbers: thousandths of a CPU, and bytes."""

OF_POD = ("cpu", "memory")
"""What a pod may request for all its containers together, in place of what they request.
Source: k8s.io/component-helpers/resource/helpers.go, supportedPodLevelResources."""

PODS = "pods"
"""How many pods a node may have."""


def needs(pod: kube.Pod) -> dict[str, int]:
    """Return what a pod needs of its node at its peak; nothing of what it does not request."""
    running = dict.fromkeys(UNITS, 0)
    peak = dict.fromkeys(UNITS, 0)
    for container in pod.spec.init_containers or ():
        own = _requests(container)
        for name in UNITS:
            together = running[name] + own[name]
            peak[name] = max(peak[name], together)
            if container.restart_policy == "Always":
                running[name] = together
    for container in pod.spec.containers:
        own = _requests(container)
        for name in UNITS:
            running[name] += own[name]
    most = {name: max(peak[name], running[name]) for name in UNITS}
    stated = pod.spec.resources or kube.Resources()
    own, limits = _stated(stated.requests), _stated(stated.limits)
    for name in OF_POD:
        most[name] = own.get(name, most[name] or limits.get(name, 0))
    return {**{name: amount for name, amount in most.items() if amount}, PODS: 1}


def room(
    nodes: Mapping[str, kube.KubeNode], pods: Iterable[kube.Pod], planned: Mapping[str, PlannedPod]
) -> dict[str, dict[str, int]]:
    """By node, what its allocatable resources leave beside its pods, some of which are planned."""
    units = {**UNITS, PODS: 1}
    free: dict[str, dict[str, int]] = {}
    for name, node in nodes.items():
        stated = node.status.allocatable or {}
        amounts = {each: _amount(stated[each]) for each in units if each in stated}
        free[name] = {
            each: int(amount * units[each])
            for each, amount in amounts.items()
            if amount is not None
        }
    for pod in pods:
        left = free.get(pod.spec.node_name or "")
        if left and may_use_cards(pod):
            known = planned.get(pod.metadata.uid)
            for name, amount in (needs(pod) if known is None else known.needs).items():
                if name in left:
                    left[name] -= amount
    return free


def _requests(container: kube.Container) -> dict[str, int]:
    """Return what a container requests; a limit stands for a request that is missing."""
    own = container.resources
    stated = _stated({**(own.limits or {}), **(own.requests or {})})
    return {name: stated.get(name, 0) for name in UNITS}


def _stated(amounts: Mapping[str, kube.Amount] | None) -> dict[str, int]:
    """Return how much is stated of each resource that counts."""
    stated = amounts or {}
    return {
        name: ceil((_amount(stated[name]) or 0) * unit)
        for name, unit in UNITS.items()
        if name in stated
    }


def _amount(stated: kube.Amount) -> Fraction | None:
    try:
        return parse(str(stated))
    except QuantityError:  # the API server accepts no such amount
        return None

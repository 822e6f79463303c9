"""What bounds the pods of a namespace: disruption budgets, Jobs, ResourceQuotas and PodGroups.

Budgets say which pods may not be evicted, and how many of the others. Of a Job only that is read
which decides whether it outlives the eviction of a pod. Of a ResourceQuota only the limits are read
that a scheduler of shares may enforce: Kubernetes counts ``requests.nvidia.com/gpu`` and the like;
of extended resources it does not count ``limits.``, so that a scheduler has to.

Source: k8s.io/api/policy/v1/types.go, k8s.io/apimachinery/pkg/apis/meta/v1/types.go (selectors),
k8s.io/api/batch/v1/types.go, k8s.io/api/core/v1/types.go; PodGroups: k8s.io/api 0.37
scheduling/v1beta1 types.go (``schedulingPolicy.gang.minCount``, ``disruptionMode``, ``priority``);
koordinator 1.8.0 apis/thirdparty/scheduler-plugins and sigs.k8s.io/scheduler-plugins 0.33.5
apis/scheduling/v1alpha1 types.go (``minMember``); volcano.sh/apis 1.15
pkg/apis/scheduling/v1beta1 types.go (``minMember``, ``minTaskMember``).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Metadata, Pod, SelectorRequirement, Text, Wire, labels


class Selector(Wire, frozen=True, gc=False):
    """Conditions on labels, all of which must hold."""

    match_labels: Text | None = None
    match_expressions: tuple[SelectorRequirement, ...] | None = None


class BudgetSpec(Wire, frozen=True, gc=False):
    """The spec of a PodDisruptionBudget."""

    selector: Selector | None = None


class BudgetStatus(Wire, frozen=True, gc=False):
    """The status of a PodDisruptionBudget.

    Attributes:
        disruptions_allowed: how many of its pods may be evicted now.
        disrupted_pods: names of pods whose eviction is in progress; they do not count again.
    """

    disruptions_allowed: Int64 = 0
    disrupted_pods: dict[str, msgspec.Raw] | None = None


class Budget(Wire, frozen=True, gc=False):
    """A PodDisruptionBudget."""

    metadata: Metadata = Metadata()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


def violations(pods: Sequence[Pod], budgets: Sequence[Budget]) -> tuple[bool, ...]:
    """Return which pods break a budget, if they are evicted one after the other.

    As kube-scheduler counts: a selector that is empty or invalid matches nothing.
    Source: kubernetes 1.37.1 pkg/scheduler/framework/preemption/util.go,
    FilterVictimsWithPDBViolation.
    """
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    broken: list[bool] = []
    for pod in pods:
        broken.append(False)
        for number, budget in enumerate(budgets):
            if concerns(budget, pod):
                allowed[number] -= 1
                if allowed[number] < 0:
                    broken[-1] = True
                    break
    return tuple(broken)


def concerns(budget: Budget, pod: Pod) -> bool:
    """Return whether kube-scheduler counts the eviction of a pod against a budget."""
    return (
        bool(labels(pod))
        and pod.metadata.name not in (budget.status.disrupted_pods or {})
        and selects(budget, pod)
    )


def selects(budget: Budget, pod: Pod) -> bool:
    """Return whether a budget is asked before a pod is evicted.

    Source: kubernetes pkg/registry/core/pod/storage/eviction.go, getPodDisruptionBudgets.
    """
    return budget.metadata.namespace == (pod.metadata.namespace or "default") and matches(
        budget.spec.selector, labels(pod)
    )


def matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet all conditions of a selector; none meets an empty one."""
    if selector is None:
        return False
    equal, conditions = selector.match_labels or {}, selector.match_expressions or ()
    return (
        bool(equal or conditions)
        and all(labels.get(key) == value for key, value in equal.items())
        and all(_meets(condition, labels) for condition in conditions)
    )


def _meets(condition: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(condition.key), condition.values or ()
    match condition.operator, bool(values):
        case "In", True:
            return value in values
        case "NotIn", True:
            return value not in values
        case "Exists", False:
            return value is not None
        case "DoesNotExist", False:
            return value is None
        case _:
            return False


class OnExitCodes(Wire, frozen=True, gc=False):
    """Exit codes of a container, any of ``values`` or, with ``NotIn``, any other but 0."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[Int64, ...] | None = None


class OnPodCondition(Wire, frozen=True, gc=False):
    """A condition of a pod."""

    type: str = ""
    status: str = "True"


class PodFailureRule(Wire, frozen=True, gc=False):
    """What a failed pod does to its Job."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] | None = None


class PodFailurePolicy(Wire, frozen=True, gc=False):
    """Rules of which the first that matches counts."""

    rules: tuple[PodFailureRule, ...] | None = None


class JobSpec(Wire, frozen=True, gc=False):
    """The spec of a Job."""

    backoff_limit: Int64 | None = None
    backoff_limit_per_index: Int64 | None = None
    pod_failure_policy: PodFailurePolicy | None = None


class JobStatus(Wire, frozen=True, gc=False):
    """The status of a Job; ``failed`` is how many of its pods have failed."""

    failed: Int64 = 0


class JobObject(Wire, frozen=True, gc=False):
    """A Job."""

    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


RESOURCE_QUOTA = "ResourceQuota"
LIMITS_PREFIX = "limits."


class ResourceQuotaObject(Wire, frozen=True, gc=False):
    """A ResourceQuota; its spec is of any shape, because each cluster has some of no concern."""

    metadata: Metadata = Metadata()
    spec: Any = None


def limits_of_extended_resources(thing: ResourceQuotaObject) -> Mapping[str, object] | None:
    """Return the amounts of ``spec.hard`` by key, such as ``limits.nvidia.com/gpumem``.

    Returns:
        the amounts in any form; none where it limits no extended resource; None where the limits
        cannot be read.
    """
    spec = {} if thing.spec is None else thing.spec
    hard = spec.get("hard") if isinstance(spec, dict) else spec
    if hard is None:
        return {}
    if not isinstance(hard, dict):
        return None
    return {
        key: amount
        for key, amount in hard.items()
        if isinstance(key, str) and key.startswith(LIMITS_PREFIX) and "/" in key
    }


class GangPolicy(Wire, frozen=True, gc=False):
    """How many pods of a group are scheduled at once."""

    min_count: Int64 | None = None


class GroupPolicy(Wire, frozen=True, gc=False):
    """How a group is scheduled; as a gang only where ``gang`` is there."""

    gang: GangPolicy | None = None


class TogetherMode(Wire, frozen=True, gc=False):
    """The mode in which pods are disrupted together; it has no fields."""


class DisruptionMode(Wire, frozen=True, gc=False):
    """How pods of a group are disrupted: each alone, unless ``all`` is there."""

    all: TogetherMode | None = None


class PodGroupSpec(Wire, frozen=True, gc=False):
    """The spec of a group."""

    min_member: Int64 | None = None
    min_task_member: dict[str, Int64] | None = None
    scheduling_policy: GroupPolicy | None = None
    disruption_mode: DisruptionMode | None = None
    priority: Int64 | None = None


class PodGroupObject(Wire, frozen=True, gc=False):
    """A group of pods."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()

    @property
    def minimum(self) -> int:
        """The pods that are bound together; 0 where the group is no gang."""
        policy = self.spec.scheduling_policy
        if policy is not None and policy.gang is not None:
            return max(policy.gang.min_count or 0, 0)
        return max(self.spec.min_member or 0, 0)

    @property
    def disrupted_together(self) -> bool:
        """Whether its pods may only be evicted all or not at all."""
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None

    @property
    def tasks(self) -> Mapping[str, int]:
        """The pods of each of Volcano's tasks that are among the minimum, by name of the task.

        None where they are more than the minimum together: vc-scheduler ignores them then. Source:
        volcano pkg/scheduler/api/job_info.go, ``CheckTaskReady``.
        """
        stated = (self.spec.min_task_member or {}).items()
        named = {task: count for task, count in stated if count > 0}
        return named if sum(named.values()) <= self.minimum else {}

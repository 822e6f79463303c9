"""Disruption budgets: which pods may not be evicted, and how many of the others.

Source: k8s.io/api/policy/v1/types.go, k8s.io/apimachinery/pkg/apis/meta/v1/types.go (selectors).
"""

from collections.abc import Mapping, Sequence

import msgspec

from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Metadata, Pod, Text, Wire, labels


class Requirement(Wire, frozen=True, gc=False):
    """One condition on a label."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class Selector(Wire, frozen=True, gc=False):
    """Conditions on labels, all of which must hold."""

    match_labels: Text | None = None
    match_expressions: tuple[Requirement, ...] | None = None


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
    """Which pods break a budget, if they are evicted one after the other.

    As kube-scheduler counts: a selector that is empty or invalid matches nothing.
    Source: kubernetes 1.37.1 pkg/scheduler/framework/preemption/util.go,
    FilterVictimsWithPDBViolation.
    """
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    return tuple(_breaks(pod, budgets, allowed) for pod in pods)


def _breaks(pod: Pod, budgets: Sequence[Budget], allowed: list[int]) -> bool:
    for number, budget in enumerate(budgets):
        if not concerns(budget, pod):
            continue
        allowed[number] -= 1
        if allowed[number] < 0:
            return True
    return False


def concerns(budget: Budget, pod: Pod) -> bool:
    """Whether kube-scheduler counts the eviction of a pod against a budget."""
    return (
        bool(labels(pod))
        and pod.metadata.name not in (budget.status.disrupted_pods or {})
        and selects(budget, pod)
    )


def selects(budget: Budget, pod: Pod) -> bool:
    """Whether a budget is asked before a pod is evicted.

    Source: kubernetes pkg/registry/core/pod/storage/eviction.go, getPodDisruptionBudgets.
    """
    return budget.metadata.namespace == (pod.metadata.namespace or "default") and matches(
        budget.spec.selector, labels(pod)
    )


def matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels meet all conditions of a budget's selector; none is met by an empty one."""
    if selector is None:
        return False
    equal, conditions = selector.match_labels or {}, selector.match_expressions or ()
    return (
        bool(equal or conditions)
        and all(labels.get(key) == value for key, value in equal.items())
        and all(_meets(condition, labels) for condition in conditions)
    )


def _meets(condition: Requirement, labels: Mapping[str, str]) -> bool:
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

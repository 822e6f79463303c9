"""What the eviction of a pod does to its Job.

A pod of a Job that is deleted before it succeeded counts as failed, as an evicted one is: at once,
or, with a ``podFailurePolicy`` or ``podReplacementPolicy: Failed``, when its containers have ended.
Source: kubernetes 1.37 pkg/controller/job/job_controller.go (isPodFailed, syncJob),
pod_failure_policy.go (matchPodFailurePolicy), backoff_utils.go.
"""

from adapters.wire.job import JobObject, OnExitCodes, OnPodCondition
from adapters.wire.kube import Pod, annotations

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

BY_POLICY = "its Job would fail by its podFailurePolicy"

BY_LIMIT = "its Job would fail, which allows no further failure (backoffLimit)"

UNKNOWN = "its Job is not in the input, and may fail when the pod is evicted"

_FAILING = ("FailJob", "FailIndex")


def failures_left(job: JobObject) -> int:
    """How many more of its pods may fail before the Job does, 0 or more."""
    limit = job.spec.backoff_limit
    if limit is None:
        limit = BACKOFF_LIMIT if job.spec.backoff_limit_per_index is None else (1 << 31) - 1
    return max(limit - job.status.failed, 0)


def eviction(job: JobObject, pod: Pod) -> tuple[bool, str]:
    """Whether the eviction of a pod counts as a failure, and why its Job would then fail at once.

    Of a program that ends by a signal. One that catches SIGTERM may end with any exit code.
    """
    policy = job.spec.pod_failure_policy
    for rule in (policy and policy.rules) or ():
        if rule.on_exit_codes is not None:
            matches = _exits(rule.on_exit_codes)
        else:
            matches = any(_has(pod, each) for each in rule.on_pod_conditions or ())
        if matches and rule.action in _FAILING:
            return True, BY_POLICY
        if matches:
            counts = rule.action != "Ignore"
            return counts, _index_limit(job, pod) if counts else ""
    return True, _index_limit(job, pod)


def _exits(codes: OnExitCodes) -> bool:
    """Whether a container that was killed has one of some exit codes."""
    values = codes.values or ()
    return any((code in values) == (codes.operator == "In") for code in KILLED)


def _has(pod: Pod, condition: OnPodCondition) -> bool:
    """Whether a pod has a condition once it was evicted."""
    known = {each.type: each.status for each in pod.status.conditions or ()}
    return {**known, DISRUPTED: "True"}.get(condition.type) == condition.status


def _index_limit(job: JobObject, pod: Pod) -> str:
    limit, failed = job.spec.backoff_limit_per_index, annotations(pod).get(INDEX_FAILURES, "0")
    if limit is None or (failed.isascii() and failed.isdecimal() and int(failed) < limit):
        return ""
    return BY_LIMIT

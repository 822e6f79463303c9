"""Kubernetes' Job, with only what decides whether it outlives the eviction of a pod.

Source: k8s.io/api/batch/v1/types.go.
"""

from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Metadata, Wire


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

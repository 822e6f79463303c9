"""PodGroups of four APIs, with only the fields that are read.

Sources: k8s.io/api 0.37 scheduling/v1beta1 types.go (``schedulingPolicy.gang.minCount``,
``disruptionMode``, ``priority``);
koordinator 1.8.0 apis/thirdparty/scheduler-plugins and sigs.k8s.io/scheduler-plugins 0.33.5
apis/scheduling/v1alpha1 types.go (``minMember``); volcano.sh/apis 1.15
pkg/apis/scheduling/v1beta1 types.go (``minMember``, ``minTaskMember``).
"""

from collections.abc import Mapping

from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Metadata, Wire


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

"""How pods were when they were deleted, and how long their containers may still run.

The kubelet deletes a pod after its containers have ended, and has written a final phase before.
A pod that is deleted by force, or by another client past its grace, is gone at once, and its
containers run on for their grace period. Source: kubernetes pkg/kubelet/kubelet.go, syncTerminating
and pkg/kubelet/status/status_manager.go, canBeDeleted.
"""

from collections import OrderedDict
from dataclasses import dataclass

from adapters.dialects.adoption import FINISHED
from adapters.wire.kube import Pod

REMEMBERED = 20_000
"""Deleted pods that are remembered; their allocations are gone after seconds."""

DEFAULT_GRACE = 30
"""Seconds: ``terminationGracePeriodSeconds`` of a pod that states none."""

MARGIN = 15
"""Seconds after the grace period until all containers are killed and removed."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod as the watch reported it last, before it was deleted.

    Attributes:
        may_run: it was bound and had no final phase.
        seen_by_kubelet: the kubelet had written its status.
        grace: seconds that its containers get to end.
    """

    may_run: bool
    seen_by_kubelet: bool
    grace: int = DEFAULT_GRACE


UNKNOWN = Departure(may_run=True, seen_by_kubelet=True)
"""The departure of a pod that was deleted while no watch of this process ran."""


class Departures:
    """The departures of the pods that were deleted last."""

    def __init__(self) -> None:
        self._by_uid: OrderedDict[str, Departure] = OrderedDict()

    def note(self, pod: Pod) -> None:
        """Note that a pod was deleted, with its last reported state."""
        grace, status = pod.spec.termination_grace_period_seconds, pod.status
        self._by_uid[pod.metadata.uid] = Departure(
            bool(pod.spec.node_name) and status.phase not in FINISHED,
            status.start_time is not None or status.phase not in (None, "Pending"),
            DEFAULT_GRACE if grace is None else grace,
        )
        while len(self._by_uid) > REMEMBERED:
            self._by_uid.popitem(last=False)

    def noted(self, uid: str) -> Departure | None:
        """Return the departure of a pod; None where no watch reported it."""
        return self._by_uid.get(uid)

    def of(self, uid: str) -> Departure:
        """Return the departure of a pod that does not exist.

        ``UNKNOWN`` where no watch reported it.
        """
        return self._by_uid.get(uid, UNKNOWN)


def release_by(departure: Departure, *, has_agent: bool, always: bool, now: int) -> int | None:
    """Return when the cards of a deleted pod are free without an agent's word that it has stopped.

    Without an agent, a pod that its kubelet had not seen counts as never started: no component
    could say otherwise.

    Args:
        departure: of the pod.
        has_agent: whether an agent reports about its node.
        always: whether the containers of a pod on a node without an agent may run on.
        now: seconds since 1970.

    Returns:
        seconds since 1970; None where no container of the pod can run.
    """
    if not departure.may_run or not (has_agent or (always and departure.seen_by_kubelet)):
        return None
    return now + departure.grace + MARGIN

"""On which terms a pod shares its cards with other pods.

A rule for sharing a card is a field of ``SharingTerms``, a line of ``conflict_with`` and, if an
author can state it, a line of ``demands``. Requests, allocations, shares of cards and classes of
nodes carry the terms as one value, so that they need no change.
"""

from dataclasses import dataclass, replace
from enum import Enum

from core.requests.reason import Cause


class TaskClass(Enum):
    """Which tasks may share a card, and which of them yield compute to others."""

    NORMAL = "normal"
    """Shares cards with normal tasks only."""
    ONLINE = "online"
    """Latency-bound: takes the compute of offline tasks on its cards, never their memory."""
    OFFLINE = "offline"
    """Yields its compute to online tasks that come later."""


_MIXES = {
    TaskClass.NORMAL: (TaskClass.NORMAL,),
    TaskClass.OFFLINE: (TaskClass.OFFLINE,),
    TaskClass.ONLINE: (TaskClass.ONLINE, TaskClass.OFFLINE),
}
"""The task classes with which a new share can have a card, by the class of the share."""


@dataclass(frozen=True, slots=True)
class SharingTerms:
    """What a pod demands of the pods that have a share of its cards.

    Attributes:
        task_class: which other tasks its cards may have.
        qos: how the driver shares the card's compute; a card has one policy at a time; None where
            every policy suits.
        group: the pod shares no card with a member of this group; None for no demand.
        member_of: the group that the pod is a member of, whether it has such a demand or not; None
            where it is in none.
        exclusions: rules under which this pod shares no card with another pod of the same rule.
    """

    task_class: TaskClass = TaskClass.NORMAL
    qos: str | None = None
    group: str | None = None
    member_of: str | None = None
    exclusions: frozenset[str] = frozenset()

    def conflict_with(self, resident: "SharingTerms") -> Cause | None:
        """Return why a new share on these terms cannot join a resident's; None where it can.

        The QoS policy is not compared: it counts only where both shares have compute.
        """
        if resident.task_class not in _MIXES[self.task_class]:
            return Cause.CLASS
        if self.group is not None and self.group in (resident.group, resident.member_of):
            return Cause.GROUP
        if self.exclusions & resident.exclusions:
            return Cause.EXCLUSION
        return None

    @property
    def has_demands(self) -> bool:
        """Whether they demand anything but a class of tasks."""
        return self != SharingTerms(self.task_class, member_of=self.member_of)

    @property
    def of_any_member(self) -> "SharingTerms":
        """The terms without the name of the pod's group, which no result for its class reads."""
        return self if self.member_of is None else replace(self, member_of=None)

    @property
    def without_rules(self) -> "SharingTerms":
        """The terms without the rules that the pod's author can drop to share more cards."""
        return SharingTerms(self.task_class, self.qos)

    def demands(self) -> dict[str, str]:
        """Return what they demand in words, by the name of the demand."""
        return {
            "group that shares no card": self.group or "none",
            "rules of exclusion": ", ".join(sorted(self.exclusions)) or "none",
            "task class": self.task_class.value,
            "QoS policy": self.qos or "any",
        }


ANY_TERMS = SharingTerms()
"""The terms of a pod that demands nothing."""

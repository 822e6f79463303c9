"""Cards that a plan of moves keeps: for a pod that is not there yet, or to stay free."""

from core.requests.grant import Allocation
from core.value import value


@value(frozen=True, slots=True)
class Hold:
    """A place that no other pod gets.

    It may overlap with allocations of pods that leave first; it is free once they have left.

    Attributes:
        plan: uid of the plan of moves.
        recipient: uid of the pod that gets it, or of the controller whose next pod does; empty
            where the place is to stay free.
        by_name: of a controller's pods only that of the same namespace and name gets it.
        allocation: the cards. Its uid is the hold's own, and no pod's; its ``pod`` is that which
            gets it, or which moves to it.
        taken_by: uid of the pod that got it; empty where none did. The hold counts again when that
            pod has no allocation of the node any more.
    """

    plan: str
    recipient: str
    by_name: bool
    allocation: Allocation
    taken_by: str = ""

    @property
    def id(self) -> str:
        """The hold's own uid."""
        return self.allocation.uid

    def is_for(self, uid: str, controller: str, pod: str) -> bool:
        """Return whether a pod may have it: one of the namespace for which it is kept.

        A pod's author may name any controller, also that of another namespace.

        Args:
            uid: of the pod.
            controller: uid of the pod's controller; empty where it has none.
            pod: ``namespace/name``.
        """
        if self.recipient not in (uid, controller) or not self.recipient:
            return False
        kept = self.allocation.pod
        if self.by_name:
            return pod == kept
        return pod.partition("/")[0] == kept.partition("/")[0]

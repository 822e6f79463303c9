"""What the service sees of the world: a few protocols that the composition root fills in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from adapters.wire.budget import Budget
from adapters.wire.kube import KubeNode, Pod
from core.requests.pod_ref import PodRef

_REQUEST_TIMEOUT = 408


class BindError(RuntimeError):
    """A Binding that was not answered with success.

    Attributes:
        status: of the HTTP answer; 0 where none came.
        message: what the API server said, or why no answer came.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status = status
        self.message = message

    @property
    def definite(self) -> bool:
        """Whether the pod is sure not to have been bound by this Binding."""
        return 400 <= self.status < 500 and self.status != _REQUEST_TIMEOUT


class Binder(Protocol):
    """Binds pods to nodes."""

    async def bind(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> None:
        """Bind a pod, and give it annotations and labels in the same write.

        Raises:
            BindError: it was refused, or it is not known whether it was done.
        """
        ...


class PodReader(Protocol):
    """The pods of the cluster."""

    async def get(self, pod: PodRef) -> Pod | None:
        """The pod from the cache, else from the cluster; None where there is none.

        Only namespace and name are compared: the pod may have been created again.


        Raises:
            OSError: the answer did not come.
        """
        ...

    async def newest(self, pod: PodRef) -> Pod | None:
        """A pod as it is, past every cache; else as ``get``."""
        ...


class NodeLocked(RuntimeError):  # noqa: N818 (it is no error: try again)
    """A node's device plugin is busy with another pod; the text names both."""


class NodeLocks(Protocol):
    """Whose turn it is at device plugins that learn by a lock on the node whom they serve."""

    async def acquire(self, pod: Pod, node: str, needed: Callable[[KubeNode], bool]) -> bool:
        """Lock a node for a pod that is about to be bound there.

        The plugin gives the lock back when it has served the pod.

        Args:
            pod: the pod.
            node: the name of the node.
            needed: whether this node's plugin goes by the lock.

        Returns:
            whether it must be given back if the pod is not bound: False where there is no need of
            a lock, and where an earlier attempt to bind the pod has taken it.

        Raises:
            NodeLocked: another pod has it.
            OSError: the answer did not come.
        """
        ...

    async def release(self, pod: Pod, node: str) -> None:
        """Unlock a node if the lock is the pod's. What fails is left: locks grow old."""
        ...


class NoLocks:
    """Where there are no device plugins; implements ``NodeLocks``."""

    async def acquire(
        self,
        pod: Pod,  # noqa: ARG002
        node: str,  # noqa: ARG002
        needed: Callable[[KubeNode], bool],  # noqa: ARG002
    ) -> bool:
        """There is nothing to lock."""
        return False

    async def release(self, pod: Pod, node: str) -> None:
        """There is nothing to unlock."""


class BudgetReader(Protocol):
    """How many of which pods may be put off."""

    async def all(self) -> Sequence[Budget]:
        """All disruption budgets of the cluster.

        Raises:
            OSError: the answer did not come.
        """
        ...


class NoBudgets:
    """Where there are none; implements ``Budgets``."""

    async def all(self) -> Sequence[Budget]:
        """None."""
        return ()


class EventEmitter(Protocol):
    """What people see with ``kubectl describe``."""

    def emit(self, pod: Pod, reason: str, message: str, *, warning: bool) -> None:
        """Tell of a pod. Returns at once and never fails.

        Args:
            pod: what it is about.
            reason: one word in CamelCase.
            message: a sentence.
            warning: whether something is wrong.
        """
        ...


class Clock(Protocol):
    """Time."""

    def now(self) -> int:
        """Nanoseconds on a clock that nobody sets."""
        ...

    def wall(self) -> int:
        """Nanoseconds since 1970."""
        ...

    async def pause(self, attempt: int) -> None:
        """Wait before trying again: longer after each attempt, counted from 0, and by chance."""
        ...

    async def sleep(self, nanoseconds: int) -> None:
        """Wait."""
        ...


class Outcome(Enum):
    """How a question was answered."""

    FITS = "fits"
    REFUSED = "refused"
    """Nothing fits."""
    INVALID = "invalid"
    """The request cannot be meant."""
    UNTOUCHED = "untouched"
    """No share is asked for."""
    BOUND = "bound"
    HELD = "held"
    RELEASED = "released"
    ADOPTED = "adopted"
    CORRECTED = "corrected"
    ERROR = "error"
    """It could not be decided, so the answer is no."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision, for the log and the metrics.

    Attributes:
        verb: what was asked, such as ``filter``.
        outcome: how it was answered.
        pod: ``namespace/name``.
        uid: the pod's; empty where it has none yet.
        dialect: the vocabulary of the request; empty where there is none.
        node: the node that was chosen or asked about; empty where there is none.
        cause: of a no, one of few words that do for a metric; else empty.
        text: what the asker is told; empty for a plain yes.
        nodes: how many nodes fit, where several were asked about.
        asked: how many nodes were asked about.
        seconds: how long it took.
    """

    verb: str
    outcome: Outcome
    pod: str
    uid: str = ""
    dialect: str = ""
    node: str = ""
    cause: str = ""
    text: str = ""
    nodes_fitting: int = 0
    nodes_evaluated: int = 0
    seconds: float = 0.0


class DecisionLog(Protocol):
    """Where decisions are told."""

    def record(self, decided: DecisionRecord) -> None:
        """Tell a decision. Never fails."""
        ...

    def conflict(self, node: str) -> None:
        """Another writer of a node's ledger was faster. Never fails."""
        ...

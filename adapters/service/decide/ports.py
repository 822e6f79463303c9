"""The service's interfaces to the world, and whether it knows enough of the world to decide."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from adapters.accounting.claim_cache import ClaimCache
from adapters.accounting.gang_cache import GangCache
from adapters.accounting.pod_requests import PodRequest
from adapters.stores.memory import MemoryQuotas
from adapters.stores.store import QuotaStore, Store
from adapters.wire.dra import ResourceClaim
from adapters.wire.kube import Entries, KubeNode, Pod, full_name
from adapters.wire.kube_policy import Budget
from core.feasibility.evaluation import Rejection
from core.ledger.node_ledger import NodeLedger
from core.requests.decision import group_summary, grouped, main_cause
from core.requests.grant import Allocation
from core.requests.request import PodRef

_REQUEST_TIMEOUT = 408


class BindError(RuntimeError):
    """A Binding that was not answered with success.

    Attributes:
        status: of the HTTP answer; 0 where none arrived.
        message: of the API server, or why no answer arrived.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status = status
        self.message = message

    @property
    def definite(self) -> bool:
        """Whether this Binding certainly did not bind the pod."""
        return 400 <= self.status < 500 and self.status != _REQUEST_TIMEOUT


class PodChangedError(BindError):
    """The pod is not bound, and was changed after it was read.

    Attributes:
        pod: as it is now.
    """

    def __init__(self, error: BindError, pod: Pod) -> None:
        super().__init__(error.status, error.message)
        self.pod = pod


class Binder(Protocol):
    """Binds pods to nodes."""

    async def bind(
        self, pod: PodRef, node: str, annotations: Entries, labels: Entries, version: str = ""
    ) -> None:
        """Bind a pod, and add annotations and labels in the same write.

        Args:
            pod: the pod.
            node: the name of the node.
            annotations: to add.
            labels: to add.
            version: the resourceVersion that the pod must have still; empty for any.

        Raises:
            BindError: the API server refused it, or its answer was lost.
        """


class PodReader(Protocol):
    """The pods of the cluster."""

    async def get(self, pod: PodRef) -> Pod | None:
        """Return the pod from the cache, else from the cluster; None where there is none.

        Only namespace and name are compared: the pod may have been created again.


        Raises:
            OSError: no answer arrived.
        """

    async def newest(self, pod: PodRef) -> Pod | None:
        """Return the pod from the cluster, past every cache; else as ``get``."""


class LiveClaims(Protocol):
    """ResourceClaims as the API server has them now, without a cache."""

    async def get(self, claim: PodRef) -> ResourceClaim | None:
        """Return the claim of this namespace and name; None where there is none.

        Raises:
            OSError: the API server did not answer.
        """


class NodeLocked(RuntimeError):  # noqa: N818 (not a fault: try again)
    """A node's device plugin serves another pod; the text names both."""


class NodeLocks(Protocol):
    """Locks of nodes whose device plugin finds the pod that it serves by the lock."""

    async def acquire(self, pod: Pod, node: str, needed: Callable[[KubeNode], bool]) -> bool:
        """Lock a node for a pod that is about to be bound there.

        The plugin releases the lock when it has served the pod.

        Args:
            pod: the pod.
            node: the name of the node.
            needed: whether this node's plugin reads the lock.

        Returns:
            whether the lock must be released if the pod is not bound: False where no lock is
            needed, and where an earlier attempt to bind the pod acquired it.

        Raises:
            NodeLocked: another pod has it.
            OSError: no answer arrived.
        """

    async def release(self, pod: Pod, node: str) -> None:
        """Unlock a node if the pod has the lock. Never fails: a lock that stays expires."""


class ClusterObjects(Protocol):
    """What an answer about a pod states beside the ledgers: it decides nothing."""

    @property
    def revision(self) -> int:
        """Changes whenever a node's labels, taints, cordon or devices do."""

    @property
    def claims(self) -> ClaimCache:
        """All ResourceClaims, with their classes and devices."""

    @property
    def has_all_nodes(self) -> bool:
        """Whether a node that is not among ``nodes`` does not exist, although it has a ledger."""

    def nodes(self) -> Mapping[str, KubeNode]:
        """Return the nodes by name, as a copy; of equally good ones the first is named."""

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Return the pods that are bound to a node and may use cards."""

    def counted(self, pod: Pod) -> Pod:
        """Return a pod without the requests that the ledger counts as those of its claims."""


class NoObjects:
    """Implements ``ClusterObjects`` where only ledgers are known."""

    claims = ClaimCache(lambda _: None)
    revision = 0
    has_all_nodes = False

    def nodes(self) -> Mapping[str, KubeNode]:
        """Return no node."""
        return {}

    def pods_on(self, node: str) -> Sequence[Pod]:  # noqa: ARG002
        """Return no pod."""
        return ()

    def counted(self, pod: Pod) -> Pod:
        """Return the pod: no claims are known."""
        return pod


BudgetReader = Callable[[], Awaitable[Sequence[Budget]]]
"""Reads all disruption budgets of the cluster; raises ``OSError`` where no answer arrives."""


async def no_budgets() -> Sequence[Budget]:
    """Return none."""
    return ()


class EndedPods(Protocol):
    """Pods and claims whose end is known before their cards are free in the ledger."""

    async def among(self, ledger: NodeLedger) -> Sequence[Allocation]:
        """Return the allocations whose pods or claims are gone for good, with all containers.

        They get no cards again: the ledger need not be the newest.

        Raises:
            OSError: no answer arrived.
        """


class EventEmitter(Protocol):
    """Events on pods, as ``kubectl describe`` shows them."""

    def emit(self, pod: Pod, reason: str, message: str, *, warning: bool) -> None:
        """Emit an Event. Returns at once and never fails.

        Args:
            pod: what it is about.
            reason: one word in CamelCase.
            message: a sentence.
            warning: whether something is wrong.
        """


class Clock(Protocol):
    """Time."""

    def now(self) -> int:
        """Return nanoseconds on a monotonic clock."""

    def wall(self) -> int:
        """Return nanoseconds since 1970."""

    async def pause(self, attempt: int) -> None:
        """Back off before a retry: longer after each attempt, counted from 0, with jitter."""

    async def sleep(self, nanoseconds: int) -> None:
        """Wait."""


class Outcome(Enum):
    """What came of a request."""

    FITS = "fits"
    REFUSED = "refused"
    """No node or card fits."""
    INVALID = "invalid"
    """The request is invalid."""
    UNTOUCHED = "untouched"
    """The pod requests no share."""
    BOUND = "bound"
    HELD = "held"
    RELEASED = "released"
    EVICTED = "evicted"
    ADOPTED = "adopted"
    CORRECTED = "corrected"
    ERROR = "error"
    """The service could not decide, so the answer is no."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision, for the log and the metrics.

    Attributes:
        verb: what was asked, such as ``filter``.
        outcome: what came of it.
        pod: ``namespace/name``; of the verb ``claim``, the ResourceClaim's.
        uid: the pod's, or the claim's; empty where it has none yet.
        dialect: the dialect of the request; empty where there is none.
        node: the node that was chosen or evaluated; empty where there is none.
        cause: of a rejection, as a metric label; empty otherwise.
        text: the answer in a sentence; empty for a plain yes.
        nodes_fitting: how many nodes fit, where several were evaluated.
        nodes_evaluated: how many nodes were evaluated.
        seconds: how long it took.
        consumers: the pods of a claim, as ``namespace/name``.
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
    consumers: tuple[str, ...] = ()

    @classmethod
    def refused(
        cls,
        verb: str,
        pod_request: PodRequest,
        rejections: Iterable[tuple[Rejection, int]],
        evaluated: int,
    ) -> "DecisionRecord":
        """Return that no node fits.

        Args:
            verb: what was asked, such as ``filter``.
            pod_request: the pod.
            rejections: those of all nodes that were evaluated, each with the number of its nodes.
            evaluated: how many nodes that were.
        """
        reasons = [(each.reason, nodes) for each, nodes in rejections]
        return cls(
            verb,
            Outcome.REFUSED,
            full_name(pod_request.pod),
            pod_request.pod.metadata.uid,
            pod_request.dialect.name,
            cause=main_cause(*reasons),
            text=group_summary(grouped(reasons)),
            nodes_evaluated=evaluated,
        )


class DecisionLog(Protocol):
    """Where decisions are recorded."""

    def record(self, decision: DecisionRecord) -> None:
        """Record a decision. Never fails."""

    def conflict(self, node: str) -> None:
        """Count a write of a node's ledger that lost to another replica. Never fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPorts:
    """The interfaces of the service to a cluster.

    Attributes:
        binder: binds pods.
        pods: reads pods.
        events: emits Events.
        locks: of nodes, for device plugins that need them; None where no plugin does.
        budgets: reads the PodDisruptionBudgets of victims.
        quotas: of all namespaces.
        gangs: pods that are bound together.
        ended: pods that have ended, before the leader has released their cards; None where the
            leader alone finds out.
        objects: nodes and bound pods, for people.
    """

    binder: Binder
    pods: PodReader
    events: EventEmitter
    locks: NodeLocks | None = None
    budgets: BudgetReader = no_budgets
    quotas: QuotaStore = field(default_factory=MemoryQuotas)
    gangs: GangCache = field(default_factory=GangCache)
    ended: EndedPods | None = None
    objects: ClusterObjects = field(default_factory=NoObjects)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports(ClusterPorts):
    """All interfaces of the service to the world.

    Attributes:
        store: of the ledgers.
        clock: the time.
        decision_log: where decisions are recorded.
    """

    store: Store
    clock: Clock
    decision_log: DecisionLog

    async def ended_among(self, ledger: NodeLedger) -> Sequence[Allocation]:
        """Return the allocations of a node whose pods are gone for good, as far as that is known.

        Raises:
            OSError: no answer arrived.
        """
        return () if self.ended is None else await self.ended.among(ledger)


LEDGERS = "ledgers"
"""The records of the store."""

RESTART = "a restart, because a task failed"
"""What a process awaits that is about to end: it decides no more."""


class NotReady(RuntimeError):  # noqa: N818 (not a fault: try again soon)
    """The service cannot decide yet; the text names what is awaited."""


class Readiness:
    """The set of what decisions wait for. It begins with the ledgers."""

    def __init__(self) -> None:
        self._awaited = {LEDGERS}

    @property
    def awaited(self) -> frozenset[str]:
        """What decisions wait for, in words for people."""
        return frozenset(self._awaited)

    def mark_synced(self, what: str) -> None:
        """Mark a dependency as synced."""
        self._awaited.discard(what)

    def mark_unsynced(self, what: str) -> None:
        """Decisions wait for this until it is marked as synced."""
        self._awaited.add(what)

    def check(self) -> None:
        """Return if decisions can be made.

        Raises:
            NotReady: something is awaited.
        """
        if self._awaited:
            raise NotReady(self.text())

    def text(self) -> str:
        """Return one line for people, such as ``waiting for: ledgers, pods``; empty when ready."""
        return f"waiting for: {', '.join(sorted(self._awaited))}" if self._awaited else ""

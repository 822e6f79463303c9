"""What the node does about each container: a share, nothing, or no container at all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from adapters.dialects import record
from adapters.dialects.koordinator import keys as koordinator
from adapters.dialects.metax import keys as metax
from adapters.dialects.volcano import keys as volcano
from adapters.node.adjust import CuttingError, Equipment, share, void
from adapters.node.claim import VISIBLE, ClaimError, agree, served
from adapters.node.grants import Grants, Standing
from adapters.node.host import HostError, realize
from adapters.node.nri import Adjustment, Container, PodSandbox, State
from adapters.node.plan import Plan
from core.limits import GrantError, Limits

RESULTS = frozenset(
    {
        record.KEY,
        koordinator.ALLOCATED,
        metax.SGPU_ALLOCATED,
        metax.GPU_ALLOCATED,
        volcano.ASSIGNED,
    }
)
"""Annotations that say that a scheduler has given the pod something. What they say is not read."""

NOTHING = Adjustment()


class Absent(Enum):
    """Why there is no adjustment yet."""

    GRANT = "the ledger does not name its pod yet"
    SLICE = "its slice of the card is not made yet"


class ServeError(RuntimeError):
    """A container must not start, because it would not get what it was sold."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """A container that runs without what it was sold.

    Attributes:
        lacking: what it lacks, in a few words.
    """

    pod: PodSandbox
    container: Container
    lacking: str


@dataclass(slots=True)
class Agent:
    """Answers for one node.

    Attributes:
        grants: what the ledger says.
        equipment: the node's hardware as it is now.
        exempt: namespaces whose containers without a share are left as they are.
    """

    grants: Grants
    equipment: Callable[[], Equipment]
    exempt: frozenset[str] = field(default_factory=frozenset[str])

    def adjust(self, pod: PodSandbox, container: Container) -> Adjustment | Absent:
        """What a new container gets.

        Raises:
            ServeError: it must not start.
        """
        try:
            plan = self._plan(pod, container)
            return plan if isinstance(plan, Absent) else realize(plan.missing(container))
        except CuttingError:
            return Absent.SLICE
        except (GrantError, ClaimError, HostError) as error:
            raise ServeError(f"{_who(pod, container)}: {error}") from error

    def concerns(self, pod: PodSandbox, container: Container) -> bool:
        """Whether the container has, or may have, a share; then a failure must keep it back."""
        try:
            answer = self.grants.of(pod.uid, container.name)
        except GrantError:
            return True
        return isinstance(answer, Limits) or asks(pod, container)

    def audit(
        self, pods: Sequence[PodSandbox], containers: Sequence[Container]
    ) -> tuple[Unserved, ...]:
        """The containers that run without what they were sold."""
        by_id: Mapping[str, PodSandbox] = {pod.id: pod for pod in pods}
        found: list[Unserved] = []
        for container in containers:
            pod = by_id.get(container.pod)
            if pod is None or container.state == State.STOPPED:
                continue
            lacking = self._lacking(pod, container)
            if lacking:
                found.append(Unserved(pod, container, lacking))
        return tuple(found)

    def _plan(self, pod: PodSandbox, container: Container) -> Plan | Absent:
        equipment = self.equipment()
        answer = self.grants.of(pod.uid, container.name)
        if answer is Standing.ELSEWHERE:
            return Plan()
        if answer is Standing.UNKNOWN and asks(pod, container):
            return Absent.GRANT
        minors = served(pod, container)
        if minors is not None:
            limits = answer if isinstance(answer, Limits) else None
            agree(minors, limits, container)
            return Plan()
        if isinstance(answer, Limits):
            return share(answer, pod, container, equipment)
        return Plan() if pod.namespace in self.exempt else void(equipment)

    def _lacking(self, pod: PodSandbox, container: Container) -> str:
        try:
            answer = self.grants.of(pod.uid, container.name)
            if not isinstance(answer, Limits) or served(pod, container) is not None:
                return ""
            rest = share(answer, pod, container, self.equipment()).missing(container)
        except GrantError as error:
            return str(error)
        names = [*rest.env, *(mount.destination for mount in rest.mounts), *rest.devices, *rest.cdi]
        return ", ".join(names)


def asks(pod: PodSandbox, container: Container) -> bool:
    """Whether somebody has promised the container a card; true at worst too often.

    A device plugin has if the container names cards by uuid: the ledger will say that its pod is
    served elsewhere, and until then nobody may take that card away.
    """
    return not RESULTS.isdisjoint(pod.annotations) or any(
        line.startswith((f"{record.MARK}=", f"{VISIBLE}=GPU-", f"{VISIBLE}=MIG-"))
        for line in container.env
    )


def _who(pod: PodSandbox, container: Container) -> str:
    return f"container {container.name} of pod {pod.namespace}/{pod.name}"

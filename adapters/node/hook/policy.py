"""What the node does about each container: a share, nothing, or no container at all."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import methodcaller

from adapters.dialects import record, registry
from adapters.node.grants import Grants, GrantStatus
from adapters.node.hook.adjustment import Equipment, PartitioningError, share, void
from adapters.node.hook.bypass import bypass_paths, opens_all
from adapters.node.hook.host import HostError, realize
from adapters.node.hook.other_injectors import (
    VISIBLE,
    InjectorConflictError,
    has_device_plugin_gpus,
    injected_minors,
    verify_injected,
)
from adapters.node.hook.plan import AdjustmentPlan
from adapters.node.nri.model import Adjustment, ContainerState, NriContainer, PodSandbox
from core.requests.limits import GrantError, Limits

NOTHING = Adjustment()

_MARKED = methodcaller("startswith", f"{record.MARK}=")


class NoGrantYet(Enum):
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
    container: NriContainer
    lacking: str


@dataclass(frozen=True, slots=True)
class Exposed:
    """A container that can reach cards past its share.

    Attributes:
        way: how, in a few words.
    """

    pod: PodSandbox
    container: NriContainer
    way: str


@dataclass(slots=True)
class Policy:
    """Answers for one node.

    Attributes:
        grants: what the ledger says.
        equipment: the node's hardware as it is now.
        exempt: namespaces whose containers without a share are left as they are.
    """

    grants: Grants
    equipment: Callable[[], Equipment]
    exempt: frozenset[str] = field(default_factory=frozenset[str])

    def adjust(self, pod: PodSandbox, container: NriContainer) -> Adjustment | NoGrantYet:
        """What a new container gets.

        Raises:
            ServeError: it must not start.
        """
        try:
            plan = self._plan(pod, container)
            return plan if isinstance(plan, NoGrantYet) else realize(plan.minus_present(container))
        except PartitioningError:
            return NoGrantYet.SLICE
        except (GrantError, InjectorConflictError, HostError) as error:
            raise ServeError(f"{_who(pod, container)}: {error}") from error

    def concerns(self, pod: PodSandbox, container: NriContainer) -> bool:
        """Whether the container has, or may have, a share; then a failure must keep it back."""
        try:
            answer = self.grants.of(pod.uid, container.name)
        except GrantError:
            return True
        return isinstance(answer, Limits) or requests_share(pod, container)

    def exposure(self, pod: PodSandbox, container: NriContainer) -> str:
        """How a container can reach cards past its share; empty where nothing says that it can.

        Nobody is kept back for it: whoever may run privileged containers has the node anyway.
        """
        if pod.namespace in self.exempt:
            return ""
        try:
            answer = self.grants.of(pod.uid, container.name)
        except GrantError:
            return ""
        if answer is GrantStatus.ELSEWHERE:
            return ""
        own = {limit.uuid for limit in answer.cards} if isinstance(answer, Limits) else set[str]()
        return bypass_paths(container, own, self.equipment())

    def audit(
        self, pods: Sequence[PodSandbox], containers: Sequence[NriContainer]
    ) -> tuple[Unserved, ...]:
        """The containers that run without what they were sold."""
        found = (Unserved(*each, self._lacking(*each)) for each in _running(pods, containers))
        return tuple(each for each in found if each.lacking)

    def exposed(
        self, pods: Sequence[PodSandbox], containers: Sequence[NriContainer]
    ) -> tuple[Exposed, ...]:
        """The containers that run and can reach cards past their share."""
        found = (
            Exposed(pod, container, self._open(pod, container) or self.exposure(pod, container))
            for pod, container in _running(pods, containers)
        )
        return tuple(each for each in found if each.way)

    def _plan(self, pod: PodSandbox, container: NriContainer) -> AdjustmentPlan | NoGrantYet:
        answer = self.grants.of(pod.uid, container.name)
        # In this order: a slice that was free may be on its way out until somebody holds it.
        equipment = self.equipment()
        if answer is GrantStatus.UNKNOWN and requests_share(pod, container):
            return NoGrantYet.GRANT
        injected = injected_minors(pod, container)
        if injected is not None:
            verify_injected(injected, answer if isinstance(answer, Limits) else None, container)
            return AdjustmentPlan()
        if isinstance(answer, Limits):
            return share(answer, pod, container, equipment)
        if answer is GrantStatus.ELSEWHERE and has_device_plugin_gpus(container):
            return AdjustmentPlan()
        if is_marked(container):
            raise GrantError(f"it was admitted with a share ({record.MARK}), and {answer.value}")
        if answer is GrantStatus.ELSEWHERE and not opens_all(container):
            return AdjustmentPlan()
        return AdjustmentPlan() if pod.namespace in self.exempt else void(equipment)

    def _lacking(self, pod: PodSandbox, container: NriContainer) -> str:
        try:
            plan = self._plan(pod, container)
            if isinstance(plan, NoGrantYet):
                return f"a share that anybody knows of: {plan.value}"
            if not isinstance(self.grants.of(pod.uid, container.name), Limits):
                return ""
        except (GrantError, InjectorConflictError) as error:
            return f"its share: {error}"
        rest = plan.minus_present(container)
        names = [*rest.env, *(mount.destination for mount in rest.mounts), *rest.devices, *rest.cdi]
        return ", ".join(names)

    def _open(self, pod: PodSandbox, container: NriContainer) -> str:
        """Whether a container that runs has opened all cards to itself, as its image may do."""
        if pod.namespace in self.exempt or not opens_all(container):
            return ""
        return f"{VISIBLE}=all"


def requests_share(pod: PodSandbox, container: NriContainer) -> bool:
    """Whether somebody has promised the container a card; true at worst too often.

    A device plugin has if the container names cards by uuid: the ledger will say that its pod is
    served elsewhere, and until then nobody may take that card away.
    """
    return (
        not registry.allocation_annotations().isdisjoint(pod.annotations)
        or is_marked(container)
        or has_device_plugin_gpus(container)
    )


def is_marked(container: NriContainer) -> bool:
    """Whether admission has seen that the container asks for a share."""
    return any(map(_MARKED, container.env))


def _running(
    pods: Sequence[PodSandbox], containers: Sequence[NriContainer]
) -> Iterator[tuple[PodSandbox, NriContainer]]:
    by_id = {pod.id: pod for pod in pods}
    for container in containers:
        pod = by_id.get(container.pod)
        if pod is not None and container.state != ContainerState.STOPPED:
            yield pod, container


def _who(pod: PodSandbox, container: NriContainer) -> str:
    return f"container {container.name} of pod {pod.namespace}/{pod.name}"

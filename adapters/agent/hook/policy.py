"""What the node does about each container: a share, nothing, or no container at all."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import islice

from adapters.agent.grants import GrantAnswer, GrantStatus, LedgerGrants
from adapters.agent.hook.facts import (
    AssignedDevices,
    ContainerFacts,
    InjectorConflictError,
    injected_minors,
    none_assigned,
    verify_injected,
)
from adapters.agent.injection.adjustment import Equipment, PartitioningError, plan_share, plan_void
from adapters.agent.injection.plan import AdjustmentPlan, HostError, RepeatedVariableError, realize
from adapters.agent.nri.model import Adjustment, NriContainer, PodSandbox
from adapters.dialects import allocation_record
from core.requests.limits import GrantError, Limits

NO_ADJUSTMENT = Adjustment()

_UNCHANGED = AdjustmentPlan()


RUNTIME_SOCKETS = frozenset(
    {"containerd.sock", "cri-dockerd.sock", "crio.sock", "docker.sock", "nri.sock"}
)

RUNTIME_SOCKET_DIRS = frozenset({"/run", "/run/containerd", "/run/crio", "/run/docker", "/run/nri"})
"""Folders with these sockets; the same below /var/run, which is a link to /run."""

_MAX_MOUNTS = 4


class NoGrantYet(Enum):
    """Why there is no adjustment yet."""

    GRANT = "no allocation is recorded for this pod yet"
    SLICE = "its MIG slice is not created yet"


class RejectError(RuntimeError):
    """A container must not start, because it would run without its share."""


@dataclass(slots=True)
class Policy:
    """Decides for the containers of one node."""

    grants: LedgerGrants
    equipment: Callable[[], Equipment]
    exempt: frozenset[str] = field(default_factory=frozenset[str])
    assigned: AssignedDevices = none_assigned

    def facts(self, pod: PodSandbox, container: NriContainer) -> ContainerFacts:
        """Gather what the other methods need to know about a container; reads the ledger once."""
        grant: GrantAnswer | GrantError
        try:
            grant = self.grants.lookup(pod.uid, container.name)
        except GrantError as error:
            grant = error
        exempt, injected = pod.namespace in self.exempt, injected_minors(pod, container.env)
        return ContainerFacts(pod, container, grant, exempt, injected, self.assigned)

    def adjust(self, facts: ContainerFacts) -> Adjustment | NoGrantYet:
        """Decide what a new container gets.

        Raises:
            RejectError: it must not start.
        """
        try:
            plan = self.plan(facts)
            if isinstance(plan, NoGrantYet):
                return plan
            return realize(plan.minus_present(facts.container))
        except PartitioningError:
            return NoGrantYet.SLICE
        except (GrantError, InjectorConflictError, HostError, RepeatedVariableError) as error:
            pod, name = facts.pod, facts.container.name
            raise RejectError(
                f"container {name} of pod {pod.namespace}/{pod.name}: {error}"
            ) from error

    def plan(self, facts: ContainerFacts) -> AdjustmentPlan | NoGrantYet:
        """Decide what a container must have, whatever it has already.

        The rules are those of docs/reference/node-agent.md, "What a container gets"; the first
        one that applies decides. ``facts`` must be older than this call: a slice that was free may
        be withdrawn until the ledger grants it.

        Raises:
            GrantError: the node cannot give it, or nothing is granted where a share must be.
            InjectorConflictError: another component's hook and the ledger disagree.
        """
        grant = facts.grant
        if isinstance(grant, GrantError):
            raise grant
        equipment = self.equipment()
        # Guards, because a class pattern would read every property, also those of no rule yet.
        match grant:
            # Mounts name cards that no device plugin gave, whatever the variable says: reject.
            case _ if equipment.cards and not facts.exempt and facts.foreign_mounts:
                foreign = ", ".join(sorted(facts.foreign_mounts))
                raise GrantError(f"its mounts name {foreign}, which no device plugin gave it")
            # No allocation for this pod, and its scheduler wrote a result: wait.
            case GrantStatus.NOT_RECORDED if facts.has_result:
                return NoGrantYet.GRANT
            # The same without a result: no wait, because an image can set the mark.
            case GrantStatus.NOT_RECORDED if facts.admitted:
                raise _unanswered(grant)
            # The same, and a device plugin gave cards, of which nothing is known yet: wait.
            case GrantStatus.NOT_RECORDED if not self.grants.known and (
                facts.device_plugin or facts.given.passed
            ):
                return NoGrantYet.GRANT
            # Another component's hook, such as Koordinator's, has acted: it must agree.
            case _ if facts.injected is not None:
                limits = grant if isinstance(grant, Limits) else None
                verify_injected(facts.injected, limits, facts.container)
                return _UNCHANGED
            # A share, a whole card or a MIG slice.
            case Limits():
                return plan_share(grant, facts.pod, facts.container, equipment)
            # A device plugin serves the pod: the container keeps what it gave, if that is free.
            case GrantStatus.OTHER_COMPONENT | GrantStatus.NOT_RECORDED if self._keeps(
                facts, equipment
            ):
                return _UNCHANGED
            # Admission saw the request, and nothing was granted: reject.
            case GrantStatus() if facts.admitted:
                raise _unanswered(grant)
            # No share, in an exempt namespace: as the image has it.
            case _ if facts.exempt:
                return _UNCHANGED
            # A node without cards that are known: it is not ours.
            case _ if not equipment.cards:
                return _UNCHANGED
            # No share: no card is visible, whatever the image or the author wrote.
            case _:
                return plan_void(equipment)

    def _keeps(self, facts: ContainerFacts, equipment: Equipment) -> bool:
        """Return whether a container keeps the cards that it names: a device plugin wrote them.

        The kubelet does not know the ledger. The service lets no such pod on a node where a card
        that it may get is allocated, but a pod can come to a node past the service.

        Raises:
            GrantError: the ledger gave one of the device plugin's cards to another pod.
        """
        kept = facts.device_plugin
        given = facts.given.passed | (facts.visible if kept else frozenset())
        holders = self.grants.holders(equipment.named_cards(given), facts.pod.uid)
        if holders:
            raise GrantError(
                f"a device plugin gave {', '.join(sorted(given))},"
                f" which the ledger gave to {', '.join(sorted(holders))}"
            )
        return kept

    def may_have_share(self, facts: ContainerFacts) -> bool:
        """Return whether the container has, or may have, a share; then a failure must reject it."""
        return isinstance(facts.grant, Limits | GrantError) or facts.requests_share

    def bypass_of(self, facts: ContainerFacts) -> str:
        """Name the paths by which a container reaches cards outside its share; empty for none.

        A privileged container gets every device node of the host (containerd pkg/oci/spec_opts.go,
        WithHostDevices) and the rule of the device group for all of them. A container with a
        container runtime's socket can start containers that neither the kubelet nor NRI knows:
        Docker in a container does that with the host's daemon, or with one of its own in a
        privileged container. The agent does not reject such a container: Pod Security admission
        decides who may run privileged ones.
        """
        grant = facts.grant
        if facts.exempt or grant is GrantStatus.OTHER_COMPONENT or isinstance(grant, GrantError):
            return ""
        container, equipment = facts.container, self.equipment()
        sockets = (mount.source for mount in container.mounts if _has_socket(mount.source))
        found = list(islice(sockets, _MAX_MOUNTS))
        if container.devices:
            own = {limit.uuid for limit in grant.cards} if isinstance(grant, Limits) else set[str]()
            nodes = {uuid: equipment.device_nodes(uuid) for uuid in equipment.cards}
            own_nodes = {node for uuid in own & nodes.keys() for node in nodes[uuid]}
            others = {device.path for device in container.devices} - own_nodes
            foreign = sum(not others.isdisjoint(nodes[uuid]) for uuid in nodes.keys() - own)
            if foreign:
                found.insert(0, f"device nodes of other cards ({foreign})")
        if isinstance(grant, Limits):
            found += equipment.lifted_limits(grant, container)
        return ", ".join(found)


def _unanswered(status: GrantStatus) -> GrantError:
    """Make the error of a container with admission's mark and without a share."""
    return GrantError(
        f"admission saw a request for a share ({allocation_record.MARK}), but {status.value}"
    )


@lru_cache(256)
def _has_socket(source: str) -> bool:
    path = source.removeprefix("/var") if source.startswith("/var/run") else source
    return path.rpartition("/")[2] in RUNTIME_SOCKETS or path.rstrip("/") in RUNTIME_SOCKET_DIRS

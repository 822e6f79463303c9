"""Finds and reports containers without their share and bypasses of a share, and rejections.

Each report is a line in the log, and an Event on the pod where the agent has a cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from adapters.agent.hook.facts import VISIBLE_DEVICES, InjectorConflictError
from adapters.agent.hook.policy import NoGrantYet, Policy
from adapters.agent.injection.plan import RepeatedVariableError
from adapters.agent.log import log_event
from adapters.agent.nri.model import ContainerState, NriContainer, PodSandbox
from adapters.agent.nri.session import Creating
from core.requests.limits import GrantError, Limits

_LONGEST = 200
"""Characters of an author's text in a report."""


@dataclass(frozen=True, slots=True)
class ContainerFinding:
    """A container that lacks something of its share, or that can reach cards outside it.

    Attributes:
        text: what it lacks, or by which paths it reaches other cards, in a few words.
    """

    pod: PodSandbox
    container: NriContainer
    text: str


def audit(
    policy: Policy, pods: Sequence[PodSandbox], containers: Sequence[NriContainer]
) -> tuple[list[ContainerFinding], list[ContainerFinding]]:
    """Find the running containers that lack something of their share, and those with a bypass."""
    by_id = {pod.id: pod for pod in pods}
    missing: list[ContainerFinding] = []
    bypasses: list[ContainerFinding] = []
    for container in containers:
        pod = by_id.get(container.pod)
        if pod is None or container.state == ContainerState.STOPPED:
            continue
        facts = policy.facts(pod, container)
        lack = ""
        try:
            plan = policy.plan(facts)
            if isinstance(plan, NoGrantYet):
                lack = f"a recorded share: {plan.value}"
            elif isinstance(facts.grant, Limits):
                rest = plan.minus_present(container)
                mounts = (mount.destination for mount in rest.mounts)
                lack = ", ".join([*rest.env, *mounts, *rest.devices, *rest.cdi])
        except (GrantError, InjectorConflictError, RepeatedVariableError) as error:
            lack = f"its share: {error}"
        if lack:
            missing.append(ContainerFinding(pod, container, lack))
        # Cards that a container without a share names, and that no device plugin gave it: a new
        # one gets ``void`` instead; one that runs already may have them open.
        words = facts.visible if not isinstance(facts.grant, Limits) else facts.visible & {"all"}
        if words and not facts.exempt and not facts.device_plugin:
            paths = f"{VISIBLE_DEVICES}={','.join(sorted(words))}"[:_LONGEST]
        else:
            paths = policy.bypass_of(facts)
        if paths:
            bypasses.append(ContainerFinding(pod, container, paths))
    return missing, bypasses


@dataclass(slots=True)
class HookCounters:
    """What the hook has done since the agent started.

    Attributes:
        late: containers, of those that were rejected, for which there was no answer in time.
        connections: connections to the runtime that became active.
        without_share: containers that run without their share, as far as audits have seen.
        with_bypass: containers that can reach cards outside their share, as far as is known.
    """

    adjusted: int = 0
    untouched: int = 0
    rejected: int = 0
    late: int = 0
    connections: int = 0
    without_share: int = 0
    with_bypass: int = 0
    active: bool = False


EmitEvent = Callable[[PodSandbox, str, str, str], None]
"""Writes an Event, from any thread: the pod, the reason, a sentence, and the action."""


def without_cluster(_pod: PodSandbox, _reason: str, _note: str, _action: str) -> None:
    """Write no Event: the agent has no cluster."""


@dataclass(slots=True)
class ContainerReporter:
    """Reports, and counts containers without their share or with a bypass while they exist."""

    counters: HookCounters = field(default_factory=HookCounters)
    emit: EmitEvent = without_cluster
    _without_share: set[str] = field(default_factory=set[str])
    _with_bypass: set[str] = field(default_factory=set[str])

    def report_rejected(self, creating: Creating, reason: str, *, late: bool) -> None:
        """Report that the agent kept a container from starting."""
        self.counters.rejected += 1
        self.counters.late += late
        _log("container.rejected", creating.pod, creating.container, reason)
        note = f"container {creating.container.name}: {reason}"
        self.emit(creating.pod, "ShareRefused", note, "CreatingContainer")

    def reset(self) -> None:
        """Forget all containers: a runtime has connected and lists those that run."""
        self._without_share.clear()
        self._with_bypass.clear()
        self._count()

    def report_audit(
        self, missing: Sequence[ContainerFinding], bypasses: Sequence[ContainerFinding]
    ) -> None:
        """Report what the audit of the running containers has found."""
        self._without_share |= {each.container.id for each in missing}
        self._count()
        for each in missing:
            _log("container.share_missing", each.pod, each.container, each.text)
            note = f"container {each.container.name} runs without {each.text}"
            self.emit(each.pod, "ShareMissing", note, "Auditing")
        for each in bypasses:
            self.report_bypass(each)

    def report_bypass(self, bypass: ContainerFinding) -> None:
        """Report a container that can reach cards outside its share."""
        self._with_bypass.add(bypass.container.id)
        self._count()
        _log("container.bypass_found", bypass.pod, bypass.container, bypass.text)
        note = f"container {bypass.container.name} can reach cards outside its share: {bypass.text}"
        self.emit(bypass.pod, "CardsExposed", note, "Auditing")

    def forget(self, container: NriContainer) -> None:
        """Stop counting a container that the runtime removed."""
        self._without_share.discard(container.id)
        self._with_bypass.discard(container.id)
        self._count()

    def _count(self) -> None:
        self.counters.without_share = len(self._without_share)
        self.counters.with_bypass = len(self._with_bypass)


def _log(event: str, pod: PodSandbox, container: NriContainer, reason: str) -> None:
    log_event(
        event,
        pod=f"{pod.namespace}/{pod.name}",
        uid=pod.uid,
        container=container.name,
        reason=reason,
    )

"""Finds and reports containers without their share and bypasses of a share, and rejections.

Each report is a line in the log, and an Event on the pod where the agent has a cluster.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from adapters.agent.hook.facts import VISIBLE_DEVICES, ContainerFacts, InjectorConflictError
from adapters.agent.hook.policy import NoGrantYet, Policy
from adapters.agent.injection.plan import RepeatedVariableError
from adapters.agent.log import log_event
from adapters.agent.nri.model import ContainerState, NriContainer, PodSandbox
from adapters.agent.nri.session import Creating
from core.requests.limits import GrantError, Limits

_LONGEST = 200
"""Characters of an author's text in a report."""


@dataclass(frozen=True, slots=True)
class MissingShare:
    """A container that runs without its share.

    Attributes:
        missing: what it runs without, in a few words.
    """

    pod: PodSandbox
    container: NriContainer
    missing: str


@dataclass(frozen=True, slots=True)
class Bypass:
    """A container that can reach cards outside its share.

    Attributes:
        paths: by which, in a few words.
    """

    pod: PodSandbox
    container: NriContainer
    paths: str


def audit_shares(
    policy: Policy, pods: Sequence[PodSandbox], containers: Sequence[NriContainer]
) -> tuple[MissingShare, ...]:
    """Find the running containers that lack something of their share."""
    audited = (
        MissingShare(facts.pod, facts.container, _missing(policy, facts))
        for facts in _running(policy, pods, containers)
    )
    return tuple(share for share in audited if share.missing)


def audit_bypasses(
    policy: Policy, pods: Sequence[PodSandbox], containers: Sequence[NriContainer]
) -> tuple[Bypass, ...]:
    """Find the running containers that can reach cards outside their share."""
    audited = (
        Bypass(facts.pod, facts.container, _opened(facts) or policy.bypass_of(facts))
        for facts in _running(policy, pods, containers)
    )
    return tuple(bypass for bypass in audited if bypass.paths)


def _missing(policy: Policy, facts: ContainerFacts) -> str:
    try:
        plan = policy.plan(facts)
    except (GrantError, InjectorConflictError) as error:
        return f"its share: {error}"
    if isinstance(plan, NoGrantYet):
        return f"a recorded share: {plan.value}"
    if not isinstance(facts.grant, Limits):
        return ""
    try:
        rest = plan.minus_present(facts.container)
    except RepeatedVariableError as error:
        return f"its share: {error}"
    names = [*rest.env, *(mount.destination for mount in rest.mounts), *rest.devices, *rest.cdi]
    return ", ".join(names)


def _opened(facts: ContainerFacts) -> str:
    """Return the cards that a container without a share names, which no device plugin gave it.

    A new container gets ``void`` instead; one that runs already may have these cards open.
    """
    if facts.exempt or facts.device_plugin:
        return ""
    words = facts.visible if not isinstance(facts.grant, Limits) else facts.visible & {"all"}
    return f"{VISIBLE_DEVICES}={','.join(sorted(words))}"[:_LONGEST] if words else ""


def _running(
    policy: Policy, pods: Sequence[PodSandbox], containers: Sequence[NriContainer]
) -> Iterator[ContainerFacts]:
    by_id = {pod.id: pod for pod in pods}
    for container in containers:
        pod = by_id.get(container.pod)
        if pod is not None and container.state != ContainerState.STOPPED:
            yield policy.facts(pod, container)


@dataclass(slots=True)
class HookCounters:
    """What the hook has done since the agent started.

    Attributes:
        adjusted: containers that got an adjustment.
        untouched: containers that needed no adjustment.
        rejected: containers that the agent kept from starting.
        late: rejected containers for which there was no answer in time.
        connections: connections to the runtime that became active.
        without_share: containers that run without their share, as far as audits have seen.
        with_bypass: containers that can reach cards outside their share, as far as is known.
        active: whether the runtime calls the agent now.
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
    """Reports, and counts containers without their share or with a bypass until they are removed.

    Attributes:
        counters: of the hook.
        emit: writes Events.
    """

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

    def report_audit(self, missing: Sequence[MissingShare], bypasses: Sequence[Bypass]) -> None:
        """Report what the audit of the running containers has found."""
        self._without_share |= {each.container.id for each in missing}
        self._with_bypass |= {each.container.id for each in bypasses}
        self._count()
        for each in missing:
            _log("container.share_missing", each.pod, each.container, each.missing)
            note = f"container {each.container.name} runs without {each.missing}"
            self.emit(each.pod, "ShareMissing", note, "Auditing")
        for bypass in bypasses:
            self._write_bypass(bypass)

    def report_bypass(self, bypass: Bypass) -> None:
        """Report a new container that can reach cards outside its share."""
        self._with_bypass.add(bypass.container.id)
        self._count()
        self._write_bypass(bypass)

    def forget(self, container: NriContainer) -> None:
        """Stop counting a container that the runtime removed."""
        self._without_share.discard(container.id)
        self._with_bypass.discard(container.id)
        self._count()

    def _write_bypass(self, bypass: Bypass) -> None:
        _log("container.bypass_found", bypass.pod, bypass.container, bypass.paths)
        name = bypass.container.name
        note = f"container {name} can reach cards outside its share: {bypass.paths}"
        self.emit(bypass.pod, "CardsExposed", note, "Auditing")

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

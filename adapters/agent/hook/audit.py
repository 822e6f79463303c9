"""The containers that run already: which lack their share, which can bypass it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adapters.agent.hook.facts import ContainerFacts
from adapters.agent.hook.other_injectors import VISIBLE_DEVICES, InjectorConflictError
from adapters.agent.hook.policy import NoGrantYet, Policy
from adapters.agent.injection.plan import RepeatedVariableError
from adapters.agent.nri.model import ContainerState, NriContainer, PodSandbox
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
    """The running containers that lack something of their share."""
    audited = (
        MissingShare(facts.pod, facts.container, _missing(policy, facts))
        for facts in _running(policy, pods, containers)
    )
    return tuple(share for share in audited if share.missing)


def audit_bypasses(
    policy: Policy, pods: Sequence[PodSandbox], containers: Sequence[NriContainer]
) -> tuple[Bypass, ...]:
    """The running containers that can reach cards outside their share."""
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
    """The cards that a container without a share names, which no device plugin gave it.

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

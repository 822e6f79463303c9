"""The table of the policy against its rules as an ordered list of conditions."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from adapters.agent.grants import GrantAnswer, GrantStatus, LedgerGrants
from adapters.agent.hook.facts import (
    GivenDevices,
    InjectorConflictError,
    injected_minors,
    verify_injected,
    visible_words,
)
from adapters.agent.hook.policy import NoGrantYet, Policy
from adapters.agent.injection.adjustment import plan_share, plan_void
from adapters.agent.injection.plan import AdjustmentPlan
from adapters.agent.nri.model import NriContainer, PodSandbox
from adapters.agent.tests.builders import container, equipment, limit, limits
from adapters.dialects import allocation_record, registry
from core.hardware.card import Card
from core.requests.limits import GrantError, Limits

HOOKS = [info.runtime_hook.annotation for info in registry.DIALECTS if info.runtime_hook]
MARKS = [*map(registry.mirror_mark, registry.mirror_targets())]
KEYS = [*sorted(registry.allocation_annotations()), *HOOKS, *MARKS, "example.com/other"]
ENV = [
    "A=1",
    f"{allocation_record.MARK}=1",
    "NVIDIA_VISIBLE_DEVICES=all",
    "NVIDIA_VISIBLE_DEVICES=void",
    "NVIDIA_VISIBLE_DEVICES=1",
    "NVIDIA_VISIBLE_DEVICES=0,1",
    "NVIDIA_VISIBLE_DEVICES=GPU-1",
    "NVIDIA_VISIBLE_DEVICES=MIG-1",
    "NVIDIA_VISIBLE_DEVICES=GPU-2,GPU-1",
    "NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=1",
    "CUDA_DEVICE_SM_LIMIT=50",
]
EQUIPMENT = equipment()
EXEMPT = frozenset({"gpu-operator"})

answers: st.SearchStrategy[GrantAnswer | GrantError] = st.one_of(
    st.sampled_from(GrantStatus),
    st.sampled_from([limits(limit(1)), limits(limit(1), limit(2)), limits(limit(9))]),
    st.builds(GrantError, st.just("card GPU-9 is not on this node")),
)
pods = st.builds(
    PodSandbox,
    uid=st.just("uid-1"),
    namespace=st.sampled_from(["ai", *EXEMPT]),
    annotation_keys=st.frozensets(st.sampled_from(KEYS), max_size=3),
)
containers = st.lists(st.sampled_from(ENV), max_size=3).map(lambda env: container(*env))

assignments = st.builds(
    GivenDevices,
    st.frozensets(st.sampled_from(["GPU-1", "GPU-2", "1", "MIG-1"]), max_size=3),
    st.frozensets(st.sampled_from(["GPU-1", "GPU-2", "MIG-1"]), max_size=2),
)


class FixedGrants(LedgerGrants):
    """Grants that answer every lookup in the same way, and keep the lookups."""

    def __init__(self, answer: GrantAnswer | GrantError, known: bool = True) -> None:  # noqa: FBT002
        super().__init__()
        self._known = known
        self.answer = answer
        self.lookups: list[tuple[str, str]] = []

    def lookup(self, pod: str, container: str) -> GrantAnswer:
        self.lookups.append((pod, container))
        if isinstance(self.answer, GrantError):
            raise self.answer
        return self.answer

    def cards(self) -> Mapping[str, Card]:
        return EQUIPMENT.cards


def ordered(
    grants: FixedGrants, pod: PodSandbox, to: NriContainer, gave: GivenDevices
) -> AdjustmentPlan | NoGrantYet:
    """The rules in order, each condition written out."""
    answer = grants.lookup(pod.uid, to.name)
    marked = any(line.startswith(f"{allocation_record.MARK}=") for line in to.env)
    named = visible_words(to.env)
    plugged = bool(named) and named <= gave.visible | gave.passed
    mirrors = {
        info.mirror
        for info in registry.DIALECTS
        if registry.mirror_mark(info.name) in pod.annotation_keys
    }
    promised = bool(registry.allocation_annotations() & pod.annotation_keys - mirrors)
    if answer is GrantStatus.NOT_RECORDED and promised:
        return NoGrantYet.GRANT
    if answer is GrantStatus.NOT_RECORDED and marked:
        raise GrantError(
            f"admission saw a request for a share ({allocation_record.MARK}), but {answer.value}"
        )
    if answer is GrantStatus.NOT_RECORDED and not grants.known and (plugged or gave.passed):
        return NoGrantYet.GRANT
    injected = injected_minors(pod, to.env)
    if injected is not None:
        verify_injected(injected, answer if isinstance(answer, Limits) else None, to)
        return AdjustmentPlan()
    if isinstance(answer, Limits):
        return plan_share(answer, pod, to, EQUIPMENT)
    if answer is not GrantStatus.NO_SHARE and plugged:
        return AdjustmentPlan()
    if marked:
        raise GrantError(
            f"admission saw a request for a share ({allocation_record.MARK}), but {answer.value}"
        )
    return AdjustmentPlan() if pod.namespace in EXEMPT else plan_void(EQUIPMENT)


@given(answers, pods, containers, assignments, st.booleans())
def test_the_table_decides_as_the_ordered_conditions_with_one_lookup(
    answer: GrantAnswer | GrantError,
    pod: PodSandbox,
    to: NriContainer,
    gave: GivenDevices,
    known: bool,
) -> None:
    grants = FixedGrants(answer, known)
    policy = Policy(grants, lambda: EQUIPMENT, EXEMPT, lambda *_: gave)
    expected: AdjustmentPlan | NoGrantYet | str
    found: AdjustmentPlan | NoGrantYet | str
    try:
        expected = ordered(FixedGrants(answer, known), pod, to, gave)
    except (GrantError, InjectorConflictError) as error:
        expected = repr(error)

    try:
        found = policy.plan(policy.facts(pod, to))
    except (GrantError, InjectorConflictError) as error:
        found = repr(error)

    assert found == expected
    assert grants.lookups == [(pod.uid, to.name)]


@given(answers, pods, containers)
def test_a_container_that_waits_or_is_rejected_may_have_a_share(
    answer: GrantAnswer | GrantError, pod: PodSandbox, to: NriContainer
) -> None:
    policy = Policy(FixedGrants(answer), lambda: EQUIPMENT, EXEMPT)
    facts = policy.facts(pod, to)
    try:
        answered = not isinstance(policy.plan(facts), NoGrantYet)
    except GrantError:
        answered = False
    except InjectorConflictError:
        return

    assert answered or policy.may_have_share(facts)

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from core.hardware.quantity import FULL, GIB
from core.ledger.usage import (
    IDLE,
    CardShare,
    CardUsage,
    concurrent_grants,
    conflict_between,
    contested_cards,
    first_conflict,
    shares_by_card,
    shares_of,
)
from core.requests.grant import Grant
from core.requests.reason import Cause, Obstacle
from core.requests.request import Phase, Request, SharingTerms, TaskClass
from core.tests.builders import a_card, a_grant, a_mig_card, a_request, a_sliced_grant, held
from core.tests.strategies import requests

NORMAL, ONLINE, OFFLINE = TaskClass.NORMAL, TaskClass.ONLINE, TaskClass.OFFLINE


def holder(
    uid: str = "old",
    memory: int = GIB,
    compute: int = 0,
    *,
    exclusive: bool = False,
    blocked: bool = False,
    **terms: Any,
) -> CardShare:
    allocation = replace(held(uid=uid), terms=SharingTerms(**terms))
    grant = replace(a_grant(memory=memory, compute=compute), exclusive=exclusive)
    return shares_by_card(allocation, [grant], blocked=blocked)


def cut(start: int, size: int = 1, uid: str = "old") -> CardShare:
    return shares_by_card(held(uid=uid), [a_sliced_grant(start, size)])


def beside(newcomer: CardShare, *residents: CardShare) -> Cause | None:
    use = IDLE
    for resident in residents:
        use = use.plus(resident)
    found = first_conflict(a_card(), use, newcomer)
    return None if found is None else found.cause


# --- what a pod holds at its peak -----------------------------------------------------------------


def peak(*phases: tuple[Phase, int]) -> tuple[int, int, int]:
    grants = [
        replace(a_grant(memory=memory, container=f"c{number}"), phase=phase)
        for number, (phase, memory) in enumerate(phases)
    ]
    found = shares_by_card(a_request(), grants)
    return found.memory, found.compute, found.slots


def test_main_containers_add_up() -> None:
    assert peak((Phase.MAIN, 2), (Phase.MAIN, 3)) == (5, 0, 2)


def test_init_containers_count_by_their_maximum() -> None:
    assert peak((Phase.INIT, 4), (Phase.INIT, 7), (Phase.MAIN, 5)) == (7, 0, 1)


def test_sidecars_add_to_all_that_starts_after_them() -> None:
    assert peak((Phase.INIT, 6), (Phase.SIDECAR, 2), (Phase.INIT, 5), (Phase.MAIN, 3)) == (7, 0, 2)


def test_slices_count_for_the_whole_life_of_the_pod_and_once() -> None:
    found = shares_by_card(
        a_request(),
        [a_sliced_grant(0, 2, Phase.INIT, "first"), a_sliced_grant(2), a_sliced_grant(0, 2)],
    )

    assert (found.memory, found.compute, found.slots) == (3 * GIB, 75, 2)
    assert [(slot.start, slot.size) for slot in found.slices] == [(0, 2), (2, 1)]
    assert not found.unreadable_slices


def test_shares_beside_slices_are_not_lost() -> None:
    found = shares_by_card(a_request(), [a_sliced_grant(0), a_grant(memory=GIB, compute=10)])

    assert (found.memory, found.compute, found.slots, found.unreadable_slices) == (
        2 * GIB,
        35,
        2,
        True,
    )


@given(requests(containers=4))
def test_the_peak_is_never_above_the_sum_and_never_below_a_part(request: Request) -> None:
    grants = [
        Grant(
            container.name, "a", container.memory_on(GIB), container.compute, phase=container.phase
        )
        for container in request.containers
    ]

    found = shares_by_card(request, grants)

    assert max(grant.memory for grant in grants) <= found.memory
    assert found.memory <= sum(grant.memory for grant in grants)
    assert 1 <= found.slots <= len(grants)


@given(requests(containers=1))
def test_a_grant_alone_counts_as_beside_an_init_container_that_has_nothing(
    request: Request,
) -> None:
    [container] = request.containers
    memory, compute = container.memory_on(GIB), container.compute
    grant = Grant("main", "a", memory, compute, container.exclusive, container.phase)
    nothing = Grant("first", "a", 0, 0, phase=Phase.INIT)

    assert shares_by_card(request, [grant]) == shares_by_card(request, [nothing, grant])


def test_a_main_container_runs_beside_sidecars_and_other_main_ones() -> None:
    grants = [replace(a_grant(), phase=phase) for phase in (Phase.INIT, Phase.SIDECAR, Phase.MAIN)]

    assert concurrent_grants(grants, Phase.MAIN, "next") == grants[1:]


@pytest.mark.parametrize("phase", [Phase.INIT, Phase.SIDECAR])
def test_an_init_container_runs_beside_earlier_sidecars_alone(phase: Phase) -> None:
    grants = [replace(a_grant(), phase=earlier) for earlier in (Phase.INIT, Phase.SIDECAR)]

    assert concurrent_grants(grants, phase, "next") == grants[1:]


def test_all_slices_of_one_container_are_in_use_at_once() -> None:
    one, two = (
        replace(a_sliced_grant(start), container="first", phase=Phase.INIT) for start in (0, 1)
    )
    after = replace(a_sliced_grant(2), container="second", phase=Phase.INIT)

    assert concurrent_grants([one], Phase.INIT, "first") == [one]
    share = shares_by_card(held(), [one, two, after])
    assert (share.slots, len(share.slices)) == (2, 3)
    alone = [replace(each, exclusive=True) for each in (one, two)]
    assert contested_cards(held(*alone)) == []
    assert contested_cards(held(one, one)) == ["a"]


def test_of_an_initialized_pod_only_slices_of_its_init_containers_count() -> None:
    first = replace(a_grant(memory=7 * GIB, container="first"), phase=Phase.INIT)
    other = replace(a_grant("b", container="first"), phase=Phase.INIT)
    cut = a_sliced_grant(0, phase=Phase.INIT, container="second")
    allocation = replace(held(first, other, cut, a_grant(memory=GIB)), initialized=True)

    shares = shares_of(allocation)

    assert shares.keys() == {"a"}
    assert (shares["a"].memory, len(shares["a"].slices)) == (2 * GIB, 1)
    assert shares_of(replace(allocation, initialized=False))["a"].memory == 8 * GIB


# --- the sum of the holders -----------------------------------------------------------------------


def test_a_usage_without_its_last_share_is_as_before() -> None:
    before = IDLE.plus(holder("one", 3, 10))

    assert before.plus(holder("two", 5, 20)).minus("two") == before


def test_removing_an_absent_share_changes_nothing() -> None:
    use = IDLE.plus(holder("one"))

    assert use.minus("stranger") is use


def test_slices_of_all_shares_are_in_use() -> None:
    use = IDLE.plus(cut(0)).plus(cut(2, uid="two"))

    assert [slot.start for slot in use.slices()] == [0, 2]


# --- what keeps a newcomer away -------------------------------------------------------------------


def test_shares_that_fit_the_card_together_do_not_conflict() -> None:
    assert beside(holder("new", 8 * GIB, 50), holder(memory=8 * GIB, compute=50)) is None


def test_missing_memory_is_in_bytes() -> None:
    use = IDLE.plus(holder(memory=12 * GIB))

    found = first_conflict(a_card(), use, holder("new", 5 * GIB))

    assert found == Obstacle(Cause.MEMORY, GIB)


def test_missing_compute_is_in_percent() -> None:
    use = IDLE.plus(holder(compute=70))

    found = first_conflict(a_card(), use, holder("new", compute=40))

    assert found == Obstacle(Cause.COMPUTE, 10)


@pytest.mark.parametrize(("compute", "short"), [(50, 10), (0, 60)])
def test_pods_have_no_more_compute_together_than_the_card_states(compute: int, short: int) -> None:
    use, card = CardUsage().plus(holder("a", compute=30)), replace(a_card(), compute=compute)

    assert first_conflict(card, use, holder("b", compute=30)) == Obstacle(Cause.COMPUTE, short)


def test_pods_of_all_compute_share_a_card_whose_compute_is_overcommitted() -> None:
    use, card = CardUsage().plus(holder("a", compute=FULL)), replace(a_card(), compute=2 * FULL)

    assert first_conflict(card, use, holder("b", compute=FULL)) is None
    full = use.plus(holder("b", compute=FULL))
    assert first_conflict(card, full, holder("c")) == Obstacle(Cause.COMPUTE_FULL)


def test_a_card_without_compute_takes_pods_of_memory_alone() -> None:
    use, card = CardUsage().plus(holder("a")), replace(a_card(), compute=0)

    assert first_conflict(card, use, holder("b")) is None


def test_a_card_takes_no_more_containers_than_it_has_slots() -> None:
    use = IDLE.plus(holder())

    found = first_conflict(a_card(slots=1), use, holder("new"))

    assert found == Obstacle(Cause.SLOTS)


def test_who_reserves_no_compute_needs_some_left_unless_online() -> None:
    full = [holder("a", compute=50), holder("b", compute=50)]
    offline = [replace(each, terms=SharingTerms(OFFLINE)) for each in full]

    assert beside(holder("new"), *full) is Cause.COMPUTE_FULL
    assert beside(holder("new", task_class=OFFLINE), *offline) is Cause.COMPUTE_FULL
    assert beside(holder("new", task_class=ONLINE), *offline) is None


def test_memory_is_never_lent() -> None:
    offline = holder(memory=16 * GIB, task_class=OFFLINE)

    assert beside(holder("new", task_class=ONLINE), offline) is Cause.MEMORY


@pytest.mark.parametrize(
    ("newcomer", "resident", "cause"),
    [
        (NORMAL, NORMAL, None),
        (NORMAL, ONLINE, Cause.CLASS),
        (NORMAL, OFFLINE, Cause.CLASS),
        (ONLINE, NORMAL, Cause.CLASS),
        (ONLINE, ONLINE, None),
        (ONLINE, OFFLINE, None),
        (OFFLINE, NORMAL, Cause.CLASS),
        (OFFLINE, ONLINE, Cause.CLASS),
        (OFFLINE, OFFLINE, None),
    ],
)
def test_classes_mix_as_in_the_matrix(
    newcomer: TaskClass, resident: TaskClass, cause: Cause | None
) -> None:
    assert beside(holder("new", task_class=newcomer), holder(task_class=resident)) is cause


@pytest.mark.parametrize("task_class", list(TaskClass))
def test_who_asks_exclusively_gets_an_idle_card(task_class: TaskClass) -> None:
    newcomer = holder("new", exclusive=True, task_class=task_class)

    assert beside(newcomer) is None
    assert beside(newcomer, holder(task_class=task_class)) is Cause.IN_USE


@pytest.mark.parametrize("task_class", list(TaskClass))
def test_no_task_of_the_same_class_joins_an_exclusive_share(task_class: TaskClass) -> None:
    resident = holder(exclusive=True, task_class=task_class)

    assert beside(holder("new", task_class=task_class), resident) is Cause.HELD_EXCLUSIVELY


def test_an_exclusive_offline_task_lends_its_card_to_online_ones() -> None:
    resident = holder(compute=FULL, exclusive=True, task_class=OFFLINE)

    assert beside(holder("new", task_class=ONLINE), resident) is None


def test_a_card_has_one_qos_at_a_time() -> None:
    fixed = holder(qos="fixed")

    assert beside(holder("new", qos="burst"), fixed) is Cause.QOS
    assert beside(holder("new", qos="fixed"), fixed) is None
    assert beside(holder("new"), fixed) is None
    assert beside(holder("new", qos="burst"), holder()) is None


def test_online_tasks_claim_no_qos() -> None:
    offline = holder(qos="fixed", task_class=OFFLINE)

    assert beside(holder("new", qos="burst", task_class=ONLINE), offline) is None


def test_pods_of_one_group_stay_apart() -> None:
    assert beside(holder("new", group="g"), holder(group="g")) is Cause.GROUP
    assert beside(holder("new", group="g"), holder(group="h")) is None


def test_a_pod_stays_apart_from_members_of_its_group_that_do_not_ask_for_that() -> None:
    assert beside(holder("new", group="g"), holder(member_of="g")) is Cause.GROUP
    assert beside(holder("new", group="g"), holder(member_of="h")) is None
    assert beside(holder("new", member_of="g"), holder(group="g", member_of="g")) is None


def test_pods_under_one_exclusion_rule_stay_apart() -> None:
    resident = holder(exclusions=frozenset({"x", "y"}))

    assert beside(holder("new", exclusions=frozenset({"y"})), resident) is Cause.EXCLUSION
    assert beside(holder("new", exclusions=frozenset({"z"})), resident) is None


def test_no_share_joins_one_that_cannot_be_read() -> None:
    assert beside(holder("new"), holder(blocked=True)) is Cause.BLOCKED
    assert beside(holder("new", blocked=True), holder()) is Cause.BLOCKED


# --- slices ---------------------------------------------------------------------------------------


def cut_obstacle(newcomer: CardShare, *residents: CardShare) -> Obstacle | None:
    use = CardUsage()
    for resident in residents:
        use = use.plus(resident)
    return first_conflict(a_mig_card(), use, newcomer)


def test_slices_side_by_side_share_a_card() -> None:
    assert cut_obstacle(cut(2, 2, "new"), cut(0, 2)) is None


def test_a_slice_cannot_be_given_while_one_overlaps_it() -> None:
    assert cut_obstacle(cut(1, 1, "new"), cut(0, 2)) == Obstacle(Cause.NO_SLICE)


def test_a_pods_own_slices_must_not_overlap_either() -> None:
    newcomer = shares_by_card(held(), [a_sliced_grant(0, 2, Phase.INIT), a_sliced_grant(1)])

    assert cut_obstacle(newcomer) == Obstacle(Cause.NO_SLICE)


def test_a_share_without_a_slice_conflicts_on_a_mig_card() -> None:
    assert cut_obstacle(holder("new")) == Obstacle(Cause.NO_SLICE)
    assert cut_obstacle(cut(0, 1, "new"), holder()) == Obstacle(Cause.NO_SLICE)


# --- who should never have met --------------------------------------------------------------------


def test_shares_that_are_allowed_in_one_order_do_not_conflict() -> None:
    online, offline = holder(task_class=ONLINE), holder(task_class=OFFLINE, exclusive=True)

    assert conflict_between(online, offline) is None
    assert conflict_between(offline, online) is None


def test_an_exclusive_share_conflicts_with_all_others() -> None:
    assert conflict_between(holder(exclusive=True), holder()) is Cause.HELD_EXCLUSIVELY
    assert conflict_between(holder(), holder(exclusive=True)) is Cause.IN_USE


def test_overlapping_slices_conflict() -> None:
    assert conflict_between(cut(0, 2), cut(1)) is Cause.NO_SLICE


def test_a_share_that_cannot_be_read_conflicts_with_none() -> None:
    assert conflict_between(holder(blocked=True), holder(exclusive=True)) is None
    assert conflict_between(holder(exclusive=True), holder(blocked=True)) is None

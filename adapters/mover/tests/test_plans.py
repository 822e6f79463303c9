"""The cache of plans: what it takes, and what it remembers of evictions."""

import msgspec
import pytest

from adapters.cluster.watch.object_tracker import Identity
from adapters.mover.plans import PastEviction, PlanCache
from adapters.mover.tests.builders import NOW, a_plan, a_time, ago
from adapters.wire.kube import Unreadable
from adapters.wire.records.move_plan import MovePlanObject

GONE = Identity("", "defrag-1", "uid-defrag-1")


def cache() -> tuple[PlanCache, list[str]]:
    problems: list[str] = []
    return PlanCache(lambda _, problem: problems.append(problem)), problems


def put(plans: PlanCache, plan: object) -> None:
    plans.on_update(msgspec.json.decode(msgspec.json.encode(plan), type=MovePlanObject))


def begun(plans: PlanCache) -> list[tuple[int, bool]]:
    return [(each.step, each.done) for each in plans.evictions(NOW)]


def test_evictions_that_were_done_or_begun_in_the_last_hour_count() -> None:
    plans, _ = cache()
    steps = [
        {"step": 1, "evictedAt": ago(minutes=61)},
        {"step": 2, "evictedAt": ago(minutes=59), "begunAt": ago(minutes=61)},
        {"step": 3, "skipped": True},
        {"step": 4, "begunAt": ago(minutes=1), "mover": "x"},
        {"step": 5},
        {"step": 9, "evictedAt": ago(minutes=1)},
    ]

    put(plans, a_plan(5, steps=steps))

    assert begun(plans) == [(2, True), (4, False), (9, True)]
    assert [each.namespace for each in plans.evictions(NOW)] == ["web", "web", ""]


def test_an_eviction_at_an_unreadable_time_counts_as_just_done() -> None:
    plans, _ = cache()

    put(plans, a_plan(steps=[{"step": 1, "evictedAt": "yesterday"}]))

    assert begun(plans) == [(1, True)]


def test_evictions_of_a_deleted_plan_count() -> None:
    plans, _ = cache()
    put(plans, a_plan(steps=[{"step": 1, "evictedAt": ago(minutes=1)}]))

    plans.on_delete(GONE)

    assert plans.plans == {}
    assert begun(plans) == [(1, True)]


def test_a_begun_eviction_that_was_refused_counts_no_more() -> None:
    plans, _ = cache()
    put(plans, a_plan(steps=[{"step": 1, "begunAt": ago(minutes=1), "mover": "x"}]))

    put(plans, a_plan(version=2, phase="Stopped"))

    assert begun(plans) == []


def test_what_this_process_evicted_counts_whatever_the_status_says() -> None:
    plans, _ = cache()
    plans.evicted(PastEviction("uid-defrag-1", 1, "web", a_time(minutes=1), done=True))

    put(plans, a_plan(steps=[{"step": 1, "begunAt": ago(minutes=1), "mover": "x"}]))

    assert begun(plans) == [(1, True)]
    assert plans.evictions(a_time(minutes=-60)) == []


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("spec", []),
        ("spec", None),
        ("spec", {"moves": [{}]}),
        ("status", []),
        ("status", {"phase": "Evicting"}),
        ("status", {"phase": "Evict", "step": "1"}),
        ("status", {"steps": [{"step": 999}]}),
    ],
)
def test_a_plan_that_cannot_be_read_is_reported_and_not_acted_on(part: str, value: object) -> None:
    plans, problems = cache()
    put(plans, a_plan(phase="Held"))

    put(plans, {**a_plan(phase="Evict", step=1), part: value})

    assert plans.plans == {}
    assert len(problems) == 1
    assert problems[0].startswith(f"MovePlan defrag-1: {part}")


def test_a_plan_that_is_being_deleted_is_not_acted_on() -> None:
    plans, problems = cache()
    plan = a_plan(phase="Evict", step=1, steps=[{"step": 1, "begunAt": ago(), "mover": "x"}])
    plan["metadata"]["deletionTimestamp"] = ago()

    put(plans, plan)

    assert (plans.plans, problems) == ({}, [])
    assert begun(plans) == [(1, False)]


def test_a_plan_without_readable_metadata_is_reported() -> None:
    plans, problems = cache()
    put(plans, a_plan())

    plans.on_unreadable(Unreadable("", "defrag-1", "u", msgspec.Raw(b"")), "no labels")

    assert (plans.plans, problems) == ({}, ["no labels"])

"""What is done about a plan, for every status that it can have."""

from typing import Any

import msgspec
import pytest

from adapters.mover.plans import (
    Ask,
    Decision,
    Evict,
    Leave,
    MoverBounds,
    MoverSettings,
    MoverState,
    PastEviction,
    PlanCache,
    ReportEvicted,
    Stop,
    Wait,
    decide,
    with_entry,
)
from adapters.mover.tests.builders import NOW, a_plan, a_time, ago
from adapters.wire.records.move_plan import (
    MovePhase,
    MovePlanObject,
    MovePlanStatus,
    MoveStep,
)

ME = "me"


def decision(
    status: dict[str, Any],
    *,
    evictions: list[PastEviction] | None = None,
    unchanged: float = 0,
    bounds: MoverBounds | None = None,
) -> Decision | None:
    cache = PlanCache(lambda _, problem: pytest.fail(problem), clock=lambda: 1000.0)
    cache.on_update(msgspec.convert(raw(a_plan(2, **status)), MovePlanObject))
    known = [*cache.evictions(NOW), *(evictions or ())]
    return decide(
        cache.plans["defrag-1"],
        MoverState(MoverSettings(ME, bounds or MoverBounds()), known, NOW, 1000.0 + unchanged),
    )


def raw(plan: dict[str, Any]) -> dict[str, Any]:
    parts = {part: msgspec.Raw(msgspec.json.encode(plan[part])) for part in ("spec", "status")}
    return {**plan, **parts}


@pytest.mark.parametrize("phase", [each.value for each in MovePhase])
def test_the_mover_acts_in_two_phases_only(phase: str) -> None:
    made = decision({"phase": phase, "step": 1})

    kinds = {"Held": Ask, "Evict": Evict}
    assert type(made) is kinds.get(phase, type(None))


def test_the_pod_of_the_step_is_evicted() -> None:
    made = decision({"phase": "Evict", "step": 2})

    assert isinstance(made, Evict)
    assert (made.step, made.move.pod, made.move.uid) == (2, "pod-2", "uid-2")


@pytest.mark.parametrize("step", [0, 3, 512])
def test_a_step_that_the_plan_does_not_have_stops_it(step: int) -> None:
    assert decision({"phase": "Evict", "step": step}) == Stop(
        f"status.step: {step}: must be 1 to 2, the number of a move"
    )


@pytest.mark.parametrize("past", [{"minutes": 1}, {"hours": 3}])
def test_a_step_that_was_evicted_is_not_evicted_again(past: dict[str, float]) -> None:
    steps = [{"step": 1, "evictedAt": ago(**past)}]

    assert decision({"phase": "Evict", "step": 1, "steps": steps}) == ReportEvicted(1, ago(**past))


def test_a_step_that_was_skipped_is_not_evicted() -> None:
    steps = [{"step": 1, "skipped": True}]

    assert decision({"phase": "Evict", "step": 1, "steps": steps}) == ReportEvicted(1, ago())


def test_a_step_that_this_process_evicted_is_not_evicted_again_whatever_the_status_says() -> None:
    own = PastEviction("uid-defrag-1", 1, "web", a_time(minutes=5), done=True)

    assert decision({"phase": "Evict", "step": 1}, evictions=[own]) == ReportEvicted(
        1, ago(minutes=5)
    )


@pytest.mark.parametrize(
    ("mover", "unchanged", "kind"),
    [("other", 0, Leave), ("other", 59, Leave), ("other", 60, Evict), (ME, 0, Evict)],
)
def test_an_order_that_another_process_took_is_left_to_it_for_a_minute(
    mover: str, unchanged: float, kind: type[object]
) -> None:
    steps = [{"step": 1, "begunAt": ago(hours=5), "mover": mover}]

    made = decision({"phase": "Evict", "step": 1, "steps": steps}, unchanged=unchanged)

    assert type(made) is kind


def test_an_order_that_is_taken_again_counts_once() -> None:
    steps = [{"step": 1, "begunAt": ago(minutes=2), "mover": ME}]

    made = decision({"phase": "Evict", "step": 1, "steps": steps}, bounds=MoverBounds(1, 1))

    assert isinstance(made, Evict)


def test_an_eviction_that_was_begun_counts_for_the_next_step() -> None:
    steps = [{"step": 1, "begunAt": ago(minutes=2), "mover": "other"}]

    made = decision({"phase": "Evict", "step": 2, "steps": steps}, bounds=MoverBounds(1, 1))

    assert isinstance(made, Wait)


def test_an_entry_takes_its_place_among_the_others() -> None:
    status = MovePlanStatus(steps=(MoveStep(1), MoveStep(3), MoveStep(2), MoveStep(2)))

    steps = with_entry(status, MoveStep(2, "t"))

    assert steps == (MoveStep(1), MoveStep(2, "t"), MoveStep(3))

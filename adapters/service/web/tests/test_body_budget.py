"""The budget of body bytes: slow bodies give way, complete ones do not."""

import pytest

from adapters.service.web.limits import SLOW, SMALL, BodyBudget, BudgetError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_slow_body_gives_way_to_a_new_one() -> None:
    clock, dropped = Clock(), []
    budget = BodyBudget(2 * SLOW, clock)
    with budget.hold(lambda: dropped.append("slow")) as slow, budget.hold(lambda: None) as new:
        slow.grow(2 * SLOW)
        clock.now = 3.0

        new.grow(SLOW)

        assert dropped == ["slow"]
        assert budget.used == SLOW - SMALL
    assert budget.used == 0
    assert not budget.arriving


def test_without_a_slow_body_the_one_that_does_not_fit_is_rejected() -> None:
    clock, dropped = Clock(), []
    budget = BodyBudget(SLOW, clock)
    with budget.hold(lambda: dropped.append(1)) as first, budget.hold(lambda: None) as second:
        first.grow(SMALL + SLOW)
        clock.now = 0.9

        with pytest.raises(BudgetError):
            second.grow(SMALL + 1)

        assert not dropped
        assert budget.used == SLOW


def test_a_small_body_has_room_where_others_use_the_whole_budget() -> None:
    budget = BodyBudget(SLOW, Clock())
    with budget.hold(lambda: None) as first, budget.hold(lambda: None) as bind:
        first.grow(SMALL + SLOW)

        bind.grow(SMALL - 1)
        bind.grow(1)

        assert budget.used == SLOW
    assert budget.used == 0


def test_a_complete_body_stays_until_its_response() -> None:
    clock, dropped = Clock(), []
    budget = BodyBudget(SLOW, clock)
    with budget.hold(lambda: dropped.append(1)) as complete, budget.hold(lambda: None) as second:
        complete.grow(SMALL + SLOW)
        complete.arrived()
        clock.now = 100.0

        with pytest.raises(BudgetError):
            second.grow(SMALL + 1)

    assert not dropped
    assert budget.used == 0

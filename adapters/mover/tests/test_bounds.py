"""The bounds hold in every hour, for the evictions of all movers."""

import pytest

from adapters.mover.plans import MoverBounds, PastEviction, reason_to_wait
from adapters.mover.tests.builders import NOW, a_time, ago


def some(count: int, namespace: str = "web", **past: float) -> list[PastEviction]:
    return [PastEviction("p", step, namespace, a_time(**past), done=True) for step in range(count)]


@pytest.mark.parametrize(
    ("evictions", "waits"),
    [
        ([], False),
        (some(1, minutes=59), False),
        (some(2, minutes=59), True),
        (some(2, minutes=60), False),
        (some(2, "other", minutes=1), False),
        (some(2, "other", minutes=1) + some(1, minutes=1), True),
        (some(2, minutes=-30), True),  # by a clock that is ahead
    ],
)
def test_a_pod_waits_while_the_last_hour_is_full(
    evictions: list[PastEviction], waits: bool
) -> None:
    reason = reason_to_wait(MoverBounds(3, 2), evictions, "web", NOW)

    assert bool(reason) is waits


def test_the_reason_names_the_bound_and_when_the_pod_can_go() -> None:
    evictions = [*some(1, minutes=50), *some(1, minutes=40), *some(1, minutes=10)]

    assert reason_to_wait(MoverBounds(9, 2), evictions, "web", NOW) == (
        "3 evictions in the last hour, at most 2 may be (perNamespacePerHour, namespace web):"
        f" waits until {ago(minutes=-20)}"
    )
    assert reason_to_wait(MoverBounds(3, 9), evictions, "web", NOW) == (
        f"3 evictions in the last hour, at most 3 may be (perHour): waits until {ago(minutes=-10)}"
    )

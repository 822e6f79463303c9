import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hardware.quantity import FULL, GIB, MIB
from core.requests.request import ContainerRequest, Phase, Request, Totals
from core.tests.builders import a_container, a_request
from core.tests.strategies import requests


def test_bytes_are_asked_of_every_card_alike() -> None:
    assert a_container(3 * GIB).memory_on(80 * GIB) == 3 * GIB


@pytest.mark.parametrize(
    ("percent", "step", "expected"),
    [
        (50, 1, 8 * GIB),
        (33, MIB, 5406 * MIB),
        (33, GIB, 5 * GIB),
        (FULL, GIB, 16 * GIB),
        (1, GIB, GIB),
    ],
)
def test_percent_become_what_can_be_written_and_never_nothing(
    percent: int, step: int, expected: int
) -> None:
    assert (
        ContainerRequest("main", 1, memory_percent=percent, step=step).memory_on(16 * GIB)
        == expected
    )


@given(st.integers(1, 1 << 40), st.integers(1, FULL))
def test_a_percentage_is_never_above_the_card(total: int, percent: int) -> None:
    assert 1 <= ContainerRequest("main", 1, memory_percent=percent).memory_on(total) <= total


def test_totals_of_main_containers_add_up_over_cards() -> None:
    request = a_request(
        ContainerRequest("x", 2, memory=GIB, compute=30),
        ContainerRequest("y", 1, memory_percent=50, compute=10),
    )

    assert request.totals() == Totals(cards=3, memory=2 * GIB, memory_percent=50, compute=70)


def test_totals_count_init_containers_by_their_peak() -> None:
    request = a_request(
        ContainerRequest("x", 4, memory=1, phase=Phase.INIT),
        ContainerRequest("y", 1, memory=5, phase=Phase.SIDECAR),
        ContainerRequest("z", 2, memory=2),
    )

    assert request.totals() == Totals(cards=4, memory=9, memory_percent=0, compute=0)


@given(requests(containers=4))
def test_totals_are_at_least_those_of_each_container(request_: Request) -> None:
    totals = request_.totals()

    assert totals.cards >= max(container.count for container in request_.containers)
    assert totals.compute >= max(
        container.count * container.compute for container in request_.containers
    )
    assert totals.memory <= sum(
        container.count * (container.memory or 0) for container in request_.containers
    )

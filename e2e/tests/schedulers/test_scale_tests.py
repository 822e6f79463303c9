"""The tests of ``bench/scale_tests.py``, small: what is bound is right, however long it takes."""

from collections.abc import Iterator

import pytest

from e2e.harness.rounds import scale_tests
from e2e.harness.rounds.scale_tests import BURSTS, FREED, HALVES, WHOLES
from e2e.harness.schedulers.service import Service

pytestmark = [pytest.mark.local, pytest.mark.timeout(300)]

NODES = 3
ENDS = 3
HERE = {HALVES, WHOLES, FREED, *BURSTS.values()}
"""What no other file tests with all schedulers."""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with scale_tests.ground(NODES, *scale_tests.WAYS.values()) as made:
        yield made


@pytest.mark.parametrize("name", ["kube", "koord-native", "koord", "vc-native"])
def test_cards_are_filled_just_so_at_any_pace(service: Service, name: str) -> None:
    """kube-scheduler has all tests; gangs, evictions and moves of the others have files."""
    with scale_tests.bed(service, NODES, scale_tests.WAYS[name], handshake=1) as on:
        for rows, test in scale_tests.tests(on, ENDS):
            if name == "kube" or rows[0] in HERE:
                print(name, dict(zip(rows, test(), strict=True)))

"""The control of ``bench/transition.py``, small: each way of giving cards keeps its own book."""

from collections.abc import Iterator
from functools import partial

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import turn
from e2e.harness.rounds.transition import Size, add_class, run
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.workloads.claims import RESOURCES

pytestmark = [
    pytest.mark.local("stops the API server"),
    pytest.mark.timeout(400),
]

SIZE = Size(nodes=6, pods=60, groups=2, seconds=2, pause=0.25, faults=6)


@pytest.fixture(scope="module")
def ground(plane: ControlPlane) -> Iterator[ControlPlane]:
    add_class(plane.api)
    with turn(partial(start_volcano_controllers, plane), plane):
        yield plane
    plane.api.delete(f"{RESOURCES}/deviceclasses/gpu.nvidia.com")


def test_without_dragoman_cards_are_given_twice(ground: ControlPlane) -> None:
    found = run(ground, SIZE, served=False)

    print(found)
    assert found.over

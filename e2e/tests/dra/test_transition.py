"""The run of ``bench/transition.py``, small: no card is given twice, whatever comes and goes.

Where the service wrote a card on a plain pod and NVIDIA's plugin gives another, the agent is taken
to inject the former. The control, in which Dragoman is away, shows that the oracle finds cards that
are given twice.
"""

from collections.abc import Iterator
from functools import partial

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import turn
from e2e.harness.rounds.transition import ASKS, Size, add_class, run
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.workloads.claims import RESOURCES

pytestmark = [
    pytest.mark.local("stops the API server, and kills its replicas"),
    pytest.mark.timeout(400),
]

SIZE = Size(nodes=6, pods=60, groups=2, seconds=2, pause=0.25, faults=6)


@pytest.fixture(scope="module")
def ground(plane: ControlPlane) -> Iterator[ControlPlane]:
    add_class(plane.api)
    with turn(partial(start_volcano_controllers, plane), plane):
        yield plane
    plane.api.delete(f"{RESOURCES}/deviceclasses/gpu.nvidia.com")


def test_no_card_is_given_twice_on_the_way_from_plugins_to_claims(ground: ControlPlane) -> None:
    found = run(ground, SIZE, served=True)

    print(found)
    assert found.problems == []
    assert found.blocked == []
    assert found.waiting == []
    assert found.bound == found.came
    assert found.bound.keys() == {kind for kind, _ in ASKS}
    assert found.kills
    assert found.stalls


def test_without_dragoman_cards_are_given_twice(ground: ControlPlane) -> None:
    found = run(ground, SIZE, served=False)

    print(found)
    assert found.over

"""The measurement at scale, small: every pod is bound by two writes, and nothing stays behind."""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.rounds import scale
from e2e.harness.schedulers.service import Service

pytestmark = pytest.mark.local

NODES, PODS = 120, 100
"""More nodes than ``ALL_SCORED``, up to which an answer of prioritize names them all."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with scale.ground(NODES) as plane:
        yield plane


@pytest.fixture(scope="module")
def alone(plane: ControlPlane) -> scale.SchedulerRound:
    """Before there is a service, which would adopt what the scheduler binds."""
    return scale.bind_all(plane, "kube-scheduler", PODS, None)


@pytest.fixture(scope="module")
def service(plane: ControlPlane, alone: scale.SchedulerRound) -> Service:
    assert not alone.served
    return scale.described_by(plane, NODES)[0]


@pytest.mark.parametrize("scheduler", scale.STARTERS)
def test_a_bind_is_at_most_one_ledger_and_one_binding(
    plane: ControlPlane, service: Service, scheduler: str
) -> None:
    found = scale.bind_all(plane, scheduler, PODS, service)

    print(f"{scheduler}: {found.rate:.0f} pods/s, writes a pod: {dict(found.writes)}")
    assert found.writes["POST pods/binding"] == 1
    # Pods that come to one node at a time are written together. A bind that is asked for again
    # writes once more: koord-scheduler changes a pod just before, and where the machine is busy,
    # the watch reports that after the bind has begun (1.1 a pod alone, 1.8 beside other tests).
    assert 0 < found.writes["PUT nodeledgers"] < 2
    assert found.writes.get("PATCH pods", 0) == 0


def test_the_scheduler_alone_binds_the_same_pods(alone: scale.SchedulerRound) -> None:
    assert alone.writes["POST pods/binding"] == 1
    assert alone.writes.get("PUT nodeledgers", 0) == 0

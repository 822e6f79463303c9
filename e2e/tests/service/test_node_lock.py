"""Pods for MetaX's device plugin are bound to a node one after the other, by its lock."""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS, clear, cluster, events, node_of, pod
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.lock_holders import ANYWHERE, locking_service, unattended_node
from e2e.harness.schedulers.service import Service, install, with_decisions
from e2e.harness.workloads.inventory import gpus, metax

pytestmark = pytest.mark.local

KEY = "hami.io/mutex.lock"
NODE = "still"
PATH = f"/api/v1/nodes/{NODE}"
SHARE = {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "4", "metax-tech.com/vcore": "10"}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([]) as plane:
        install(plane)
        plane.api.create("/api/v1/nodes", unattended_node(NODE, metax(gpus(NODE, 1, 65536))))
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    with locking_service(plane, NODE) as made:
        yield made


@pytest.fixture(autouse=True)
def emptied(plane: ControlPlane) -> Iterator[None]:
    """Each test leaves the node as it found it: no pods, no lock."""
    yield
    clear(plane.api)
    serve(plane)
    within(60, lambda: held(plane, NODE) == {})


def lock(plane: ControlPlane) -> str:
    """The pod that has the node, or the empty string."""
    text = plane.api.get(PATH)["metadata"].get("annotations", {}).get(KEY, "")
    return str(text).rpartition(",")[2]


def serve(plane: ControlPlane) -> None:
    """What the plugin does when it has served the pod of the lock."""
    plane.api.merge(PATH, {"metadata": {"annotations": {KEY: None}}})


def test_of_two_pods_at_once_the_second_is_bound_when_the_plugin_has_served_the_first(
    plane: ControlPlane, service: Service
) -> None:
    names = ("one", "two")
    create_all(plane.api, PODS, [pod(n, "kube", SHARE, tolerations=ANYWHERE) for n in names])

    with_decisions(service, lambda: within(30, lambda: lock(plane) in names))
    first = lock(plane)
    (second,) = {*names} - {first}
    within(20, lambda: node_of(plane.api, first) == NODE)
    within(20, lambda: any("has not served" in said for said in events(plane.api, second)))

    assert node_of(plane.api, second) == ""
    assert held(plane, NODE).keys() == {first}
    assert any(f"default/{first}" in said for said in events(plane.api, second))

    serve(plane)
    seconds = with_decisions(
        service, lambda: within(60, lambda: node_of(plane.api, second) == NODE)
    )

    print(f"the second pod was bound {seconds:.1f} s after the lock was released")
    assert lock(plane) == second
    assert held(plane, NODE).keys() == {*names}
    assert 'reason="locked"' in service.metrics()


def test_the_lock_of_a_pod_that_was_deleted_before_it_started_keeps_no_pod_waiting(
    plane: ControlPlane, service: Service
) -> None:
    plane.api.create(PODS, pod("gone", "kube", SHARE, tolerations=ANYWHERE))
    with_decisions(service, lambda: within(30, lambda: lock(plane) == "gone"))

    clear(plane.api)
    plane.api.create(PODS, pod("three", "kube", SHARE, tolerations=ANYWHERE))

    with_decisions(service, lambda: within(30, lambda: node_of(plane.api, "three") == NODE))

    assert lock(plane) == "three"

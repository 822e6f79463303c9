"""Stock kube-scheduler binds pods of HAMi, and a stand-in of HAMi's device plugin serves them."""

import json
from collections.abc import Iterator
from functools import partial

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS, clear, cluster, events, node_of, pod
from e2e.harness.doubles.vgpu_plugins import HAMI, LOCK, PHASE, HamiPlugin, serve
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.lock_holders import ANYWHERE, locking_service, unattended_node
from e2e.harness.schedulers.service import Service, install, with_decisions
from e2e.harness.workloads.inventory import DialectRecords

pytestmark = pytest.mark.local

NODE = "hami"
MIB = 1 << 20
RUNS = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,8000,30:;", "hami.io/vgpu-node": NODE}


def cards() -> DialectRecords:
    """Cards as HAMi's device plugin describes them."""
    device = {"count": 10, "devmem": 16384, "devcore": 100, "type": "NVIDIA A10"}
    entry = {**device, "id": "GPU-0", "mode": "hami-core", "health": True}
    register = {"hami.io/node-nvidia-register": json.dumps([entry])}
    return DialectRecords(annotations=register, resources={"nvidia.com/gpu": "10"})


def share(memory: int, cores: int) -> dict[str, str]:
    return {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem": str(memory),
        "nvidia.com/gpucores": str(cores),
    }


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """With a pod that HAMi's scheduler bound, before there was a Dragoman."""
    with cluster([]) as plane:
        install(plane)
        plane.api.create("/api/v1/nodes", unattended_node(NODE, cards()))
        runs = pod("runs", "hami-scheduler", share(8000, 30), tolerations=ANYWHERE)
        runs["metadata"]["annotations"] = RUNS
        runs["spec"]["nodeName"] = NODE
        plane.api.create(PODS, runs)
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    with locking_service(plane, NODE) as made:
        yield made
        clear(plane.api)


@pytest.fixture(autouse=True)
def emptied(plane: ControlPlane) -> Iterator[None]:
    """Each test leaves the node as it found it."""
    yield
    for name in held(plane, NODE).keys() - {"runs"}:
        plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    plane.api.merge(f"/api/v1/nodes/{NODE}", {"metadata": {"annotations": {LOCK: None}}})
    within(60, lambda: held(plane, NODE).keys() == {"runs"})


def test_pods_of_hami_share_the_cards_of_pods_that_its_scheduler_bound(
    plane: ControlPlane, service: Service
) -> None:
    within(30, lambda: "runs" in held(plane, NODE))
    (grant,) = held(plane, NODE)["runs"]["grants"]
    assert (grant["card"], grant["memory"], grant["compute"]) == ("GPU-0", 8000 * MIB, 30)

    for name, memory in (("first", 8000), ("second", 384)):
        plane.api.create(PODS, pod(name, "kube", share(memory, 10), tolerations=ANYWHERE))
        bound = partial(node_of, plane.api, name)
        with_decisions(service, lambda bound=bound: within(60, lambda: bound() == NODE))  # type: ignore[misc]

        served, responses = serve(plane.api, NODE)

        assert served == name
        assert responses["main"].envs.items() >= {
            ("CUDA_DEVICE_MEMORY_LIMIT_0", f"{memory}m"),
            ("CUDA_DEVICE_SM_LIMIT", "10"),
            ("NVIDIA_VISIBLE_DEVICES", "GPU-0"),
        }
        assert phase(plane, name) == "success"

    grants = [grant for each in held(plane, NODE).values() for grant in each["grants"]]
    assert sum(grant["memory"] for grant in grants) == 16384 * MIB
    kept = plane.api.get(f"{PODS}/runs")["metadata"]["annotations"]
    assert kept.items() >= RUNS.items()


def test_a_pod_of_two_containers_has_the_node_until_its_second_is_served(
    plane: ControlPlane, service: Service
) -> None:
    both = pod("both", "kube", share(500, 10), tolerations=ANYWHERE)
    (container,) = both["spec"]["containers"]
    both["spec"]["containers"] = [container | {"name": name} for name in ("a", "b")]
    plane.api.create(PODS, both)
    with_decisions(service, lambda: within(60, lambda: node_of(plane.api, "both") == NODE))
    plugin = HamiPlugin(plane.api, NODE)
    before = held(plane, NODE)["both"]

    plugin.allocate(1)
    plane.api.create(PODS, pod("late", "kube", share(500, 10), tolerations=ANYWHERE))
    within(
        20,
        lambda: "has not served" in str(events(plane.api, "late")),
        lambda: events(plane.api, "late"),
    )

    assert phase(plane, "both") == "allocating"
    assert node_of(plane.api, "late") == ""
    assert held(plane, NODE)["both"] == before
    plugin.allocate(1)
    assert phase(plane, "both") == "success"
    assert plane.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["annotations"].get(LOCK) is None
    with_decisions(service, lambda: within(60, lambda: node_of(plane.api, "late") == NODE))


def phase(plane: ControlPlane, name: str) -> str:
    return str(plane.api.get(f"{PODS}/{name}")["metadata"]["annotations"][HAMI + PHASE])

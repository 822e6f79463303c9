"""What Koordinator's webhook makes of a pod changes nothing of what the product reads in it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
import pytest

from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.koordinator.dialect import Koordinator
from adapters.wire.kube import Pod
from adapters.wire.quantity import parse_int
from core.requests.request import Request
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import PODS, cluster, events, node_of, pod, turn
from e2e.harness.names import ALLOCATED
from e2e.harness.processes.usage import processor_seconds
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.ecosystem_webhooks import start_koord_manager
from e2e.harness.schedulers.koordinator import profile
from e2e.harness.schedulers.schedulers import define, start_koord_scheduler_alone
from e2e.harness.workloads.inventory import Described, add_inventory, described, gpus, koordinator
from e2e.testbed import cache

pytestmark = pytest.mark.local

# What stands in a container's limits, and what the webhook makes of it; without the prefix.
PREFIX = "koordinator.sh/"
HALF = {"gpu-core": "50", "gpu-memory-ratio": "50", "gpu.shared": "1"}
ROWS: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"gpu": "50"}, HALF),
    (HALF, HALF),
    ({"gpu": "100"}, {"gpu-core": "100", "gpu-memory-ratio": "100", "gpu.shared": "1"}),
    ({"gpu": "200"}, {"gpu-core": "200", "gpu-memory-ratio": "200", "gpu.shared": "2"}),
    ({"gpu": "150"}, {"gpu-core": "150", "gpu-memory-ratio": "150", "gpu.shared": "1"}),
    ({"gpu-memory-ratio": "200"}, {"gpu-memory-ratio": "200", "gpu.shared": "2"}),
    (
        {"gpu-core": "200", "gpu-memory": "64Gi"},
        {"gpu-core": "200", "gpu-memory": "64Gi", "gpu.shared": "0"},
    ),
    ({"gpu-memory": "8Gi"}, {"gpu-memory": "8Gi", "gpu.shared": "1"}),
    ({"gpu-core": "100"}, {"gpu-core": "100", "gpu.shared": "1"}),
    (
        {"gpu-core": "100", "gpu-memory-ratio": "50"},
        {"gpu-core": "100", "gpu-memory-ratio": "50", "gpu.shared": "1"},
    ),
    (
        {"gpu-memory": "8Gi", "gpu-memory-ratio": "50"},
        {"gpu-memory": "8Gi", "gpu-memory-ratio": "50", "gpu.shared": "1"},
    ),
]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([]) as plane:
        define(plane, cache.asset("koordinator", "crd"))
        start_koord_manager(plane)
        yield plane


def read(pod: Pod) -> Request | str:
    """What the pod requests, or why the product rejects it."""
    try:
        return replace(Koordinator.configured({}, Defaults()).read_request(pod), uid="", notes=())
    except DialectError as error:
        return f"refused: {error.problem}"


def said(request: Request | str) -> str:
    return request if isinstance(request, str) else str(request.containers)


@pytest.mark.parametrize(("written", "expected"), ROWS, ids=[str(row[0]) for row in ROWS])
def test_a_pod_asks_for_the_same_before_and_after_the_webhook(
    plane: ControlPlane, written: dict[str, str], expected: dict[str, str]
) -> None:
    limits = {f"{PREFIX}{name}": amount for name, amount in written.items()}
    container = {"name": "main", "image": "localhost/none", "resources": {"limits": limits}}
    spec = {"schedulerName": "no-scheduler", "containers": [container]}
    authors = {"metadata": {"generateName": "guide-", "namespace": "default"}, "spec": spec}

    stored = plane.api.create(PODS, authors)

    resources = stored["spec"]["containers"][0]["resources"]
    wanted = {f"{PREFIX}{name}": amount for name, amount in expected.items()}
    assert resources == {"limits": wanted, "requests": wanted}
    authors["metadata"] = stored["metadata"]
    before, after = (read(msgspec.convert(pod, Pod)) for pod in (authors, stored))
    print(f"\n{written} -> {expected}: {said(before)}")
    assert type(before) is type(after)
    if not isinstance(before, str):
        assert before == after


def test_init_containers_are_left_as_they_were_written(plane: ControlPlane) -> None:
    limits = {f"{PREFIX}gpu": "50"}
    container = {"name": "main", "image": "localhost/none", "resources": {"limits": limits}}
    spec = {"schedulerName": "no-scheduler", "initContainers": [container | {"name": "init"}]}
    spec["containers"] = [container]

    stored = plane.api.create(PODS, {"metadata": {"generateName": "init-"}, "spec": spec})

    assert stored["spec"]["initContainers"][0]["resources"]["limits"] == limits
    assert f"{PREFIX}gpu" not in stored["spec"]["containers"][0]["resources"]["limits"]


def test_koord_manager_sums_up_a_nodes_cards_as_the_harness_does(plane: ControlPlane) -> None:
    first, *others = gpus("summed", 8)
    saying = koordinator([replace(first, healthy=False), *others])

    device = described("summed", saying).device

    # Sums and labels are for koord-manager to write.
    add_inventory(plane.api, [Described(fake_node("summed"), device)])

    seconds = within(60, lambda: sums(plane, "summed") == amounts(saying.resources))
    print(f"\nafter {seconds:.1f} s the node has {sums(plane, 'summed')}")
    assert f"{PREFIX}gpu.shared" not in sums(plane, "summed")
    labels = plane.api.get("/api/v1/nodes/summed")["metadata"]["labels"]
    assert labels.items() >= saying.labels.items()
    print("processor seconds", processor_seconds(plane.run))


def test_the_stock_scheduler_places_no_pod_that_the_stock_webhook_has_changed(
    plane: ControlPlane,
) -> None:
    add_inventory(plane.api, [described("stock", koordinator(gpus("stock", 8)))])
    within(60, lambda: bool(sums(plane, "stock")))
    scheduler = {"profiles": [profile("koord", device_share=True)]}
    limits = {f"{PREFIX}gpu": "50"}

    with turn(lambda: start_koord_scheduler_alone(plane, scheduler), plane):
        plane.api.create(PODS, pod("half", "koord", limits))
        within(60, lambda: bool(events(plane.api, "half")))

    print(f"\n{events(plane.api, 'half')}")
    assert "Insufficient koordinator.sh/gpu.shared" in str(events(plane.api, "half"))


def test_with_the_gate_they_are_placed_but_for_two_cards_in_bytes() -> None:
    with cluster([]) as plane:
        define(plane, cache.asset("koordinator", "crd"))
        start_koord_manager(plane, gates="EnableSyncGPUSharedResource=true")
        saying = koordinator(gpus("gated", 8), with_shared=True)
        add_inventory(plane.api, [Described(fake_node("gated"), described("gated", saying).device)])
        within(60, lambda: sums(plane, "gated") == amounts(saying.resources))
        # Not LoadAwareScheduling: there is no koordlet that would measure the node.
        scheduler = profile("koord", device_share=True)
        scheduler["plugins"]["filter"]["enabled"].remove({"name": "LoadAwareScheduling"})
        two = {f"{PREFIX}gpu-core": "200", f"{PREFIX}gpu-memory": "64Gi"}

        start_koord_scheduler_alone(plane, {"profiles": [scheduler]})
        plane.api.create(PODS, pod("half", "koord", {f"{PREFIX}gpu": "50"}))
        plane.api.create(PODS, pod("stated", "koord", two | {f"{PREFIX}gpu.shared": "2"}))
        plane.api.create(PODS, pod("two", "koord", two))
        placed = ("half", "stated")
        within(60, lambda: all(node_of(plane.api, name) for name in placed))
        within(60, lambda: bool(events(plane.api, "two")))

        for name in placed:
            annotations = plane.api.get(f"{PODS}/{name}")["metadata"]["annotations"]
            print(f"\n{name}: {annotations[ALLOCATED]}")
        print(f"two: {events(plane.api, 'two')}")
        assert node_of(plane.api, "two") == ""


def sums(plane: ControlPlane, name: str) -> dict[str, int]:
    """A node's allocatable GPU resources."""
    return amounts(plane.api.get(f"/api/v1/nodes/{name}")["status"]["allocatable"])


def amounts(resources: Mapping[str, str]) -> dict[str, int]:
    """Koordinator's resources among others, as numbers: 1k is 1000."""
    return {key: parse_int(text) for key, text in resources.items() if key.startswith(PREFIX)}

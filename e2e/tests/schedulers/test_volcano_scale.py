"""How much stock vc-scheduler sends to its extender as the cluster grows."""

import statistics
from collections.abc import Iterator
from functools import partial

import pytest

from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import PODS, clear, cluster, node_of, pod, turn
from e2e.harness.doubles.recorder import Call, Recorder, recorder
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_volcano_controllers, start_volcano_scheduler
from e2e.harness.schedulers.volcano import (
    GROUPS,
    MEMORY,
    NUMBER,
    agreeing,
    configuration,
    wait_for_cache,
)

pytestmark = pytest.mark.local

SHARE = {"cpu": "1", NUMBER: "1", MEMORY: "4000"}
SIZES = (10, 100, 1000)
# A node that the controllers have not seen yet is tainted.
ANY = [{"operator": "Exists"}]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([]) as plane:
        start_volcano_controllers(plane)
        yield plane


def grow(plane: ControlPlane, size: int) -> None:
    """Grow to ``size`` nodes, ready from the start: controllers see a thousand in a minute."""
    there = {node["metadata"]["name"] for node in plane.api.get("/api/v1/nodes")["items"]}
    made = []
    for name in sorted({f"node-{number}" for number in range(size)} - there):
        node = fake_node(name, {NUMBER: "10", MEMORY: "8000"})
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        made.append(node)
    create_all(plane.api, "/api/v1/nodes", made)


def first_session(calls: list[Call]) -> list[Call]:
    """The predicate calls until a node is asked about for the second time."""
    seen: set[str] = set()
    for number, call in enumerate(calls):
        node = call.json()["node"]["Name"]
        if node in seen:
            return calls[:number]
        seen.add(node)
    return calls


@pytest.mark.timeout(300)
def test_calls_and_bytes_for_one_pod_at_10_100_and_1000_nodes(plane: ControlPlane) -> None:
    with recorder() as extender:
        for size in SIZES:
            grow(plane, size)
            measure(plane, extender, size)


def measure(plane: ControlPlane, extender: Recorder, size: int) -> None:
    """Place a pod that fits everywhere, then one that fits nowhere."""
    extender.answers = agreeing()
    extender.calls.clear()
    text = configuration(extender)
    with turn(partial(start_volcano_scheduler, plane, text, verbosity=3), plane) as process:
        wait_for_cache(process, size)
        plane.api.create(PODS, pod("fits", "volcano", SHARE, tolerations=ANY))
        within(60, lambda: bool(node_of(plane.api, "fits")))
        report("fits everywhere", size, extender.calls)
        fitting = len(extender.of("predicate"))

        extender.answers["predicate"] = lambda _: {"status": "no card fits", "code": 2}
        extender.calls.clear()
        plane.api.create(PODS, pod("not", "volcano", SHARE, tolerations=ANY))
        within(60, lambda: len(extender.of("predicate")) >= 2 * size)
        refused = first_session(extender.of("predicate"))
        report("fits nowhere, in each session", size, refused)
    clear(plane.api, GROUPS)

    assert len(refused) == size
    # Beyond 100 nodes it looks for enough of them, not for all: 50 % less 1 % for each 125 nodes.
    assert fitting >= min(size, 100, 50 * size // 100)
    assert fitting <= size


def report(what: str, size: int, calls: list[Call]) -> None:
    """Print calls, bytes and seconds by verb."""
    for verb in sorted({call.verb for call in calls}):
        bodies = [len(call.body) for call in calls if call.verb == verb]
        times = [call.at for call in calls if call.verb == verb]
        print(
            f"{size} nodes, {what}: {len(bodies)} {verb}, {sum(bodies)} bytes,"
            f" median {statistics.median(bodies):.0f}, in {max(times) - min(times):.2f} s"
        )

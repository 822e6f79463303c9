"""What stock vc-scheduler sends to its ``extender`` plugin, and what it makes of the answers."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import (
    PODS,
    add_priorities,
    clear,
    cluster,
    events,
    node_of,
    pod,
    turn,
)
from e2e.harness.doubles.captures import compare
from e2e.harness.doubles.recorder import Call, Recorder, recorder
from e2e.harness.processes.process import Process
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.configured import CONFIGS, configured
from e2e.harness.schedulers.schedulers import start_volcano_controllers, start_volcano_scheduler
from e2e.harness.schedulers.volcano import (
    GROUPS,
    MEMORY,
    NUMBER,
    add_group,
    add_queue,
    agreeing,
    configuration,
    story,
    wait_for_cache,
)
from e2e.testbed.versions import GoComponent, components

pytestmark = pytest.mark.local

PLAIN = "nvidia.com/gpu"
SHARE = {"cpu": "1", NUMBER: "1", MEMORY: "4000"}
WHOLE = {"cpu": "1", NUMBER: "1", MEMORY: "8000"}
NODES = ("gpu-0", "gpu-1", "gpu-2")
GROUP, PREEMPTABLE = "scheduling.k8s.io/group-name", "volcano.sh/preemptable"
RESOURCES = {NUMBER: "10", MEMORY: "8000"}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([fake_node(name, RESOURCES) for name in NODES]) as plane:
        start_volcano_controllers(plane)
        add_priorities(plane.api)
        yield plane


@pytest.fixture
def extender(plane: ControlPlane) -> Iterator[Recorder]:
    with recorder() as this:
        this.answers = agreeing()
        yield this
    clear(plane.api, GROUPS)


@contextmanager
def scheduler(
    plane: ControlPlane, extender: Recorder, *arguments: str, **more: Any
) -> Iterator[Process]:
    """vc-scheduler with this extender, which knows all nodes."""
    text = configuration(extender, *arguments, **more)
    with turn(partial(start_volcano_scheduler, plane, text, verbosity=3), plane) as process:
        wait_for_cache(process, len(NODES))
        yield process


def add(
    plane: ControlPlane,
    name: str,
    resources: dict[str, str],
    priority: str = "",
    **annotations: str,
) -> None:
    body = pod(name, "volcano", resources, priority=priority)
    body["metadata"]["annotations"] = annotations
    plane.api.create(PODS, body)


def has_node(plane: ControlPlane, *names: str) -> bool:
    return all(node_of(plane.api, name) for name in names)


def is_running(plane: ControlPlane, *names: str) -> bool:
    """Whether they run: a scheduler does not preempt other pods."""
    pods = [plane.api.get(f"{PODS}/{name}") for name in names]
    return all(each["status"].get("phase") == "Running" for each in pods)


def keep(name: str, call: Call, *, rewrite: bool) -> None:
    """Compare a body with its capture."""
    volcano = components()["volcano"]
    assert isinstance(volcano, GoComponent)
    print(f"{call.verb}: {len(call.body)} bytes, {sorted(call.json())}")
    compare(f"volcano/{volcano.version}/{name}", call.json(), rewrite=rewrite)


def test_a_placement_is_predicate_on_each_node_prioritize_and_allocate(
    plane: ControlPlane, extender: Recorder, rewrite_golden: bool
) -> None:
    with scheduler(plane, extender):
        add(plane, "plain", SHARE, author="wrote")
        within(30, partial(has_node, plane, "plain"))
        time.sleep(1.5)

    print(story(extender.calls))
    assert extender.verbs() == ["predicate"] * 3 + ["prioritize", "allocate"]
    for verb in ("predicate", "prioritize", "allocate"):
        keep(verb, extender.of(verb)[0], rewrite=rewrite_golden)
    task = extender.of("allocate")[0].json()["task"]
    assert (task["Status"], task["NodeName"]) == (2, node_of(plane.api, "plain"))


def test_the_pods_of_a_node_travel_with_every_predicate(
    plane: ControlPlane, extender: Recorder, rewrite_golden: bool
) -> None:
    with scheduler(plane, extender):
        add(plane, "first", WHOLE)
        within(30, partial(is_running, plane, "first"))
        extender.calls.clear()
        add(plane, "second", SHARE)
        within(30, partial(has_node, plane, "second"))

    nodes = {call.json()["node"]["Name"]: call for call in extender.of("predicate")}
    full = node_of(plane.api, "first")
    print("asked about", sorted(nodes), "the full one is", full)
    # A node whose sum does not suffice is refused before the extender is asked.
    assert full not in nodes
    with_pod = [call for call in extender.of("prioritize") if call.json()["nodes"]]
    assert with_pod
    extender.calls.clear()
    with scheduler(plane, extender):
        add(plane, "third", {"cpu": "1", NUMBER: "1"})
        within(30, partial(has_node, plane, "third"))
    bodies = {call.json()["node"]["Name"]: call for call in extender.of("predicate")}
    tasks = bodies[full].json()["node"]["Tasks"]
    print("tasks on the node", list(tasks))
    assert list(tasks) == ["default/first"]
    keep("predicate-node-with-pod", bodies[full], rewrite=rewrite_golden)


def test_a_gang_that_does_not_fit_is_allocated_and_deallocated_in_every_session(
    plane: ControlPlane, extender: Recorder, rewrite_golden: bool
) -> None:
    def answer(_: Call) -> Any:
        """One card for two pods."""
        held = [call.verb for call in list(extender.calls) if call.verb.endswith("allocate")]
        is_taken = held[-1:] == ["allocate"]
        return {"status": "no card free" if is_taken else "", "code": 2}

    extender.answers["predicate"] = answer
    add_group(plane.api, "gang", 2)
    for number in range(2):
        add(plane, f"gang-{number}", SHARE, **{GROUP: "gang"})

    with scheduler(plane, extender):
        within(30, lambda: len(extender.of("deallocate")) >= 2)

    seen = [(call.at, call.json()["task"]) for call in extender.of("deallocate")]
    print(story(extender.calls))
    print(
        f"next deallocate after {seen[1][0] - seen[0][0]:.2f} s, of node {seen[0][1]['NodeName']!r}"
    )
    keep("deallocate", extender.of("deallocate")[0], rewrite=rewrite_golden)
    assert seen[0][1]["Status"] == 1
    assert seen[0][1]["NodeName"] in NODES
    assert not has_node(plane, "gang-0")


def test_an_error_in_allocate_keeps_the_pod_pending_and_is_undone_by_deallocate(
    plane: ControlPlane, extender: Recorder
) -> None:
    extender.answers["allocate"] = lambda _: {"errorMessage": "card GPU-1 is taken"}

    with scheduler(plane, extender):
        add(plane, "refused", SHARE)
        within(30, lambda: len(extender.of("allocate")) >= 2)
        bound = has_node(plane, "refused")
        extender.answers["allocate"] = agreeing()["allocate"]
        seconds = within(30, partial(has_node, plane, "refused"))
        said = [*events(plane.api, "refused"), *conditions(plane, "refused")]

    first, second = extender.of("allocate")[:2]
    print(story(extender.calls))
    print(f"again after {second.at - first.at:.2f} s; bound {seconds:.2f} s after the first yes")
    print("said about the pod", said)
    assert not bound
    assert not any("card GPU-1 is taken" in line for line in said)


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_reason_of_a_refused_predicate_is_in_the_conditions_of_the_pod(
    plane: ControlPlane, extender: Recorder, code: int
) -> None:
    extender.answers["predicate"] = lambda _: {"status": "no card fits", "code": code}

    with scheduler(plane, extender, "enqueue, allocate"):
        add(plane, f"refused-{code}", SHARE)
        within(30, lambda: len(extender.calls) >= 6)
        within(10, lambda: "no card fits" in str(conditions(plane, f"refused-{code}")))
        said = conditions(plane, f"refused-{code}")

    times = [call.at for call in extender.calls]
    print(f"code {code}: {story(extender.calls)}, session after {times[3] - times[0]:.2f} s")
    print("conditions", said)
    assert set(extender.verbs()) == {"predicate"}


@pytest.mark.parametrize(("code", "asked"), [(1, False), (2, True), (3, False)])
def test_only_code_2_leaves_a_node_to_preemption(
    plane: ControlPlane, extender: Recorder, code: int, asked: bool
) -> None:
    with scheduler(plane, extender, "allocate, preempt", tier=0):
        run_victims(plane)
        extender.calls.clear()
        extender.answers["predicate"] = lambda _: {"status": "no card fits", "code": code}
        extender.answers["preemptable"] = lambda _: {"status": -1, "victims": []}
        add(plane, "wanted", SHARE, "high")
        within(30, lambda: len(extender.of("predicate")) >= 3)
        time.sleep(1.5)

    prioritized = {len(call.json()["nodes"] or ()) for call in extender.of("prioritize")}
    print(f"code {code}: {story(extender.calls)}, prioritize for {prioritized} nodes")
    assert bool(extender.of("preemptable")) == asked


@pytest.mark.parametrize(("tier", "asked"), [(0, True), (1, False)], ids=["first", "second"])
def test_preemptable_is_asked_in_the_first_tier_only(
    plane: ControlPlane, extender: Recorder, tier: int, asked: bool, rewrite_golden: bool
) -> None:
    with scheduler(plane, extender, "allocate, preempt", tier=tier):
        victims = run_victims(plane)
        extender.calls.clear()
        add(plane, "wanted", SHARE, "high")
        within(40, partial(has_node, plane, "wanted"))

    left = {each["metadata"]["name"] for each in plane.api.get(PODS)["items"]}
    print(f"tier {tier + 1}: {story(extender.calls)}; left {sorted(left)}")
    assert bool(extender.of("preemptable")) == asked
    assert len(left.intersection(victims)) == len(victims) - 1
    if asked:
        keep("preemptable", extender.of("preemptable")[0], rewrite=rewrite_golden)


def test_no_pod_is_evicted_where_the_sum_suffices_and_only_the_cards_do_not(
    plane: ControlPlane, extender: Recorder
) -> None:
    with scheduler(plane, extender, "allocate, preempt", tier=0):
        victims = run_victims(plane, SHARE)
        extender.calls.clear()
        extender.answers["predicate"] = lambda _: {"status": "no card fits", "code": 2}
        add(plane, "wanted", SHARE, "high")
        within(30, lambda: len(extender.of("predicate")) >= 3)
        time.sleep(2.5)

    left = {each["metadata"]["name"] for each in plane.api.get(PODS)["items"]}
    print(f"{story(extender.calls)}; left {sorted(left)}")
    assert left.issuperset(victims)
    assert not has_node(plane, "wanted")


@pytest.mark.parametrize(("tier", "asked"), [(0, True), (1, False)], ids=["first", "second"])
def test_reclaimable_is_asked_in_the_first_tier_only(
    plane: ControlPlane, extender: Recorder, tier: int, asked: bool, rewrite_golden: bool
) -> None:
    for queue in (f"rich-{tier}", f"poor-{tier}"):
        add_queue(plane.api, queue)
        add_group(plane.api, queue, 1, queue)
    with scheduler(plane, extender, "allocate, reclaim", tier=tier):
        victims = run_victims(plane, **{GROUP: f"rich-{tier}"})
        extender.calls.clear()
        add(plane, "wanted", WHOLE, **{GROUP: f"poor-{tier}"})
        within(40, partial(has_node, plane, "wanted"))

    left = {each["metadata"]["name"] for each in plane.api.get(PODS)["items"]}
    print(f"tier {tier + 1}: {story(extender.calls)}; left {sorted(left)}")
    assert bool(extender.of("reclaimable")) == asked
    if asked:
        keep("reclaimable", extender.of("reclaimable")[0], rewrite=rewrite_golden)
    assert len(left.intersection(victims)) == len(victims) - 1


def test_a_pod_without_a_managed_resource_never_reaches_the_extender(
    plane: ControlPlane, extender: Recorder
) -> None:
    with scheduler(plane, extender):
        add(plane, "plain", {"cpu": "1"})
        within(30, partial(has_node, plane, "plain"))

    assert extender.calls == []


@pytest.mark.usefixtures("extender")
def test_plain_pods_are_bound_without_dragoman_where_it_is_not_asked_about_them(
    plane: ControlPlane,
) -> None:
    """To vc-scheduler all replicas are away, where no server listens at the address."""
    file = CONFIGS / "volcano-scheduler-configmap.yaml"
    text = configured("vc-scheduler", file, "--url", "http://127.0.0.1:1", "--no-plain-pods")
    plane.api.create("/api/v1/nodes", fake_node("of-plugin", RESOURCES | {PLAIN: "1"}))

    with turn(partial(start_volcano_scheduler, plane, text), plane):
        add(plane, "share", SHARE)
        add(plane, "plain", {PLAIN: "1"})
        within(60, partial(has_node, plane, "plain"))
    plane.api.delete("/api/v1/nodes/of-plugin")

    assert not has_node(plane, "share")


def test_managed_resources_as_a_string_end_the_scheduler(
    plane: ControlPlane, extender: Recorder
) -> None:
    text = configuration(extender, managed=NUMBER)
    with turn(partial(start_volcano_scheduler, plane, text), plane) as process:
        within(30, lambda: process.popen.poll() is not None)

        (line, *_) = [row for row in process.tail(300).splitlines() if row.startswith("F")]
    print("ended with", process.popen.returncode, line)
    assert "Could not parse argument for key extender.managedResources" in line


def test_a_node_with_devices_of_the_stock_plugin_can_be_sent_too(
    plane: ControlPlane, extender: Recorder, rewrite_golden: bool
) -> None:
    text = json.loads(configuration(extender, plugins=["deviceshare"]))
    for entry in text["tiers"][1]["plugins"]:
        if entry["name"] == "deviceshare":
            entry["arguments"] = {"deviceshare.VGPUEnable": True}
    chosen = {"kubernetes.io/hostname": "gpu-known"}

    with turn(partial(start_volcano_scheduler, plane, json.dumps(text)), plane):
        # vc-scheduler reads a node's devices when it caches the node, and only after its first
        # session has switched the plugin on: a pod that is bound proves that session. Source:
        # volcano v1.14.1 pkg/scheduler/api/node_info.go, setNodeOthersResource.
        add(plane, "before", {"cpu": "1"})
        within(60, partial(has_node, plane, "before"))
        plane.api.create("/api/v1/nodes", fake_node("gpu-known", RESOURCES, device_records()))
        plane.api.create(PODS, pod("known", "volcano", SHARE, nodeSelector=chosen))
        within(30, lambda: bool(extender.of("predicate")))
    plane.api.delete("/api/v1/nodes/gpu-known")

    call = extender.of("predicate")[0]
    others = call.json()["node"]["Others"]
    print("of the stock device plugin", json.dumps(others)[:600])
    keep("predicate-deviceshare", call, rewrite=rewrite_golden)
    assert others


def device_records() -> dict[str, str]:
    """What Volcano's device plugin writes on a node with one card, as of now.

    The request for a handshake is younger than a minute: vc-scheduler answers an older one by a
    client that works only in a pod, and reads no devices.
    """
    return {
        "volcano.sh/node-vgpu-register": "GPU-0,10,8000,NVIDIA-A100,true,hami-core:",
        "volcano.sh/node-vgpu-handshake": time.strftime(
            "Requesting_%Y.%m.%d %H:%M:%S", time.gmtime()
        ),
    }


def run_victims(
    plane: ControlPlane, resources: dict[str, str] = WHOLE, /, **annotations: str
) -> list[str]:
    """A running pod of low priority for each node; by default they fill the nodes."""
    names = [f"low-{node}" for node in NODES]
    for name in names:
        add(plane, name, resources, "low", **{PREEMPTABLE: "true"}, **annotations)
    within(40, partial(is_running, plane, *names))
    return names


def conditions(plane: ControlPlane, name: str) -> list[str]:
    """What a pod's status says about it."""
    rows = plane.api.get(f"{PODS}/{name}")["status"].get("conditions", ())
    return [f"{row['type']} {row.get('reason')}: {row.get('message')}" for row in rows]

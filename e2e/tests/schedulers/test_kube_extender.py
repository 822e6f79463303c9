"""What a current kube-scheduler sends to an extender, preemption first of all."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import (
    PODS,
    add_priorities,
    bind,
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
from e2e.harness.schedulers.kube import agreeing, configuration
from e2e.harness.schedulers.schedulers import start_kube_scheduler

pytestmark = pytest.mark.local

NUMBER, MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
SHARE = {NUMBER: "1", MEMORY: "4000"}
NODES = ("gpu-0", "gpu-1", "gpu-2")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([fake_node(name, {NUMBER: "10", MEMORY: "8000"}) for name in NODES]) as plane:
        add_priorities(plane.api)
        yield plane


@pytest.fixture
def extender(plane: ControlPlane) -> Iterator[Recorder]:
    """An extender that agrees with everything and binds by itself."""
    with recorder() as this:
        this.answers = agreeing(plane.api, {"dragoman.dev/grant": "card-0"})
        yield this
    clear(plane.api)


def nothing_fits(call: Call) -> Any:
    names = call.json()["NodeNames"]
    return {"NodeNames": [], "FailedNodes": dict.fromkeys(names, "no card with 4000 MiB free")}


def scheduler(
    plane: ControlPlane, extender: Recorder, *, cached: bool = True, **more: Any
) -> AbstractContextManager[Process]:
    """kube-scheduler with this extender."""
    profile = {"schedulerName": "kube"}
    managed = (NUMBER, MEMORY)
    config = configuration(profile, extender, managed, nodeCacheCapable=cached, **more)
    return turn(partial(start_kube_scheduler, plane, config), plane)


def add(plane: ControlPlane, name: str, resources: dict[str, str], priority: str = "") -> None:
    plane.api.create(PODS, pod(name, "kube", resources, priority=priority))


def place(plane: ControlPlane, *names: str) -> None:
    """Wait until the pods have a node."""
    within(30, lambda: all(node_of(plane.api, name) for name in names))


def refusals(plane: ControlPlane) -> list[str]:
    """Wait for the first Event of the pod ``wanted``."""
    within(20, lambda: bool(events(plane.api, "wanted")))
    return events(plane.api, "wanted")


def fill(plane: ControlPlane, resources: dict[str, str]) -> list[str]:
    """One pod of low priority on each node, bound without a scheduler."""
    names = [f"low-{node}" for node in NODES]
    for name, node in zip(names, NODES, strict=True):
        add(plane, name, resources, "low")
        bind(plane.api, name, node)
    return names


@pytest.mark.parametrize("cached", [True, False], ids=["names", "nodes"])
def test_filter_prioritize_and_bind(
    plane: ControlPlane, extender: Recorder, cached: bool, rewrite_golden: bool
) -> None:
    with scheduler(plane, extender, cached=cached):
        add(plane, "plain", SHARE)
        place(plane, "plain")

    assert extender.verbs() == ["filter", "prioritize", "bind"]
    form = "names" if cached else "nodes"
    for call in extender.calls:
        print(form, call.verb, len(call.body), "bytes", sorted(call.json()))
        name = call.verb if call.verb == "bind" else f"{call.verb}-{form}"
        compare(f"kube-scheduler/{version(plane)}/{name}", call.json(), rewrite=rewrite_golden)
    asked = extender.of("filter")[0].json()
    assert (asked["Nodes"] is None, asked["NodeNames"] is None) == (cached, not cached)
    granted = plane.api.get(f"{PODS}/plain")["metadata"]["annotations"]
    assert granted["dragoman.dev/grant"] == "card-0"


@pytest.mark.parametrize("cached", [True, False], ids=["uids", "pods"])
def test_preemption_proposes_victims_where_the_scheduler_itself_counts_the_resource(
    plane: ControlPlane, extender: Recorder, cached: bool, rewrite_golden: bool
) -> None:
    victims = fill(plane, {NUMBER: "1", MEMORY: "8000"})

    with scheduler(plane, extender, cached=cached):
        add(plane, "wanted", SHARE, "high")
        place(plane, "wanted")

    verbs, (call, *_) = extender.verbs(), extender.of("preempt")
    asked = call.json()
    form = "uids" if cached else "pods"
    print(form, "calls in order", verbs, "preempt has", len(call.body), "bytes", sorted(asked))
    compare(f"kube-scheduler/{version(plane)}/preempt-{form}", asked, rewrite=rewrite_golden)
    # No filter before it: no node was left for the extender to look at.
    assert verbs[0] == "preempt"
    given, other = asked["NodeNameToMetaVictims"], asked["NodeNameToVictims"]
    assert (given if cached else other).keys() == set(NODES)
    assert (other if cached else given) is None
    left = {each["metadata"]["name"] for each in plane.api.get(PODS)["items"]}
    assert len(left.intersection(victims)) == len(victims) - 1


def test_preempt_is_never_called_when_the_extender_alone_refused(
    plane: ControlPlane, extender: Recorder
) -> None:
    fill(plane, {NUMBER: "1", MEMORY: "4000"})
    extender.answers["filter"] = nothing_fits

    with scheduler(plane, extender):
        add(plane, "wanted", SHARE, "high")
        said = refusals(plane)

    print("calls", extender.verbs(), "events", said)
    assert set(extender.verbs()) == {"filter"}
    assert "3 no card with 4000 MiB free" in said[0]
    assert "expected at least one victim pod" in said[0]


def test_nor_when_the_scheduler_is_configured_to_ignore_the_resource(
    plane: ControlPlane, extender: Recorder
) -> None:
    fill(plane, {NUMBER: "1", MEMORY: "8000"})
    extender.answers["filter"] = nothing_fits
    ignored = [{"name": name, "ignoredByScheduler": True} for name in (NUMBER, MEMORY)]

    with scheduler(plane, extender, managedResources=ignored):
        add(plane, "wanted", SHARE, "high")
        said = refusals(plane)

    print("calls", extender.verbs(), "events", said)
    assert set(extender.verbs()) == {"filter"}
    assert "expected at least one victim pod" in said[0]


def test_a_node_without_victims_is_left_out_of_the_proposal(
    plane: ControlPlane, extender: Recorder
) -> None:
    add(plane, "low-gpu-0", {NUMBER: "1", MEMORY: "8000"}, "low")
    add(plane, "low-gpu-1", {NUMBER: "1", MEMORY: "4000"}, "low")
    bind(plane.api, "low-gpu-0", "gpu-0")
    bind(plane.api, "low-gpu-1", "gpu-1")
    extender.answers["filter"] = nothing_fits

    with scheduler(plane, extender):
        add(plane, "wanted", SHARE, "high")
        within(20, lambda: bool(extender.of("preempt")))

    asked = extender.of("preempt")[0].json()["NodeNameToMetaVictims"]
    print("proposed", json.dumps(asked))
    assert asked.keys() == {"gpu-0"}


def test_an_answer_with_an_empty_victim_list_is_an_error(
    plane: ControlPlane, extender: Recorder
) -> None:
    victims = fill(plane, {NUMBER: "1", MEMORY: "8000"})
    extender.answers["preempt"] = lambda _: {"NodeNameToMetaVictims": {"gpu-0": {"Pods": []}}}

    with scheduler(plane, extender):
        add(plane, "wanted", SHARE, "high")
        said = refusals(plane)

    print("calls", extender.verbs(), "events", said)
    assert "expected at least one victim pod" in said[0]
    left = {each["metadata"]["name"] for each in plane.api.get(PODS)["items"]}
    assert left.issuperset(victims)


def test_an_answer_may_name_other_victims_on_the_same_node(
    plane: ControlPlane, extender: Recorder
) -> None:
    fill(plane, {NUMBER: "1", MEMORY: "4000"})
    for node in NODES:
        add(plane, f"other-{node}", {NUMBER: "1", MEMORY: "4000"}, "low")
        bind(plane.api, f"other-{node}", node)
    pods = {each["metadata"]["name"]: each for each in plane.api.get(PODS)["items"]}
    both = [{"UID": pods[name]["metadata"]["uid"]} for name in ("low-gpu-1", "other-gpu-1")]
    extender.answers["preempt"] = lambda _: {"NodeNameToMetaVictims": {"gpu-1": {"Pods": both}}}

    with scheduler(plane, extender):
        add(plane, "wanted", SHARE, "high")
        place(plane, "wanted")

    proposed = extender.of("preempt")[0].json()["NodeNameToMetaVictims"]
    print("proposed", {node: len(row["Pods"]) for node, row in proposed.items()}, "answered 2")
    left = {each["metadata"]["name"] for each in plane.api.get(PODS)["items"]}
    assert {node: len(row["Pods"]) for node, row in proposed.items()} == dict.fromkeys(NODES, 1)
    assert node_of(plane.api, "wanted") == "gpu-1"
    assert not left.intersection({"low-gpu-1", "other-gpu-1"})


def test_an_answer_may_name_a_node_that_was_not_proposed(
    plane: ControlPlane, extender: Recorder
) -> None:
    add(plane, "low-gpu-0", {NUMBER: "1", MEMORY: "8000"}, "low")
    add(plane, "low-gpu-1", {NUMBER: "1", MEMORY: "4000"}, "low")
    bind(plane.api, "low-gpu-0", "gpu-0")
    bind(plane.api, "low-gpu-1", "gpu-1")
    uid = plane.api.get(f"{PODS}/low-gpu-1")["metadata"]["uid"]
    answer = {"gpu-1": {"Pods": [{"UID": uid}]}}
    extender.answers["filter"] = nothing_fits
    extender.answers["preempt"] = lambda _: {"NodeNameToMetaVictims": answer}

    with scheduler(plane, extender):
        add(plane, "wanted", SHARE, "high")
        within(20, lambda: bool(extender.of("preempt")))
        within(20, lambda: not has(plane, "low-gpu-1"))
        nominated = plane.api.get(f"{PODS}/wanted")["status"].get("nominatedNodeName")

    proposed = extender.of("preempt")[0].json()["NodeNameToMetaVictims"]
    print("proposed", sorted(proposed), "answered gpu-1, nominated", nominated)
    assert proposed.keys() == {"gpu-0"}
    assert has(plane, "low-gpu-0")


def has(plane: ControlPlane, name: str) -> bool:
    return any(each["metadata"]["name"] == name for each in plane.api.get(PODS)["items"])


def version(plane: ControlPlane) -> str:
    """kube-scheduler is built with the server, from one module."""
    return str(plane.api.get("/version")["gitVersion"])

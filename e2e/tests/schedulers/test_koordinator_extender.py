"""koord-scheduler calls extenders, with its own device plugin in the profile and without."""

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
from e2e.harness.names import ALLOCATED, CORE, DEVICES, RATIO
from e2e.harness.processes.process import Process
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.koordinator import add_device, profile
from e2e.harness.schedulers.kube import agreeing, configuration
from e2e.harness.schedulers.schedulers import define, start_koord_scheduler_alone
from e2e.testbed import cache
from e2e.testbed.versions import GoComponent, components

pytestmark = pytest.mark.local

NODES = ("gpu-0", "gpu-1")
HALF, WHOLE = {CORE: "50", RATIO: "50"}, {CORE: "100", RATIO: "100"}
GRANT = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}'


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    resources = {CORE: "100", RATIO: "100", "koordinator.sh/gpu-memory": "80Gi"}
    with cluster([fake_node(name, resources) for name in NODES]) as plane:
        define(plane, cache.asset("koordinator", "crd"))
        add_priorities(plane.api)
        yield plane


@pytest.fixture
def extender(plane: ControlPlane) -> Iterator[Recorder]:
    """An extender that agrees with everything and binds by itself, with a result of its own."""

    with recorder() as this:
        this.answers = agreeing(plane.api, {ALLOCATED: GRANT})
        yield this
    clear(plane.api, DEVICES)


def scheduler(
    plane: ControlPlane, extender: Recorder, *, device_share: bool, binds: bool = True
) -> AbstractContextManager[Process]:
    """koord-scheduler with its stock profile and this extender."""
    stock = profile("koord", device_share=device_share)
    bind_verb = "bind" if binds else None
    config = configuration(stock, extender, (CORE, RATIO), bindVerb=bind_verb)
    return turn(partial(start_koord_scheduler_alone, plane, config), plane)


def add(plane: ControlPlane, name: str, resources: dict[str, str], priority: str = "") -> None:
    plane.api.create(PODS, pod(name, "koord", resources, priority=priority))


def keep(name: str, call: Call, *, rewrite: bool) -> None:
    """Compare a body with its capture."""
    koordinator = components()["koordinator"]
    assert isinstance(koordinator, GoComponent)
    print(f"{call.verb}: {len(call.body)} bytes, {sorted(call.json())}")
    compare(f"koordinator/{koordinator.version}/{name}", call.json(), rewrite=rewrite)


def result(plane: ControlPlane, name: str) -> str:
    return str(plane.api.get(f"{PODS}/{name}")["metadata"]["annotations"].get(ALLOCATED))


def test_without_device_share_the_extender_decides_and_binds(
    plane: ControlPlane, extender: Recorder, rewrite_golden: bool
) -> None:
    with scheduler(plane, extender, device_share=False):
        add(plane, "plain", HALF)
        within(30, lambda: bool(node_of(plane.api, "plain")))

    print(extender.verbs(), result(plane, "plain"))
    assert extender.verbs() == ["filter", "prioritize", "bind"]
    for call in extender.calls:
        keep(call.verb, call, rewrite=rewrite_golden)
    assert result(plane, "plain") == GRANT


def test_with_device_share_the_extender_is_asked_about_its_nodes_and_binds_after_it(
    plane: ControlPlane, extender: Recorder
) -> None:
    seen = []
    answer = extender.answers["bind"]

    def look_and_bind(call: Call) -> Any:
        seen.append(result(plane, call.json()["PodName"]))
        return answer(call)

    extender.answers["bind"] = look_and_bind
    add_device(plane.api, "gpu-0", 1)
    add_device(plane.api, "gpu-1", 0)

    with scheduler(plane, extender, device_share=True):
        add(plane, "plain", HALF)
        within(30, lambda: bool(node_of(plane.api, "plain")))

    asked = extender.of("filter")[-1].json()["NodeNames"]
    print(extender.verbs(), "asked about", asked)
    print(
        "on the pod when bind is asked:", seen[0], "and after the Binding:", result(plane, "plain")
    )
    assert asked == ["gpu-0"]
    # The plugin's own choice is already on the pod, by a write of its own, when bind is asked.
    assert json.loads(seen[0])["gpu"][0]["id"] == "GPU-gpu-0-0"
    assert result(plane, "plain") == GRANT


def test_with_device_share_and_no_device_object_the_plugin_stands_aside(
    plane: ControlPlane, extender: Recorder
) -> None:
    with scheduler(plane, extender, device_share=True):
        add(plane, "plain", HALF)
        within(30, lambda: bool(node_of(plane.api, "plain")))

    print(extender.verbs(), extender.of("filter")[0].json()["NodeNames"], result(plane, "plain"))
    assert extender.verbs() == ["filter", "prioritize", "bind"]
    assert result(plane, "plain") == GRANT


def test_with_device_share_and_no_device_object_an_illegal_request_never_reaches_the_extender(
    plane: ControlPlane, extender: Recorder
) -> None:
    with scheduler(plane, extender, device_share=True):
        add(plane, "illegal", {CORE: "50"})
        within(30, lambda: bool(events(plane.api, "illegal")))
        said = events(plane.api, "illegal")

    print(extender.verbs(), said)
    assert extender.verbs() == []


def test_an_extender_without_bind_leaves_the_binding_to_the_scheduler(
    plane: ControlPlane, extender: Recorder
) -> None:
    with scheduler(plane, extender, device_share=False, binds=False):
        add(plane, "plain", HALF)
        within(30, lambda: bool(node_of(plane.api, "plain")))

    assert extender.verbs() == ["filter", "prioritize"]


def test_an_error_in_bind_is_an_event_and_another_try(
    plane: ControlPlane, extender: Recorder
) -> None:
    answer = extender.answers["bind"]
    extender.answers["bind"] = lambda _: {"Error": "card GPU-1 is taken"}

    with scheduler(plane, extender, device_share=False):
        add(plane, "refused", HALF)
        within(30, lambda: len(extender.of("bind")) >= 2)
        extender.answers["bind"] = answer
        within(30, lambda: bool(node_of(plane.api, "refused")))
        within(30, lambda: bool(events(plane.api, "refused")))
        said = events(plane.api, "refused")

    times = [call.at for call in extender.of("bind")]
    print("bind asked after", [round(at - times[0], 2) for at in times], "s; events", said)
    assert any("card GPU-1 is taken" in line for line in said)


def test_preemption_asks_the_extender(
    plane: ControlPlane, extender: Recorder, rewrite_golden: bool
) -> None:
    for name in NODES:
        add(plane, f"low-{name}", WHOLE, "low")
        bind(plane.api, f"low-{name}", name)

    with scheduler(plane, extender, device_share=False):
        add(plane, "wanted", HALF, "high")
        within(30, lambda: bool(node_of(plane.api, "wanted")))

    print(extender.verbs())
    keep("preempt", extender.of("preempt")[0], rewrite=rewrite_golden)
    assert extender.verbs()[0] == "preempt"


def test_preempt_is_never_called_when_the_extender_alone_refused(
    plane: ControlPlane, extender: Recorder
) -> None:
    for name in NODES:
        add(plane, f"low-{name}", HALF, "low")
        bind(plane.api, f"low-{name}", name)
    extender.answers["filter"] = lambda call: {
        "NodeNames": [],
        "FailedNodes": dict.fromkeys(call.json()["NodeNames"], "no card fits"),
    }

    with scheduler(plane, extender, device_share=False):
        add(plane, "wanted", HALF, "high")
        within(30, lambda: bool(events(plane.api, "wanted")))
        said = events(plane.api, "wanted")

    print(extender.verbs(), said[:1])
    assert set(extender.verbs()) == {"filter"}
    assert "expected at least one victim pod" in said[0]

"""What each stock scheduler makes of a binding that a webhook refuses."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import PODS, cluster, events, node_of, pod, turn
from e2e.harness.doubles.captures import compare
from e2e.harness.doubles.recorder import Call, Recorder, recorder
from e2e.harness.doubles.webhook import allow, refuse, webhook
from e2e.harness.names import ALLOCATED, CORE, RATIO
from e2e.harness.processes.process import Process
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.koordinator import add_device, profile
from e2e.harness.schedulers.schedulers import (
    start_koord_scheduler,
    start_kube_scheduler,
    start_volcano,
)
from e2e.harness.schedulers.volcano import agreeing, configuration, story
from e2e.testbed.versions import GoComponent, components

pytestmark = pytest.mark.local

LABEL = "dragoman.dev/e2e-refused"
HALF = {CORE: "50", RATIO: "50"}
GRANT = {"op": "add", "path": "/metadata/annotations/dragoman.dev~1grant", "value": "card-0"}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    resources = {CORE: "100", RATIO: "100", "koordinator.sh/gpu-memory": "80Gi"}
    with cluster([fake_node(f"gpu-{number}", resources) for number in range(2)]) as plane:
        plane.api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {LABEL: ""}}})
        yield plane


@pytest.fixture(scope="module")
def hook(plane: ControlPlane) -> Iterator[Recorder]:
    """A webhook on every binding in the default namespace."""
    with recorder(plane.authority.server("webhook")) as this:
        this.answers["bindings"] = allow
        with webhook(plane, this, "bindings", ["pods/binding"], LABEL):
            yield this


def refused_twice(
    plane: ControlPlane, hook: Recorder, name: str, resources: dict[str, str]
) -> tuple[list[Call], list[str]]:
    """Refuse a pod's binding twice, then allow it; the reviews, and the Events of the pod."""
    hook.calls.clear()

    def answer(call: Call) -> Any:
        if len(hook.calls) <= 2:
            return refuse(call, "card GPU-1 is taken by pod b")
        request = call.json()["request"]["object"]
        if "annotations" in request["metadata"]:
            return allow(call, GRANT)
        return allow(call, {"op": "add", "path": "/metadata/annotations", "value": {}}, GRANT)

    hook.answers["bindings"] = answer
    body = pod(name, name, resources)
    body["metadata"]["annotations"] = {"author": "wrote"}
    plane.api.create(PODS, body)
    within(60, lambda: bool(node_of(plane.api, name)))
    within(10, lambda: any(line.startswith("Scheduled") for line in events(plane.api, name)))
    said, calls = events(plane.api, name), list(hook.calls)
    requests = [call.json()["request"] for call in calls]
    times = [round(call.at - calls[0].at, 2) for call in calls]
    print(f"{name}: binding sent at {times} s to", [row["object"]["target"] for row in requests])
    print("by", requests[0]["userInfo"]["username"], "with", requests[0]["object"]["metadata"])
    print("events", said)
    annotations = plane.api.get(f"{PODS}/{name}")["metadata"]["annotations"]
    print("annotations in the end", annotations)
    assert annotations["dragoman.dev/grant"] == "card-0"
    assert len(calls) == 3
    return calls, said


def keep(component: str, name: str, call: Call, *, rewrite: bool) -> None:
    """Compare a review with its capture."""
    built = components()[component]
    assert isinstance(built, GoComponent)
    folder = "kube-scheduler" if component == "kubernetes" else component
    compare(f"{folder}/{built.version}/{name}", call.json(), rewrite=rewrite)


def kube(plane: ControlPlane) -> AbstractContextManager[Process]:
    profiles = [{"schedulerName": "kube"}]
    return turn(partial(start_kube_scheduler, plane, {"profiles": profiles}), plane)


def koord(plane: ControlPlane) -> AbstractContextManager[Process]:
    profiles = [
        profile("koord", device_share=False),
        profile("koord-devices", device_share=True),
    ]
    return turn(partial(start_koord_scheduler, plane, {"profiles": profiles}), plane)


def volcano(plane: ControlPlane, extender: Recorder) -> AbstractContextManager[Process]:
    return turn(partial(start_volcano, plane, configuration(extender, managed=[])), plane)


def test_kube_scheduler_reports_it_and_tries_again_later(
    plane: ControlPlane, hook: Recorder, rewrite_golden: bool
) -> None:
    with kube(plane):
        calls, said = refused_twice(plane, hook, "kube", {"cpu": "1"})

    keep("kubernetes", "binding-review", calls[0], rewrite=rewrite_golden)
    assert any("card GPU-1 is taken by pod b" in line for line in said)
    assert "annotations" not in calls[0].json()["request"]["object"]["metadata"]


def test_koord_scheduler_reports_it_and_tries_again_later(
    plane: ControlPlane, hook: Recorder, rewrite_golden: bool
) -> None:
    add_devices = [partial(add_device, plane.api, f"gpu-{number}", 1) for number in range(2)]
    with koord(plane):
        calls, said = refused_twice(plane, hook, "koord", {"cpu": "1"})
        keep("koordinator", "binding-review", calls[0], rewrite=rewrite_golden)
        assert any("card GPU-1 is taken by pod b" in line for line in said)

        for each in add_devices:
            each()
        calls, said = refused_twice(plane, hook, "koord-devices", HALF)

    keep("koordinator", "binding-review-deviceshare", calls[0], rewrite=rewrite_golden)
    carried = calls[0].json()["request"]["object"]["metadata"].get("annotations", {})
    print("choice of the device plugin in the Binding:", carried.get(ALLOCATED))
    # It is on the pod by then, written beforehand; the Binding does not carry it.
    assert ALLOCATED not in carried
    assert ALLOCATED in plane.api.get(f"{PODS}/koord-devices")["metadata"]["annotations"]


def test_volcano_reports_it_and_tries_again_in_the_next_session(
    plane: ControlPlane, hook: Recorder, rewrite_golden: bool
) -> None:
    with recorder() as extender:
        extender.answers = agreeing()
        with volcano(plane, extender):
            calls, said = refused_twice(plane, hook, "volcano", {"cpu": "1"})

    print("to its extender", story(extender.calls))
    # Nothing reports the refusal to the extender; the next session allocates again.
    assert len(extender.of("allocate")) == 3
    assert extender.of("deallocate") == []

    keep("volcano", "binding-review", calls[0], rewrite=rewrite_golden)
    assert any("card GPU-1 is taken by pod b" in line for line in said)
    # Volcano sends all annotations that it knows of the pod.
    assert calls[0].json()["request"]["object"]["metadata"]["annotations"]["author"] == "wrote"

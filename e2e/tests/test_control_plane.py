"""The ground under the commit point: what a Binding's metadata does to the pod."""

import time
from typing import Any

import pytest

from e2e.harness.api import Api, ApiError
from e2e.harness.control_plane import ControlPlane, start_control_plane
from e2e.harness.run import run
from e2e.testbed.cache import NotBuiltError

PODS = "/api/v1/namespaces/default/pods"
GRANT = "dragoman.dev/e2e-grant"


def pod(name: str, **annotations: str) -> dict[str, Any]:
    container = {"name": "main", "image": "localhost/none"}
    return {
        "metadata": {"name": name, "annotations": annotations, "labels": {"app": name}},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"capacity": {"cpu": "4", "pods": "110"}}}


def binding(name: str, target: str, **metadata: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": target},
    }


def changes(api: Api, name: str, version: str) -> list[dict[str, Any]]:
    """Every state of a pod after a resource version, as a watch shows them."""
    path = f"{PODS}?fieldSelector=metadata.name={name}"
    return [event["object"] for event in api.watch(path, version, seconds=2)]


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Api:
    control_plane.api.create("/api/v1/nodes", node("node-of-bindings"))
    return control_plane.api


def test_the_server_reports_its_real_version(api: Api) -> None:
    version = api.get("/version")

    print("server", version["gitVersion"], "emulates", version.get("emulationMajor"))
    assert version["gitVersion"].startswith("v1.")
    assert not version["gitVersion"].startswith("v0.0.0")


@pytest.mark.parametrize("labels", [{}, {"dragoman.dev/e2e-label": "l"}], ids=["bare", "labelled"])
def test_a_bindings_annotations_reach_the_pod_in_the_same_write(
    api: Api, labels: dict[str, str]
) -> None:
    name = f"bound-{len(labels)}"
    before = api.create(PODS, pod(name, kept="yes"))
    metadata = {"annotations": {GRANT: "card-0"}} | ({"labels": labels} if labels else {})

    api.create(f"{PODS}/{name}/binding", binding(name, "node-of-bindings", **metadata))

    states = changes(api, name, before["metadata"]["resourceVersion"])
    seen = [(s["spec"].get("nodeName"), s["metadata"]["annotations"].get(GRANT)) for s in states]
    print("states after the binding", seen, "labels", states[-1]["metadata"]["labels"])
    assert seen[0] == ("node-of-bindings", "card-0")
    assert states[-1]["metadata"]["annotations"]["kept"] == "yes"


def test_a_bindings_annotation_replaces_one_that_the_author_wrote(api: Api) -> None:
    api.create(PODS, pod("forged") | {"metadata": {"name": "forged", "annotations": {GRANT: "x"}}})

    metadata = {"annotations": {GRANT: "card-1"}}
    api.create(f"{PODS}/forged/binding", binding("forged", "node-of-bindings", **metadata))

    assert api.get(f"{PODS}/forged")["metadata"]["annotations"][GRANT] == "card-1"


def test_a_second_binding_is_refused_and_changes_nothing(api: Api) -> None:
    api.create(PODS, pod("twice"))
    first = binding("twice", "node-of-bindings", annotations={GRANT: "first"})
    api.create(f"{PODS}/twice/binding", first)

    second = binding("twice", "node-of-bindings", annotations={GRANT: "second"})
    with pytest.raises(ApiError) as refusal:
        api.create(f"{PODS}/twice/binding", second)

    print("second binding:", refusal.value)
    assert refusal.value.status == 409
    assert api.get(f"{PODS}/twice")["metadata"]["annotations"][GRANT] == "first"


def test_a_binding_for_a_pods_namesake_is_refused(api: Api) -> None:
    api.create(PODS, pod("namesake"))
    other = binding("namesake", "node-of-bindings", annotations={GRANT: "card-0"})
    other["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"

    with pytest.raises(ApiError) as refusal:
        api.create(f"{PODS}/namesake/binding", other)

    print("binding with another uid:", refusal.value)
    assert refusal.value.status == 409
    assert GRANT not in api.get(f"{PODS}/namesake")["metadata"].get("annotations", {})


def test_a_control_plane_stops_and_leaves_nothing_behind() -> None:
    started = time.monotonic()
    with run() as this:
        try:
            start_control_plane(this)
        except NotBuiltError as missing:
            pytest.skip(str(missing))
        print(f"control plane ready after {time.monotonic() - started:.1f} s")
        identities = [process.identity for process in this.processes]

    assert not this.folder.exists()
    assert len(identities) == 3
    assert not any(identity.is_alive() for identity in identities)

"""What a Binding's metadata does to the pod: the ledger's commit relies on it."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.control_plane import start_control_plane
from e2e.harness.cluster.namespaces import bare_node
from e2e.harness.cluster.target import Target
from e2e.harness.processes.run import run

NODE = "dragoman-e2e-bindings"
GRANT = "dragoman.dev/e2e-grant"


def pod(name: str, **annotations: str) -> dict[str, Any]:
    container = {"name": "main", "image": "localhost/none"}
    return {
        "metadata": {"name": name, "annotations": annotations, "labels": {"app": name}},
        "spec": {"schedulerName": "no-scheduler", "containers": [container]},
    }


def binding(name: str, **metadata: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }


def changes(api: Api, pods: str, name: str, version: str) -> list[dict[str, Any]]:
    """Every state of a pod after a resource version, as a watch shows them."""
    path = f"{pods}?fieldSelector=metadata.name={name}"
    return [event["object"] for event in api.watch(path, version, seconds=2)]


@pytest.fixture(scope="module")
def api(target: Target) -> Api:
    return target.api


@pytest.fixture(scope="module")
def pods(api: Api, home: str) -> Iterator[str]:
    with bare_node(api, NODE):
        yield f"{home}/pods"


def test_the_server_reports_its_real_version(api: Api) -> None:
    version = api.get("/version")

    print("server", version["gitVersion"], "emulates", version.get("emulationMajor"))
    assert version["gitVersion"].startswith("v1.")
    assert not version["gitVersion"].startswith("v0.0.0")


@pytest.mark.parametrize("labels", [{}, {"dragoman.dev/e2e-label": "l"}], ids=["bare", "labelled"])
def test_a_bindings_annotations_reach_the_pod_in_the_same_write(
    api: Api, pods: str, labels: dict[str, str]
) -> None:
    name = f"bound-{len(labels)}"
    before = api.create(pods, pod(name, kept="yes"))
    metadata = {"annotations": {GRANT: "card-0"}} | ({"labels": labels} if labels else {})

    api.create(f"{pods}/{name}/binding", binding(name, **metadata))

    states = changes(api, pods, name, before["metadata"]["resourceVersion"])
    seen = [(s["spec"].get("nodeName"), s["metadata"]["annotations"].get(GRANT)) for s in states]
    print("states after the binding", seen, "labels", states[-1]["metadata"]["labels"])
    assert seen[0] == (NODE, "card-0")
    assert states[-1]["metadata"]["annotations"]["kept"] == "yes"


def test_a_bindings_annotation_replaces_one_that_the_author_wrote(api: Api, pods: str) -> None:
    api.create(pods, pod("forged") | {"metadata": {"name": "forged", "annotations": {GRANT: "x"}}})

    metadata = {"annotations": {GRANT: "card-1"}}
    api.create(f"{pods}/forged/binding", binding("forged", **metadata))

    assert api.get(f"{pods}/forged")["metadata"]["annotations"][GRANT] == "card-1"


def test_a_second_binding_is_refused_and_changes_nothing(api: Api, pods: str) -> None:
    api.create(pods, pod("twice"))
    first = binding("twice", annotations={GRANT: "first"})
    api.create(f"{pods}/twice/binding", first)

    second = binding("twice", annotations={GRANT: "second"})
    with pytest.raises(ApiError) as refusal:
        api.create(f"{pods}/twice/binding", second)

    print("second binding:", refusal.value)
    assert refusal.value.status == 409
    assert api.get(f"{pods}/twice")["metadata"]["annotations"][GRANT] == "first"


def test_a_binding_for_a_pods_namesake_is_refused(api: Api, pods: str) -> None:
    api.create(pods, pod("namesake"))
    other = binding("namesake", annotations={GRANT: "card-0"})
    other["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"

    with pytest.raises(ApiError) as refusal:
        api.create(f"{pods}/namesake/binding", other)

    print("binding with another uid:", refusal.value)
    assert refusal.value.status == 409
    assert GRANT not in api.get(f"{pods}/namesake")["metadata"].get("annotations", {})


@pytest.mark.local
def test_a_control_plane_stops_and_leaves_nothing_behind() -> None:
    started = time.monotonic()
    with run() as this:
        start_control_plane(this)
        print(f"control plane ready after {time.monotonic() - started:.1f} s")
        identities = [process.identity for process in this.processes]

    assert not this.folder.exists()
    assert len(identities) == 3
    assert not any(identity.is_alive() for identity in identities)

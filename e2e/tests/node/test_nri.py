"""What an NRI plugin is shown of a pod that was bound with annotations."""

import os
from collections.abc import Iterator

import pytest

from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.ready_cluster import PODS, bind
from e2e.harness.node.containerd import start_containerd
from e2e.harness.node.image import NAME
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.machine import start_machine
from e2e.harness.node.nri import start_witness
from e2e.harness.processes.run import run
from e2e.harness.processes.usage import processor_seconds
from e2e.harness.processes.waiting import within

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root"),
]

GRANT = "dragoman.dev/e2e-grant"
LATE = {"metadata": {"annotations": {"late": "comes"}, "labels": {"late": "comes"}}}


def short_lived(name: str) -> dict[str, object]:
    """A pod whose container ends after some seconds and is started again."""
    container = {
        "name": "main",
        "image": NAME,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", "sleep 4"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    }
    spec = {
        "schedulerName": "no-scheduler",
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    metadata = {"name": name, "annotations": {"author": "wrote"}, "labels": {"app": "e2e"}}
    return {"metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with run() as this:
        yield start_control_plane(this)


@pytest.mark.parametrize("component", ["containerd-1", "containerd-2", "containerd"])
def test_a_plugin_is_shown_the_annotations_of_the_binding(
    plane: ControlPlane, component: str
) -> None:
    name = f"on-{component}"
    with run() as this:
        runtime = start_containerd(start_machine(this), component)
        first = start_witness(runtime, "first")
        start_kubelet(plane, runtime, component)
        uid = plane.api.create(PODS, short_lived(name))["metadata"]["uid"]
        bind(plane.api, name, component, {GRANT: "card-0"})
        within(60, lambda: bool(first.events("CreateContainer")))
        plane.api.merge(f"{PODS}/{name}", LATE)
        within(60, lambda: len(first.events("CreateContainer")) > 1)
        later = start_witness(runtime, "later")

        (sandbox,) = first.events("RunPodSandbox")
        created, again = first.events("CreateContainer")
        (known,) = [event for event in later.events("Synchronize") if "pod" in event]

        print(f"\n{component}: the sandbox's labels {sandbox['pod']['labels']}")
        print(f" annotations {sandbox['pod']['annotations']}")
        print(f" the container's labels {created['container']['labels']}")
        print(f" annotations {created['container']['annotations']}")
        print(f" processor seconds {processor_seconds(this) | processor_seconds(plane.run)}")
        for event in (sandbox, created, again, known):
            pod = event["pod"]
            assert (pod["uid"], pod["namespace"], pod["name"]) == (uid, "default", name)
            assert pod["annotations"][GRANT] == "card-0"
            assert pod["annotations"]["author"] == "wrote"
            assert pod["labels"]["app"] == "e2e"
            assert "late" not in pod["annotations"] | pod["labels"]
        container = created["container"]
        assert container["name"] == "main"
        assert container["pod_sandbox_id"] == sandbox["pod"]["id"]
        assert "NVIDIA_VISIBLE_DEVICES=void" in container["env"]
        assert GRANT not in container["annotations"]

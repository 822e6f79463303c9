"""A real kubelet runs the pod of the chart's DaemonSet, and puts HAMi-core on the node before.

The agent's own image is not on the test bed: a shell in its place looks at what it is given.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.harness.cluster import chart
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.names import NAMESPACE
from e2e.harness.node.containerd import start_containerd
from e2e.harness.node.image import NAME
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.machine import start_machine
from e2e.harness.processes.run import Run, run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import install

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root"),
]

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"

CAP_DAC_OVERRIDE = 1
"""The bit in CapEff (linux/capability.h): the agent deletes folders of other users."""

LOOK = """
test -S /var/run/nri/nri.sock && echo socket=yes
test -c /dev/null && echo devices=yes
test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo token=yes
test -s /etc/dragoman/node.yaml && echo settings=yes
for place in /dev/x /x /etc/dragoman/x; do (echo > $place) 2>/dev/null && echo writable=$place; done
echo > /usr/local/vgpu/containers/x && echo > /tmp/vgpulock/x && echo folders=yes
echo node=$NODE_NAME
echo preload=$(cat /usr/local/vgpu/ld.so.preload)
while read name value; do echo $name$value; done < /proc/self/status
exec sleep 1000
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A real node.

    Attributes:
        plane: its cluster.
        folder: of the host, for HAMi-core.
    """

    plane: ControlPlane
    folder: Path

    @property
    def run(self) -> Run:
        """The run whose logs stand under a failure."""
        return self.plane.run


@pytest.fixture
def node() -> Iterator[Node]:
    with run() as this:
        runtime = start_containerd(start_machine(this), "containerd-2")
        plane = start_control_plane(this)
        install(plane)
        start_kubelet(plane, runtime, "real")
        yield Node(plane, this.folder / "host")


def the_pod(node: Node) -> Object:
    """The DaemonSet's, on this node."""
    image = {"repository": NAME.rpartition(":")[0], "tag": NAME.rpartition(":")[2]}
    hami = {
        "install": True,
        "image": image,
        "hostFolder": str(node.folder / "vgpu"),
        "imagePullPolicy": "Never",
    }
    values = {"image": image | {"pullPolicy": "Never"}, "hamiCore": hami}
    objects = chart.render({"node": values})
    kinds = {each["kind"]: each for each in objects if each["metadata"]["name"] == "dragoman-node"}
    chart.apply(node.plane, [kinds["ConfigMap"]])
    spec: Object = kinds["DaemonSet"]["spec"]["template"]["spec"]
    spec |= {"nodeName": "real", "hostNetwork": True, "terminationGracePeriodSeconds": 0}
    del spec["priorityClassName"]
    places = {"vgpulock": "vgpulock", "dev": "dev"}
    for volume in spec["volumes"]:
        if volume["name"] in places:
            volume["hostPath"]["path"] = str(node.folder / places[volume["name"]])
    (first,), (agent,) = spec["initContainers"], spec["containers"]
    # The image has no library: another file in its place, made known by the name that is copied.
    first["env"] = [{"name": "LIBRARY", "value": "/etc/dragoman/node.yaml"}]
    first["volumeMounts"].append(
        {"name": "settings", "mountPath": "/etc/dragoman", "readOnly": True}
    )
    agent["command"], agent["args"] = ["/bin/sh", "-c", LOOK], []
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        del agent[probe]
    return {"metadata": {"name": "agent", "namespace": NAMESPACE}, "spec": spec}


def logged(plane: ControlPlane) -> list[str]:
    files = Path(plane.run.folder).glob(f"kubelet-real/logs/{NAMESPACE}_agent_*/agent/*.log")
    return [line.split(" ", 3)[-1] for file in files for line in file.read_text().splitlines()]


def test_the_daemonsets_pod_has_what_the_agent_needs_and_no_more(node: Node) -> None:
    # The machine of the test has no /dev/mqueue, which a runtime wants and systemd makes.
    for name in ("mqueue", "pts", "shm"):
        (node.folder / "dev" / name).mkdir(parents=True)
    os.mknod(node.folder / "dev" / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    library = node.folder / "vgpu" / "libvgpu.so"
    library.parent.mkdir()
    library.write_text("old\n")
    with library.open() as held:
        node.plane.api.create(PODS, the_pod(node))

        within(90, lambda: any(line.startswith("CapEff") for line in logged(node.plane)))

        assert held.read() == "old\n", "who has the old library open keeps it"
    found = logged(node.plane)
    for line in ("socket=yes", "devices=yes", "token=yes", "settings=yes", "folders=yes"):
        assert line in found
    assert "node=real" in found
    assert "preload=/usr/local/vgpu/libvgpu.so" in found
    assert not [line for line in found if line.startswith("writable=")]
    assert f"CapEff:{1 << CAP_DAC_OVERRIDE:016x}" in found
    assert "NoNewPrivs:1" in found
    assert library.read_text().startswith("socket: ")
    assert library.stat().st_mode & 0o777 == 0o644
    assert not list(library.parent.glob(".*")), "nothing half copied is left"

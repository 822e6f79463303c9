"""Nodes that kwok keeps alive, and pods that it runs: by the thousand, without containers."""

from collections.abc import Iterable, Mapping

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.processes.flags import Flags, words
from e2e.harness.processes.ports import free_ports
from e2e.testbed import cache

# kwok takes care of the nodes that have this annotation, and of their pods.
FAKE = {"kwok.x-k8s.io/node": "fake"}
ENDS = "pod-complete.yaml"
"""The stage by which the pod of a Job ends as soon as it runs; here such pods run on."""


def start_kwok(plane: ControlPlane) -> None:
    """Start kwok; nodes made by ``fake_node`` get ready, pods bound to them run.

    Raises:
        NotBuiltError: kwok is not built.
        StartError: it does not start.
    """
    (port,) = free_ports(1)
    flags: Flags = {
        "kubeconfig": plane.kubeconfig("kwok", "system:masters"),
        "manage-all-nodes": "false",
        "manage-nodes-with-annotation-selector": "kwok.x-k8s.io/node=fake",
        "node-lease-duration-seconds": 40,
        "node-ip": "127.0.0.1",
        "server-address": f"127.0.0.1:{port}",
    }
    stages = [
        f"--config={file}"
        for folder in ("node", "pod")
        for file in sorted(cache.asset("kwok", folder).glob(f"{folder}-*.yaml"))
        if file.name != ENDS
    ]
    plane.run.start("kwok", [cache.binary("kwok", "kwok"), *words(flags), *stages])


def fake_node(
    name: str,
    resources: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Object:
    """A node for kwok.

    Args:
        name: of the node.
        resources: capacity and allocatable, besides 32 processors, 256Gi and 110 pods.
        annotations: for example the inventory in Volcano's or MetaX's dialect.
        labels: besides the host name.
    """
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"} | dict(resources or {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": FAKE | dict(annotations or {}),
            "labels": {"kubernetes.io/hostname": name} | dict(labels or {}),
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def add_nodes(api: Api, nodes: Iterable[Object]) -> None:
    """Create nodes with their status."""
    for node in nodes:
        api.create("/api/v1/nodes", node)


def is_ready(node: Object) -> bool:
    """Whether the node accepts pods: ready, and no longer tainted as new."""
    conditions = {row["type"]: row["status"] for row in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")

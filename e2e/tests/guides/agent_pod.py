"""A pod that stands for the agent's own in the chart, and the commands that read it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adapters.wire.agent_report import LABELS
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.names import NAMESPACE
from e2e.harness.node.image import NAME
from e2e.harness.processes.run import REPOSITORY
from e2e.harness.processes.waiting import within

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@contextmanager
def agent_pod(plane: ControlPlane, node: str, port: int) -> Iterator[None]:
    """The pod in the network of the host, where the agent's process has its port for metrics.

    Args:
        plane: where it is created.
        node: that runs it.
        port: of the metrics, the first one of the pod's container.
    """
    container = {
        "name": "agent",
        "image": NAME,
        "imagePullPolicy": "Never",
        "ports": [{"name": "metrics", "containerPort": port}],
    }
    spec = {
        "nodeName": node,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    path = f"{_PODS}/agent"
    plane.api.create(_PODS, {"metadata": {"name": "agent", "labels": LABELS}, "spec": spec})
    try:
        within(60, lambda: plane.api.get(path)["status"].get("phase") == "Running")
        yield
    finally:
        plane.api.delete(f"{path}?gracePeriodSeconds=0")


def asked(plane: ControlPlane, *words: str) -> Any:
    """The JSON that the command prints about the cluster; its notes are an error."""
    code = "from adapters.cli.main import main; main()"
    kubeconfig = str(plane.kubeconfig("person", "system:masters"))
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "-o", "json", "--kubeconfig", kubeconfig],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=100,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)

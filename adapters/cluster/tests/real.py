"""A real API server for tests, and a client of it."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeconfigSource, load
from adapters.cluster.api.paths import NODES, PODS
from adapters.tests.waiting import until

REASON = "the test bed's harness is not here"


@dataclass
class Real:
    """A control plane, and a kubeconfig of its administrator."""

    plane: Any
    kubeconfig: Path

    def client(self) -> KubeClient:
        return KubeClient(load(KubeconfigSource(kubeconfig=self.kubeconfig)))

    def kubectl(self, *words: str) -> str:
        """What kubectl prints."""
        cache = pytest.importorskip("e2e.testbed.cache", reason=REASON)
        command = [cache.binary("kubernetes", "kubectl"), "--kubeconfig", self.kubeconfig, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill_server(self) -> list[str]:
        """kill -9; the command that starts it again."""
        processes = self.plane.run.processes
        (server,) = [each for each in processes if each.name == "kube-apiserver"]
        server.identity.signal_group(signal.SIGKILL)
        server.popen.wait()
        processes.remove(server)
        command: list[str] = server.popen.args
        return command

    def start_server(self, command: list[str]) -> None:
        self.plane.run.start("kube-apiserver", command, ready=self.plane.api.is_ready)


@contextmanager
def real() -> Iterator[Real]:
    """A control plane for the length of a block; the test is skipped where none can be."""
    control_plane = pytest.importorskip("e2e.harness.cluster.control_plane", reason=REASON)
    with pytest.importorskip("e2e.harness.processes.run", reason=REASON).run() as run:
        plane = control_plane.start_control_plane(run)
        yield Real(plane, plane.kubeconfig("cluster-tests", "system:masters"))


def a_pod(name: str, **annotations: str) -> dict[str, object]:
    container = {"name": "main", "image": "localhost/none"}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "none", "containers": [container]},
    }


def a_node(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "status": {"capacity": {"cpu": "4", "pods": "110"}}}


async def add_pods(client: KubeClient, names: list[str], namespace: str = "default") -> None:
    """Create pods, sixteen at a time."""
    left = iter(names)

    async def some() -> None:
        for name in left:
            await client.create(PODS.collection(namespace), a_pod(name))

    await asyncio.gather(*(some() for _ in range(16)))


async def add_node(client: KubeClient, name: str) -> None:
    await client.create(NODES.collection(), a_node(name))


async def add_namespace(client: KubeClient, name: str) -> None:
    """A namespace whose service account is there, so that pods can be created."""
    await client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    await until(lambda: client.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"))

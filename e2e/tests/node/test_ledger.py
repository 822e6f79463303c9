"""The agent follows its node's record on a real API server, with the least permissions."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.agent.apiserver.credentials import of_kubeconfig
from adapters.agent.apiserver.ledger import LedgerWatch
from adapters.agent.grants import GrantStatus, LedgerGrants
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.names import LEDGERS, NAMESPACE, RELEASE
from e2e.harness.node.agent import Host, start_agent
from e2e.harness.node.containerd import start_containerd
from e2e.harness.node.cri import Cri
from e2e.harness.node.machine import start_machine
from e2e.harness.processes import cgroups
from e2e.harness.processes.run import run
from e2e.harness.schedulers.service import install
from e2e.tests.node.builders import a_grant, a_ledger, an_allocation, node_ledger

RULES = "/apis/rbac.authorization.k8s.io/v1"


def record(name: str, uid: str) -> dict[str, Any]:
    held = an_allocation(a_grant(), uid=uid, pod="ai/p", node=name)
    return node_ledger(a_ledger(held, name=name))


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with run() as this:
        plane = start_control_plane(this)
        install(plane)
        yield plane


def kubeconfig(cluster: ControlPlane, node: str) -> Path:
    """A kubeconfig of a user who may read this node's record and nothing else."""
    rule = {
        "apiGroups": ["dragoman.dev"],
        "resources": ["nodeledgers"],
        "resourceNames": [node],
        "verbs": ["list", "watch"],
    }
    name, user = f"agent-{node}", f"agent-{node}"
    cluster.api.create(f"{RULES}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    cluster.api.create(f"{RULES}/clusterrolebindings", binding)
    return cluster.kubeconfig(user)


def test_the_agent_follows_its_own_record_and_may_read_no_other(cluster: ControlPlane) -> None:
    config = kubeconfig(cluster, "watched")
    cluster.api.create(LEDGERS, record("other", "uid-other"))

    async def follow() -> list[object]:
        grants = LedgerGrants()
        task = asyncio.ensure_future(LedgerWatch(of_kubeconfig(config), "watched", grants).run())
        seen: list[object] = []
        call = asyncio.to_thread

        async def until(uid: str, standing: GrantStatus) -> None:
            async with asyncio.timeout(30):
                while grants.lookup(uid, "none") is not standing:
                    await asyncio.sleep(0.02)
            seen.append((uid, standing))

        await asyncio.sleep(0.5)
        await call(cluster.api.create, LEDGERS, record("watched", "uid-1"))
        await until("uid-1", GrantStatus.NO_SHARE)
        held = await call(cluster.api.get, f"{LEDGERS}/watched")
        changed = record("watched", "uid-2")
        changed["metadata"]["resourceVersion"] = held["metadata"]["resourceVersion"]
        await call(cluster.api.replace, f"{LEDGERS}/watched", changed)
        await until("uid-2", GrantStatus.NO_SHARE)
        seen.append(grants.lookup("uid-other", "none"))
        await call(cluster.api.call, "DELETE", f"{LEDGERS}/watched")
        await until("uid-2", GrantStatus.NOT_RECORDED)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return seen

    assert asyncio.run(follow())[2] is GrantStatus.NOT_RECORDED


@pytest.mark.skipif(os.geteuid() != 0, reason="a real containerd needs root")
def test_a_container_gets_what_the_clusters_record_says(cluster: ControlPlane) -> None:
    config = account(cluster, NAMESPACE, f"{RELEASE}-node")
    with run() as this:
        runtime = start_containerd(start_machine(this), "containerd-2")
        host = Host.make(this.folder / "host")
        source = {"ledger": {"kubeconfig": str(config)}}
        start_agent(runtime, host, host.configuration(runtime) | source)
        with Cri.connect(runtime.socket, cgroups.create(this.folder), this.folder) as cri:
            cri.wait()
            sandbox = cri.sandbox("train", "uid-1", {"volcano.sh/vgpu-ids-new": "not read"})
            cluster.api.create(LEDGERS, record("real", "uid-1"))

            container = cri.run(sandbox, "main")

            assert cri.env(container)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
            assert cri.env(container)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1024m"
            cri.clear()

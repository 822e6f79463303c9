"""Failures of a share are Events of its pod, on a real API server."""

import os
from typing import Any

import pytest

from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.control_plane import start_control_plane
from e2e.harness.names import LEDGERS, NAMESPACE, RELEASE
from e2e.harness.node.agent import Host, start_agent
from e2e.harness.node.containerd import start_containerd
from e2e.harness.node.cri import Cri, CriError
from e2e.harness.node.machine import start_machine
from e2e.harness.processes import cgroups
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import install
from e2e.tests.node.builders import a_grant, a_ledger, an_allocation, node_ledger

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a real containerd needs root")

FORGED = {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,81920,100:"}


def record() -> dict[str, Any]:
    return node_ledger(a_ledger(an_allocation(a_grant(), uid="uid-unserved", pod="ai/unserved")))


def test_refused_and_unserved_containers_are_events_on_their_pods() -> None:
    with run() as this:
        plane = start_control_plane(this)
        runtime = start_containerd(start_machine(this), "containerd-2")
        install(plane)
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": "ai"}})
        plane.api.create(LEDGERS, record())
        host = Host.make(this.folder / "host")
        configuration = host.configuration(runtime)
        configuration["ledger"] = {"kubeconfig": str(account(plane, NAMESPACE, f"{RELEASE}-node"))}

        def of_pod(uid: str, reason: str) -> list[dict[str, Any]]:
            words = f"fieldSelector=involvedObject.uid={uid},reason={reason}"
            return list(plane.api.get(f"/api/v1/namespaces/ai/events?{words}")["items"])

        with Cri.connect(runtime.socket, cgroups.create(this.folder), this.folder) as cri:
            cri.wait()
            # No agent runs that would give it its share: NRI is fail-open.
            pod = cri.sandbox("unserved", "uid-unserved", {"volcano.sh/vgpu-ids-new": "not read"})
            naked = cri.run(pod, "main", {"NVIDIA_VISIBLE_DEVICES": "void"})
            agent = start_agent(runtime, host, configuration)
            agent.wait_for("container.share_missing")
            forged = cri.sandbox("forged", "uid-forged", FORGED)
            for attempt in range(4):
                with pytest.raises(CriError, match="no allocation is recorded"):
                    cri.create(forged, "main", attempt=attempt)

            within(30, lambda: bool(of_pod("uid-unserved", "ShareMissing")))
            within(30, lambda: bool(of_pod("uid-forged", "ShareRefused")))

            (unserved,) = of_pod("uid-unserved", "ShareMissing")
            assert unserved["type"] == "Warning"
            assert unserved["message"].startswith("container main runs without ")
            assert "NVIDIA_VISIBLE_DEVICES" in unserved["message"]
            (refused,) = of_pod("uid-forged", "ShareRefused")
            assert "no allocation is recorded for this pod yet" in refused["message"]
            assert refused["reportingComponent"] == "dragoman.dev/node"
            assert agent.events("event.write_failed") == []
            cri.remove(naked)
            cri.clear()

"""A pod that is deleted by force: the agent confirms it when its containers have ended."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from adapters.wire.records.ledger import encode
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import ApiError
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.names import LEDGERS, NAMESPACE
from e2e.harness.node.agent import Host, start_agent
from e2e.harness.node.containerd import start_containerd
from e2e.harness.node.image import NAME
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.machine import start_machine
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import install

PODS = "/api/v1/namespaces/default/pods"
GRACE = 8
MARK = f"stubborn-{os.getpid()}"
FOREVER = 4_000_000_000
"""Seconds since 1970."""

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root"),
]


def stubborn(name: str) -> dict[str, Any]:
    """A pod that ignores the request to end."""
    container = {
        "name": "main",
        "image": NAME,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", f"trap '' TERM; while true; do sleep 1; done # {MARK}"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    }
    spec = {
        "nodeName": "real",
        "hostNetwork": True,
        "terminationGracePeriodSeconds": GRACE,
        "containers": [container],
    }
    return {"metadata": {"name": name}, "spec": spec}


def record(uid: str, release_by: int | None = None) -> dict[str, Any]:
    card = Card("GPU-0", "real", 0, "nvidia", "A", 80 * GIB, 10)
    grant = Grant("main", "GPU-0", GIB, 50)
    held = NodeLedger.of(Node("real", (card,))).adopt(
        Allocation(uid, "default/stubborn", "volcano", "real", (grant,), release_by=release_by)
    )
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "NodeLedger",
        "metadata": {"name": "real"},
        "spec": json.loads(encode(held)),
    }


def exists(plane: ControlPlane, name: str) -> bool:
    try:
        plane.api.get(f"{PODS}/{name}")
    except ApiError:
        return False
    return True


def processes() -> int:
    """How many processes of the pod run."""
    found = 0
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += MARK.encode() in each.read_bytes()
    return found


@pytest.mark.parametrize("component", ["containerd-1", "containerd-2", "containerd"])
def test_the_status_confirms_a_pod_when_its_last_container_has_ended(component: str) -> None:
    with run() as this:
        runtime = start_containerd(start_machine(this), component)
        plane = start_control_plane(this)
        install(plane)
        host = Host.make(this.folder / "host")
        cards = this.folder / "cards.json"
        cards.write_text(json.dumps({"cards": [{"uuid": "GPU-0", "index": 0, "model": "A"}]}))
        start_kubelet(plane, runtime, "real")
        body = stubborn("agent")
        body["metadata"]["namespace"] = NAMESPACE
        body["spec"] |= {"serviceAccountName": "dragoman-node"}
        body["spec"]["containers"][0]["command"] = ["/bin/sleep", "1000"]
        plane.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", body)
        kubeconfig = account(plane, NAMESPACE, "dragoman-node", "agent")
        more = {
            "ledger": {"kubeconfig": str(kubeconfig)},
            "inventory": {"source": "file", "file": str(cards)},
        }
        uid = plane.api.create(PODS, stubborn("stubborn"))["metadata"]["uid"]
        plane.api.create(LEDGERS, record(uid))
        start_agent(runtime, host, host.configuration(runtime) | more)

        def status() -> dict[str, Any]:
            return dict(plane.api.get(f"{LEDGERS}/real").get("status", {}))

        within(60, lambda: status() != {})
        within(60, lambda: processes() == 1)
        plane.api.delete(f"{PODS}/stubborn?gracePeriodSeconds=0")
        within(10, lambda: not exists(plane, "stubborn"))
        after_deletion = processes()
        plane.api.merge(f"{LEDGERS}/real", {"spec": record(uid, FOREVER)["spec"]})
        seconds = within(60, lambda: status()["stopped"] == [uid])

        print(f"{component}: confirmed {seconds:.1f} s after the pod was gone")
        assert (after_deletion, processes()) == (1, 0)
        assert status()["migCut"] is False

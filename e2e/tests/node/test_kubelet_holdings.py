"""Pods of a device plugin that writes nothing on them, on a real kubelet: who has which card."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.agent.hook.facts import VISIBLE_DEVICES
from adapters.agent.kubelet import CHECKPOINT, read_checkpoint
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.names import LEDGERS
from e2e.harness.node.agent import Host, RunningAgent, start_agent
from e2e.harness.node.containerd import Containerd, start_containerd
from e2e.harness.node.device_plugin import start_device_plugin
from e2e.harness.node.image import NAME
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.machine import start_machine
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, install, start_service

PODS = "/api/v1/namespaces/default/pods"
GPU = "nvidia.com/gpu"
CARDS = [f"GPU-{index}" for index in range(4)]

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root"),
]


@dataclass(slots=True)
class Place:
    """A node with four cards, which a device plugin of its own allocates.

    Attributes:
        plane: the cluster.
        runtime: of the node.
        host: what the agent finds on it.
    """

    plane: ControlPlane
    runtime: Containerd
    host: Host

    def agent(self) -> RunningAgent:
        """Start the agent; where it looks for the kubelet's file is the default."""
        cards = self.host.folder / "cards.json"
        rows = [
            {"uuid": uuid, "index": index, "model": "NVIDIA A10", "memoryMiB": 23028}
            for index, uuid in enumerate(CARDS)
        ]
        cards.write_text(json.dumps({"cards": rows}))
        kubeconfig = self.plane.kubeconfig("agent", "system:masters")
        configuration = self.host.configuration(
            self.runtime,
            ledger={"kubeconfig": str(kubeconfig)},
            inventory={"source": "file", "file": str(cards)},
            publish={"dialects": ["volcano"]},
        )
        return start_agent(self.runtime, self.host, configuration)

    def run_pod(self, name: str, *amounts: int, written: str = "") -> str:
        """Create a pod and wait until it runs; returns its uid."""
        uid = self.create(name, *amounts, written=written)
        within(90, lambda: self.pod(name)["status"].get("phase") == "Running")
        return uid

    def create(self, name: str, *amounts: int, written: str = "") -> str:
        """A pod that is bound past every scheduler of ours; its uid.

        Args:
            name: of the pod.
            amounts: of cards, for each of its containers; 0 for none.
            written: the cards that its author wants to see; empty where the author writes nothing.
        """
        containers = [
            {
                "name": f"c{number}",
                "image": NAME,
                "imagePullPolicy": "Never",
                "command": ["/bin/sh", "-c", "env; sleep 1000"],
                "env": [{"name": VISIBLE_DEVICES, "value": written}] if written else [],
                "resources": {"limits": {GPU: str(amount)} if amount else {}},
            }
            for number, amount in enumerate(amounts)
        ]
        spec = {"nodeName": "real", "hostNetwork": True, "terminationGracePeriodSeconds": 0}
        body = {"metadata": {"name": name}, "spec": spec | {"containers": containers}}
        uid: str = self.plane.api.create(PODS, body)["metadata"]["uid"]
        return uid

    def pod(self, name: str) -> dict[str, Any]:
        return self.plane.api.get(f"{PODS}/{name}")

    def seen(self, name: str, container: str) -> str:
        """The cards that a container sees, by what it printed."""

        def found() -> str:
            pattern = f"kubelet-real/logs/default_{name}_*/{container}/*.log"
            lines = (
                line.split(" ", 3)[-1]
                for file in Path(self.plane.run.folder).glob(pattern)
                for line in file.read_text().splitlines()
            )
            env = {name: value for name, _, value in (line.partition("=") for line in lines)}
            return env.get(VISIBLE_DEVICES, "")

        within(30, lambda: bool(found()))
        return found()

    def checkpoint(self) -> bytes:
        """The kubelet's file, from outside of the node."""
        return Path(f"/proc/{self.runtime.machine.pid}/root{CHECKPOINT}").read_bytes()


@pytest.fixture
def place() -> Iterator[Place]:
    with run() as this:
        runtime = start_containerd(start_machine(this), "containerd")
        plane = start_control_plane(this)
        install(plane)
        host = Host.make(this.folder / "host")
        start_kubelet(plane, runtime, "real")
        start_device_plugin(runtime.machine, GPU, CARDS)

        def stated() -> object:
            return plane.api.get("/api/v1/nodes/real")["status"]["allocatable"].get(GPU)

        within(60, lambda: stated() == str(len(CARDS)))
        yield Place(plane, runtime, host)


@pytest.fixture
def service(place: Place) -> Service:
    return start_service(place.plane)


def taken(place: Place, name: str) -> dict[str, str]:
    """By container, the cards that the ledger says that a pod holds."""
    found: dict[str, list[str]] = {}
    for grant in held(place.plane, "real").get(name, {}).get("grants", []):
        found.setdefault(grant["container"], []).append(grant["card"])
    return {container: ",".join(cards) for container, cards in found.items()}


def test_pods_of_the_device_plugin_hold_the_cards_that_they_see_and_no_others(
    place: Place, service: Service
) -> None:
    before = place.run_pod("before", 1)
    within(20, lambda: before.encode() in place.checkpoint())
    agent = place.agent()

    within(60, lambda: bool(taken(place, "before")))
    after = place.run_pod("after", 1, 1)
    within(60, lambda: len(taken(place, "after")) == 2)

    assert {one.pod for one in read_checkpoint(place.checkpoint())} == {before, after}
    assert taken(place, "before") == {"c0": place.seen("before", "c0")}
    assert taken(place, "after") == {name: place.seen("after", name) for name in ("c0", "c1")}
    assert held(place.plane, "real")["before"]["dialect"] == "kubelet"
    assert "annotations" not in place.pod("before")["metadata"]
    assert "dragoman_reconciler_drift 0.0" in service.metrics()
    assert "dragoman_allocations_unknown 0.0" in service.metrics()

    agent.process.stop()
    service.stop()
    service.start()
    assert taken(place, "before") == {"c0": place.seen("before", "c0")}

    place.plane.api.delete(f"{PODS}/after?gracePeriodSeconds=0")
    within(60, lambda: held(place.plane, "real").keys() == {"before"})
    place.agent()
    record = f"{LEDGERS}/real"

    def reported() -> set[str]:
        holdings = place.plane.api.get(record)["status"]["holdings"]
        return {holding["pod"] for holding in holdings}

    within(60, lambda: reported() == {before})


@pytest.mark.usefixtures("service")
def test_an_author_sees_no_card_but_those_that_the_device_plugin_gave(place: Place) -> None:
    agent = place.agent()
    place.run_pod("plain", 0, written="GPU-3")
    place.run_pod("honest", 1)
    place.create("greedy", 1, written=",".join(CARDS))

    def refused() -> bool:
        rejections = agent.events("container.rejected")
        return any("is set 2 times" in each["reason"] for each in rejections)

    within(60, refused)
    assert place.pod("greedy")["status"]["phase"] == "Pending"
    assert place.seen("plain", "c0") == "void"
    within(60, lambda: taken(place, "honest") == {"c0": place.seen("honest", "c0")})

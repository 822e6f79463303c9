"""A real node with our driver of Dynamic Resource Allocation, and pods that use it."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from e2e.harness.cluster import chart
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.ready_cluster import PODS, events, pod
from e2e.harness.names import NAMESPACE
from e2e.harness.node.agent import start_agent
from e2e.harness.node.image import NAME
from e2e.harness.node.real_node import RealNode, real_node
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY, run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import KUBE, prepare, starter
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import CLAIMS, RESOURCES

SLICES = f"{RESOURCES}/resourceslices"
NODE, EXTENDED = "dra", "example.com/card"
MIB = 1 << 20
IMAGE = "docker.io/library/ubuntu:22.04"
A100 = "NVIDIA A100 80GB PCIe"
VALUES = {
    "dra": {
        "enabled": True,
        "arbiter": {"enabled": True},
        "driver": {"enabled": True, "extendedResourceName": EXTENDED},
    }
}
CARDS = [
    {"uuid": f"GPU-{number}", "index": number, "model": A100, "memoryMiB": 81920}
    for number in range(2)
]


@dataclass(slots=True)
class DriverNode:
    """The node, its agent and its driver."""

    plane: ControlPlane
    node: RealNode
    service: Service
    config: Path
    cards: Path
    process: Process | None = None

    @property
    def log(self) -> str:
        """What the driver has logged."""
        assert self.process is not None
        return self.process.log.read_text()

    def start_driver(self) -> None:
        """Start the driver; it is registered at the kubelet."""
        run = self.node.runtime.machine.run
        number = len(list(run.folder.glob("dra-*.log")))
        log = run.folder / f"dra-{number}.log"
        words: list[str | Path] = [sys.executable, "-P", "-m", "adapters.dra_driver", self.config]
        self.process = run.start(
            f"dra-{number}",
            self.node.runtime.machine.command(words),
            ready=lambda: log.exists() and '"kubelet.registered"' in log.read_text(),
            environment={"PYTHONPATH": str(REPOSITORY)},
        )

    def stop_driver(self) -> None:
        """End it as the kubelet ends a container."""
        assert self.process is not None
        self.process.stop()
        self.node.runtime.machine.run.processes.remove(self.process)

    def find(self, cards: list[dict[str, Any]]) -> None:
        """From now on these cards are there."""
        part = self.cards.with_suffix(".part")
        part.write_text(json.dumps({"cards": cards}))
        part.rename(self.cards)

    def wait_for_cards(self, count: int) -> None:
        """Wait until ledger and slices have ``count`` cards, none of them unhealthy."""

        def holds() -> bool:
            pools = [each["spec"].get("devices", ()) for each in self.slices()]
            healthy = [each for devices in pools for each in devices if "taints" not in each]
            found = ledger(self.plane, NODE).get("cards", ())
            return len(pools) == 1 and len(healthy) == len(found) == count

        within(60, holds)

    def slices(self) -> list[Object]:
        """All slices of the cluster."""
        found: list[Object] = self.plane.api.get(SLICES)["items"]
        return found

    def files(self) -> list[str]:
        """The CDI files on the node."""
        return sorted(path.name for path in (self.node.runtime.folder / "cdi").glob("*.json"))

    def held(self) -> dict[str, list[tuple[str, int]]]:
        """Card and MiB of each holder in the ledger."""
        return {
            name: [(grant["card"], grant["memory"] // MIB) for grant in row.get("grants", ())]
            for name, row in held(self.plane, NODE).items()
        }

    def read(self, name: str) -> Object:
        """A pod, as the API server has it."""
        found: Object = self.plane.api.get(f"{PODS}/{name}")
        return found

    def wait_until_running(self, name: str) -> None:
        """Wait until a pod runs; a failure has its Events and the log."""
        try:
            within(60, lambda: self.read(name)["status"].get("phase") == "Running")
        except TimeoutError as late:
            raise AssertionError(f"{late}: {events(self.plane.api, name)}\n{self.log}") from late

    def end(self) -> None:
        """Delete all pods and claims; then node and ledger are free, and all cards are there."""
        self.plane.api.delete(PODS)
        within(60, lambda: not self.plane.api.get(PODS)["items"])
        self.plane.api.delete(CLAIMS)
        within(90, lambda: not self.held() and not self.files())
        self.find(CARDS)
        self.wait_for_cards(len(CARDS))


def agents_user(plane: ControlPlane) -> Path:
    """By which agent and driver are their own pod on their node."""
    body = pod("agent", "no-scheduler", {}, serviceAccountName="dragoman-node")
    body["spec"]["nodeName"] = NODE
    for container in body["spec"]["containers"]:
        container |= {"image": NAME, "imagePullPolicy": "Never"}
    plane.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", body)
    return account(plane, NAMESPACE, "dragoman-node", "agent")


@contextmanager
def driver_node() -> Iterator[DriverNode]:
    """A control plane of its own with the service, the arbiter and one such node, for a block.

    The node's cards are in a file, and the rights and the classes are the chart's.

    Raises:
        NotBuiltError: a part is not built.
        StartError: a part does not start.
    """
    with ExitStack() as stack:
        this = stack.enter_context(run())
        plane = replace(start_control_plane(this), values=VALUES)
        prepare(plane)
        classes = [each for each in chart.render(VALUES) if each["kind"] == "DeviceClass"]
        chart.apply(plane, classes)
        node = stack.enter_context(real_node(plane, stack.enter_context(run()), NODE))
        node.runtime.name_image(IMAGE)
        service = start_service(
            plane, publish=["volcano"], dra={"claims": True, "arbiter": True}, confirmStop="always"
        )
        stack.enter_context(webhooks(service))
        cards = node.host.folder / "cards.json"
        settings = node.host.configuration(node.runtime) | {
            "node": NODE,
            "ledger": {"kubeconfig": str(agents_user(plane))},
            "inventory": {"source": "file", "file": str(cards)},
            "publish": {"dialects": ["volcano"], "checkpoint": ""},
            "dra": {
                "cdi": str(node.runtime.folder / "cdi"),
                "kubelet": str(plane.run.folder / f"kubelet-{NODE}" / "root"),
            },
        }
        made = DriverNode(plane, node, service, node.host.folder / "driver.json", cards)
        made.find(CARDS)
        made.config.write_text(json.dumps(settings))
        start_agent(node.runtime, node.host, settings)
        made.start_driver()
        within(60, lambda: len(made.slices()) == 1)
        starter(service, KUBE)()
        yield made


def claiming(name: str, *claims: str, **containers: list[str]) -> Object:
    """A pod whose containers use claims; without ``containers``, one that uses all of them."""
    uses = containers or {"main": list(claims)}
    return {
        "metadata": {"name": name},
        "spec": {
            # With 0 the API server forgets the pod at once, and its cards stay in use for a while.
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": container,
                    "image": IMAGE,
                    "resources": {"claims": [{"name": each} for each in used]},
                }
                for container, used in uses.items()
            ],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
        },
    }


def share(memory: str) -> Object:
    """The specification of a claim for so much of one card."""
    exactly = {
        "deviceClassName": "share.dragoman.dev",
        "capacity": {"requests": {"memory": memory}},
    }
    return {"spec": {"devices": {"requests": [{"name": "share", "exactly": exactly}]}}}


def sharing(driver: DriverNode, name: str, resources: dict[str, str]) -> Object:
    """A pod of Volcano's words."""
    body = pod(name, driver.plane.scheduler(KUBE), resources, terminationGracePeriodSeconds=0)
    for container in body["spec"]["containers"]:
        container |= {"image": IMAGE}
    return body

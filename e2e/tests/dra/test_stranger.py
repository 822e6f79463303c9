"""Another project's driver beside us, on a real node: dra-example-driver as ``gpu.nvidia.com``.

Its cards have the uuids of ours, and its claims are allocated by a stock kube-scheduler, which asks
no webhook.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS, events, node_of, pod
from e2e.harness.node.agent import start_agent
from e2e.harness.node.real_node import RealNode, real_node
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import KUBE, prepare, starter
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.schedulers.service import start_service, with_decisions
from e2e.harness.workloads.claims import CLAIMS, RESOURCES, a_class
from e2e.testbed import cache

pytestmark = pytest.mark.local("the node and its driver are real")

IMAGE = "docker.io/library/ubuntu:22.04"
NODE, DRIVER, STOCK = "stranger", "gpu.nvidia.com", "stock-scheduler"
DIALECTS = ["volcano", "koordinator", "hami"]
EXTENDED = "nvidia.com/gpu.shared"
"""A resource of NVIDIA's device plugin; nvidia.com/gpu is published here, for HAMi."""
MIB = 1 << 20
WHOLE = 80 << 10
SHARES = {
    "volcano": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096"},
    "koordinator": {"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory-ratio": "10"},
    "hami": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"},
}


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The node on which the driver runs.

    Attributes:
        cards: uuids, in the order of the driver's devices.
    """

    plane: ControlPlane
    node: RealNode
    cards: tuple[str, ...]

    @property
    def api(self) -> Api:
        return self.plane.api

    def claim(self, name: str) -> None:
        """Create a claim for one whole card, and a pod that a stock scheduler binds."""
        request = {"name": "card", "exactly": {"deviceClassName": DRIVER}}
        spec = {"devices": {"requests": [request]}}
        self.api.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})
        body = pod(name, STOCK, {}, resourceClaims=[{"name": "card", "resourceClaimName": name}])
        self.api.create(PODS, self.runnable(body, claims=[{"name": "card"}]))

    def runnable(self, body: Object, **resources: Any) -> Object:
        """Return the pod with the node's image."""
        for container in body["spec"]["containers"]:
            container |= {"image": IMAGE, "imagePullPolicy": "Never"}
            container["resources"] |= resources
        return body

    def wait_until_running(self, name: str) -> None:
        try:
            within(60, lambda: self.read(name)["status"].get("phase") == "Running")
        except TimeoutError as late:
            raise AssertionError(f"{late}: {events(self.api, name)}") from late

    def read(self, name: str) -> Object:
        found: Object = self.api.get(f"{PODS}/{name}")
        return found

    def held(self) -> dict[str, list[tuple[str, int]]]:
        """Card and MiB of each holder in the ledger."""
        return {
            name: [(grant["card"], grant["memory"] // MIB) for grant in row.get("grants", ())]
            for name, row in held(self.plane, NODE).items()
        }

    def delete(self, name: str) -> None:
        """Delete a pod and its claim."""
        self.api.delete(f"{PODS}/{name}")
        self.api.delete(f"{CLAIMS}/{name}")


@pytest.fixture(scope="module")
def neighbours() -> Iterator[Neighbours]:
    """Cluster, node and driver, none of which knows us yet."""
    binary = cache.binary("dra-example", "dra-example-kubeletplugin")
    with ExitStack() as stack:
        this = stack.enter_context(run())
        plane = replace(
            start_control_plane(this),
            values={"dra": {"enabled": True, "shadows": {"enabled": True}}},
        )
        prepare(plane)
        node = stack.enter_context(real_node(plane, stack.enter_context(run()), NODE))
        node.runtime.name_image(IMAGE)
        kubelet = plane.run.folder / f"kubelet-{NODE}" / "root"
        words = {
            "node-name": NODE,
            "driver-name": DRIVER,
            "num-devices": "2",
            "cdi-root": str(node.runtime.folder / "cdi"),
            "kubelet-registrar-directory-path": str(kubelet / "plugins_registry"),
            "kubelet-plugins-directory-path": str(kubelet / "plugins"),
            "kubeconfig": str(plane.kubeconfig("stranger", "system:masters")),
        }
        command = [
            str(binary),
            *(word for key, text in words.items() for word in (f"--{key}", text)),
        ]

        def slices() -> list[Object]:
            found: list[Object] = plane.api.get(f"{RESOURCES}/resourceslices")["items"]
            return found

        machine = node.runtime.machine
        machine.run.start("stranger", machine.command(command), ready=lambda: bool(slices()))
        device_class = a_class(DRIVER, DRIVER)
        device_class["spec"]["extendedResourceName"] = EXTENDED
        plane.api.create(f"{RESOURCES}/deviceclasses", device_class)
        start_kube_scheduler(plane, {"profiles": [{"schedulerName": STOCK}]})
        (found,) = slices()
        devices = sorted(found["spec"]["devices"], key=lambda each: each["name"])
        cards = tuple(each["attributes"]["uuid"]["string"] for each in devices)
        yield Neighbours(plane, node, cards)


def test_claims_of_another_driver_and_shares_are_never_on_one_card(neighbours: Neighbours) -> None:
    """One claim was allocated before we came; the next one waits until a card is free."""
    api, plane = neighbours.api, neighbours.plane
    neighbours.claim("before")
    neighbours.wait_until_running("before")
    (result,) = api.get(f"{CLAIMS}/before")["status"]["allocation"]["devices"]["results"]
    number = int(result["device"].removeprefix("gpu-"))
    taken, free = neighbours.cards[number], neighbours.cards[1 - number]

    service = start_service(plane, publish=DIALECTS, dra={"claims": True, "shadows": True})
    cards = [
        {"uuid": uuid, "index": index, "model": "NVIDIA A100 80GB PCIe", "memoryMiB": WHOLE}
        for index, uuid in enumerate(neighbours.cards)
    ]
    host = neighbours.node.host
    (host.folder / "cards.json").write_text(json.dumps({"cards": cards}))
    start_agent(
        neighbours.node.runtime,
        host,
        host.configuration(neighbours.node.runtime)
        | {
            "node": NODE,
            "ledger": {"kubeconfig": str(plane.kubeconfig("agent", "system:masters"))},
            "inventory": {"source": "file", "file": str(host.folder / "cards.json")},
            "publish": {"dialects": DIALECTS, "checkpoint": ""},
        },
    )
    within(60, lambda: neighbours.held() == {"before": [(taken, WHOLE)]})

    starter(service, KUBE)()
    for name, resources in SHARES.items():
        body = pod(name, plane.scheduler(KUBE), resources)
        api.create(PODS, neighbours.runnable(body))
    are_bound = partial(within, 60, lambda: all(node_of(api, name) == NODE for name in SHARES))
    with_decisions(service, are_bound)
    assert {card for name in SHARES for card, _ in neighbours.held()[name]} == {free}

    neighbours.claim("after")
    within(60, lambda: any("cannot allocate all claims" in each for each in events(api, "after")))
    neighbours.delete("before")
    neighbours.wait_until_running("after")
    within(60, lambda: neighbours.held().get("after") == [(taken, WHOLE)])

    # Kubernetes makes a claim of a plain pod's request: its card counts once, as the claim's.
    neighbours.delete("after")
    api.create(PODS, neighbours.runnable(pod("plain", STOCK, {EXTENDED: "1"})))
    neighbours.wait_until_running("plain")
    made = neighbours.read("plain")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    within(60, lambda: neighbours.held().get(made) == [(taken, WHOLE)])
    within(60, lambda: neighbours.held().keys() == {*SHARES, made})

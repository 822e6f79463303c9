"""Our driver on a real node: kube-apiserver, kube-scheduler, kubelet and containerd as they are.

The node's cards are in a file, the rights and the classes are the chart's, and the arbiter is on.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.cluster import chart
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.credentials import connect
from e2e.harness.cluster.ready_cluster import PODS, events, pod
from e2e.harness.names import NAMESPACE
from e2e.harness.node.agent import start_agent
from e2e.harness.node.image import NAME
from e2e.harness.node.kubelet import start_kubelet
from e2e.harness.node.real_node import RealNode, real_node
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY, run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.configured import CONFIGS
from e2e.harness.schedulers.full_stack import KUBE, prepare, starter
from e2e.harness.schedulers.service import Service, held, ledger, start_service, webhooks

pytestmark = [pytest.mark.local("the API server admits no claims of other modules")]

RESOURCES = "/apis/resource.k8s.io/v1"
SLICES = f"{RESOURCES}/resourceslices"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
NODE, DRIVER, EXTENDED = "dra", "gpu.dragoman.dev", "example.com/card"
MIB, GIB = 1 << 20, 1 << 30
IMAGE = "docker.io/library/ubuntu:22.04"
A100 = "NVIDIA A100 80GB PCIe"
VOLCANO = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096"}
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
        assert self.process is not None
        return self.process.log.read_text()

    def start_driver(self) -> None:
        """Start the driver; it is registered at the kubelet."""
        run = self.node.runtime.machine.run
        number = len(list(run.folder.glob("dra-*.log")))
        log = run.folder / f"dra-{number}.log"
        words: list[str | Path] = [sys.executable, "-P", "-m", "adapters.node_dra", self.config]
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
        """Wait until ledger and slices have so many cards, none of them unhealthy."""

        def holds() -> bool:
            (found,) = self.slices() or [{"spec": {"devices": ()}}]
            devices = [each for each in found["spec"]["devices"] if "taints" not in each]
            return len(devices) == len(ledger(self.plane, NODE).get("cards", ())) == count

        within(60, holds)

    def slices(self) -> list[Object]:
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
        found: Object = self.plane.api.get(f"{PODS}/{name}")
        return found

    def wait_until_running(self, name: str) -> None:
        try:
            within(60, lambda: self.read(name)["status"].get("phase") == "Running")
        except TimeoutError as late:
            raise AssertionError(f"{late}: {events(self.plane.api, name)}\n{self.log}") from late

    def delete(self, *names: str) -> None:
        """Delete pods, and wait until the node and the ledger are free."""
        for name in names:
            self.plane.api.delete(f"{PODS}/{name}")
        within(60, lambda: not self.plane.api.get(PODS)["items"])
        self.plane.api.delete(CLAIMS)
        within(90, lambda: not self.held() and not self.files())


def agents_user(plane: ControlPlane) -> Path:
    """By which agent and driver are their own pod on their node."""
    body = pod("agent", "no-scheduler", {}, serviceAccountName="dragoman-node")
    body["spec"]["nodeName"] = NODE
    for container in body["spec"]["containers"]:
        container |= {"image": NAME, "imagePullPolicy": "Never"}
    plane.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", body)
    return account(plane, NAMESPACE, "dragoman-node", "agent")


@pytest.fixture(scope="module")
def driver() -> Iterator[DriverNode]:
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


def example() -> list[Object]:
    return list(yaml.safe_load_all((CONFIGS / "examples" / "dra-share.yaml").read_text()))


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
    exactly = {
        "deviceClassName": "share.dragoman.dev",
        "capacity": {"requests": {"memory": memory}},
    }
    return {"spec": {"devices": {"requests": [{"name": "share", "exactly": exactly}]}}}


def test_the_api_server_keeps_every_field_of_the_slices(driver: DriverNode) -> None:
    (found,) = driver.slices()

    pool = found["spec"]["pool"]
    assert (pool["name"], pool["resourceSliceCount"]) == (NODE, 1)
    assert found["metadata"]["ownerReferences"][0]["name"] == NODE
    device = found["spec"]["devices"][1]
    memory = {"default": "80Gi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}}
    assert device["allowMultipleAllocations"] is True
    assert device["attributes"]["uuid"] == {"string": "GPU-1"}
    assert device["capacity"]["memory"] == {"value": "80Gi", "requestPolicy": memory}
    assert device["capacity"]["slots"]["value"] == "10"


def test_the_example_runs_beside_a_volcano_pod_of_the_same_card(driver: DriverNode) -> None:
    """Pod and claim are deleted, and then the card is free."""
    api = driver.plane.api
    driver.find(CARDS[:1])
    driver.wait_for_cards(1)
    body = pod("shared", driver.plane.scheduler(KUBE), VOLCANO)
    for container in body["spec"]["containers"]:
        container |= {"image": IMAGE}
    api.create(PODS, body | {"spec": body["spec"] | {"terminationGracePeriodSeconds": 0}})
    driver.wait_until_running("shared")
    claim, notebook = example()

    api.create(CLAIMS, claim)
    api.create(PODS, notebook)
    driver.wait_until_running("dra-notebook")

    assert driver.held() == {"shared": [("GPU-0", 4096)], "dra-notebook": [("GPU-0", 8192)]}
    inside = driver.node.inside(driver.read("dra-notebook"), "main")
    assert inside.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    assert inside.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "8192m"
    assert inside.env["CUDA_DEVICE_SM_LIMIT_0"] == "20"
    assert inside.devices == {"nvidia0", "nvidiactl"}
    assert "/usr/local/vgpu/libvgpu.so" in inside.libraries
    other = driver.node.inside(driver.read("dra-notebook"), "sidecar")
    assert other.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert (other.devices, other.libraries) == (frozenset(), frozenset())
    shared = driver.node.inside(driver.read("shared"), body["spec"]["containers"][0]["name"])
    assert shared.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"

    driver.delete("shared", "dra-notebook")
    driver.find(CARDS)
    driver.wait_for_cards(2)


def test_two_claims_of_a_container_are_one_share_and_each_container_has_its_own(
    driver: DriverNode,
) -> None:
    api = driver.plane.api
    for name, memory in (("a", "60Gi"), ("b", "50Gi"), ("c", "4Gi")):
        api.create(CLAIMS, {"metadata": {"name": name}, **share(memory)})

    api.create(PODS, claiming("two", "a", "b", "c", main=["a", "b"], second=["c"]))
    driver.wait_until_running("two")

    found = {name: dict(grants) for name, grants in driver.held().items()}
    main = driver.node.inside(driver.read("two"), "main").env
    assert main["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
    for number in range(2):
        amounts = (found[claim].get(f"GPU-{number}") for claim in ("a", "b"))
        (amount,) = (each for each in amounts if each)
        assert main[f"CUDA_DEVICE_MEMORY_LIMIT_{number}"] == f"{amount}m"
    second = driver.node.inside(driver.read("two"), "second").env
    assert second["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"
    driver.delete("two")


def test_a_share_of_two_containers_never_runs_and_the_event_says_why(driver: DriverNode) -> None:
    api = driver.plane.api
    api.create(CLAIMS, {"metadata": {"name": "both"}, **share("4Gi")})

    api.create(PODS, claiming("twice", "both", main=["both"], second=["both"]))

    within(60, lambda: any("one container can use a share" in e for e in events(api, "twice")))
    assert driver.read("twice")["status"]["phase"] == "Pending"
    driver.delete("twice")


def test_a_restarted_driver_finds_its_claims_and_a_restarted_kubelet_its_slices(
    driver: DriverNode,
) -> None:
    """The kubelet deletes the slices of its node when it starts, and asks for claims again."""
    api = driver.plane.api
    api.create(CLAIMS, {"metadata": {"name": "kept"}, **share("4Gi")})
    api.create(PODS, claiming("kept", "kept"))
    driver.wait_until_running("kept")
    files, before = driver.files(), driver.read("kept")["status"]["containerStatuses"]
    assert len(files) == 1

    driver.stop_driver()
    (kubelet,) = (e for e in driver.plane.run.processes if e.name == f"kubelet-{NODE}")
    kubelet.stop()  # it stays in the list: the node stops it once more
    for item in driver.slices():
        with suppress(ApiError):
            api.delete(f"{SLICES}/{item['metadata']['name']}")
    start_kubelet(driver.plane, driver.node.runtime, NODE)
    driver.start_driver()

    within(60, lambda: len(driver.slices()) == 1)
    assert driver.files() == files
    assert driver.read("kept")["status"]["containerStatuses"] == before
    driver.delete("kept")


def test_a_card_stays_in_use_while_a_container_of_a_pod_that_was_deleted_by_force_runs(
    driver: DriverNode,
) -> None:
    """The claim is deallocated at once; its container ignores the signal for its grace period."""
    api = driver.plane.api
    driver.find(CARDS[:1])
    driver.wait_for_cards(1)
    for name in ("first", "next"):
        api.create(CLAIMS, {"metadata": {"name": name}, **share("60Gi")})
    stubborn = claiming("stubborn", "first")
    stubborn["spec"]["terminationGracePeriodSeconds"] = 6
    command = f"trap '' TERM; while true; do sleep 1; done # {MARK}"
    stubborn["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", command]
    api.create(PODS, stubborn)
    driver.wait_until_running("stubborn")
    assert runs()

    api.delete(f"{PODS}/stubborn?gracePeriodSeconds=0")
    api.create(PODS, claiming("next", "next"))

    within(60, lambda: "allocation" not in api.get(f"{CLAIMS}/first").get("status", {}))
    bound = after(runs, lambda: "next" in driver.held())
    assert not bound, "the card was free while a container had it"
    driver.wait_until_running("next")
    driver.delete("next")
    driver.find(CARDS)
    driver.wait_for_cards(2)


MARK = "stubborn-claim"


def runs() -> bool:
    """Whether the container of the pod that was deleted runs."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if MARK.encode() in file.read_bytes():
                return True
    return False


def after(holds: Callable[[], bool], happened: Callable[[], bool]) -> bool:
    """Whether something happened as long as something else held, which ends."""
    found = False

    def ended() -> bool:
        nonlocal found
        seen = happened()
        if not holds():
            return True
        found = found or seen
        return False

    within(60, ended)
    return found


def test_an_unhealthy_card_is_tainted_and_gets_no_claim(driver: DriverNode) -> None:
    api = driver.plane.api
    driver.find([CARDS[0] | {"healthy": False, "problem": "Xid 79"}, CARDS[1]])
    within(60, lambda: any("taints" in each for each in driver.slices()[0]["spec"]["devices"]))
    api.create(CLAIMS, {"metadata": {"name": "healthy"}, **share("4Gi")})

    api.create(PODS, claiming("healthy", "healthy"))
    driver.wait_until_running("healthy")

    assert driver.held() == {"healthy": [("GPU-1", 4096)]}
    driver.delete("healthy")
    driver.find(CARDS)
    driver.wait_for_cards(2)


def test_a_pod_with_the_extended_resource_gets_a_whole_card(driver: DriverNode) -> None:
    api = driver.plane.api
    body = claiming("whole")
    body["spec"]["containers"][0]["resources"] = {"limits": {EXTENDED: "1"}}

    api.create(PODS, body)
    driver.wait_until_running("whole")

    (grants,) = driver.held().values()
    assert [memory for _, memory in grants] == [81920]
    env = driver.node.inside(driver.read("whole"), "main").env
    assert env["NVIDIA_VISIBLE_DEVICES"] == grants[0][0]
    assert "CUDA_DEVICE_MEMORY_LIMIT_0" not in env
    driver.delete("whole")


def test_slices_of_mig_cards_are_accepted(driver: DriverNode) -> None:
    mig = CARDS[1] | {"mode": "mig"}
    driver.find([CARDS[0], mig])

    within(60, lambda: len(driver.slices()) == 3)

    pools = {each["spec"]["pool"]["name"] for each in driver.slices()}
    assert pools == {NODE, f"{NODE}/mig"}
    driver.find(CARDS)
    within(60, lambda: len(driver.slices()) == 1)
    driver.wait_for_cards(2)


def test_the_driver_may_write_slices_of_its_own_node_only(driver: DriverNode) -> None:
    user = json.loads(driver.config.read_text())["ledger"]["kubeconfig"]
    spec = {
        "driver": DRIVER,
        "nodeName": "other",
        "pool": {"name": "other", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    }

    with pytest.raises(ApiError, match="of its own node only"):
        connect(Path(user)).create(SLICES, {"metadata": {"name": "other"}, "spec": spec})

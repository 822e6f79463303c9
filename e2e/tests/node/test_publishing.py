"""A node whose cards only our agent knows: the service allocates them while they are healthy."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest

from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.credentials import connect
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import PODS, cluster, node_of, pod, turn
from e2e.harness.names import LEDGERS, NAMESPACE
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.schedulers.service import (
    Service,
    install,
    kube_like,
    start_service,
    with_decisions,
)

pytestmark = pytest.mark.local

SYSTEM = f"/api/v1/namespaces/{NAMESPACE}"
VOLCANO = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4000"}
KOORDINATOR = {
    "koordinator.sh/gpu.shared": "1",
    "koordinator.sh/gpu-core": "20",
    "koordinator.sh/gpu-memory-ratio": "20",
}


@dataclass(slots=True)
class Agent:
    """An agent whose cards are in a file.

    Attributes:
        plane: the cluster.
        node: its node.
        cards: the file.
    """

    plane: ControlPlane
    node: str
    cards: Path

    def find(self, cards: Sequence[Object]) -> None:
        """From now on these cards are there."""
        part = self.cards.with_suffix(".part")
        part.write_text(json.dumps({"cards": cards}))
        part.rename(self.cards)

    def configure(self) -> None:
        """Write its configuration, with what it may do as the pod of a DaemonSet."""
        settings = {
            "node": self.node,
            "socket": str(self.cards.with_name("no-runtime.sock")),
            "ledger": {"kubeconfig": str(self.kubeconfig())},
            "inventory": {"source": "file", "file": str(self.cards)},
            "publish": {"dialects": ["volcano", "koordinator"], "slots": 10},
            "monitor": {"listen": ""},
        }
        self.cards.with_name("node.json").write_text(json.dumps(settings))

    def start(self) -> None:
        """Start it, and wait until the record says which cards there are."""
        config = self.cards.with_name("node.json")
        command: list[str | Path] = [sys.executable, "-P", "-m", "adapters.agent", config]
        environment = {"PYTHONPATH": str(REPOSITORY)}
        self.plane.run.start("agent", command, ready=self.published, environment=environment)

    def published(self) -> bool:
        """Whether the record has a status."""
        return "status" in record(self.plane, self.node)

    def kubeconfig(self) -> Path:
        """By which the agent is its own pod on its node, with the service account of all agents."""
        body = pod(f"agent-{self.node}", "no-scheduler", {}, serviceAccountName="dragoman-node")
        body["spec"]["nodeName"] = self.node
        self.plane.api.create(f"{SYSTEM}/pods", body)
        return account(self.plane, NAMESPACE, "dragoman-node", body["metadata"]["name"])


def card(index: int, **more: object) -> Object:
    return {
        "uuid": f"GPU-{index}",
        "index": index,
        "model": "NVIDIA A100-SXM4-40GB",
        "memoryMiB": 16384,
        **more,
    }


def record(plane: ControlPlane, node: str) -> Object:
    found = plane.api.get(LEDGERS)["items"]
    return next((each for each in found if each["metadata"]["name"] == node), {})


def health(plane: ControlPlane, node: str) -> list[bool]:
    return [each.get("healthy", True) for each in ledger(plane, node).get("cards", ())]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([fake_node("own"), fake_node("other")]) as plane:
        install(plane)
        yield plane


@pytest.fixture(scope="module")
def agent(plane: ControlPlane) -> Agent:
    folder = plane.run.folder / "own"
    folder.mkdir()
    made = Agent(plane, "own", folder / "cards.json")
    made.find([card(0), card(1)])
    made.configure()
    return made


@pytest.fixture
def process(plane: ControlPlane, agent: Agent) -> Iterator[Process]:
    with turn(agent.start, plane) as process:
        yield process


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Service:
    service = start_service(plane)
    start_kube_scheduler(plane, kube_like(service, "kube-scheduler-config.yaml", "kube"))
    return service


@pytest.mark.usefixtures("process")
def test_an_agents_cards_are_advertised_in_the_dialects_that_its_operator_names(
    plane: ControlPlane, agent: Agent, service: Service
) -> None:
    within(30, lambda: len(health(plane, "own")) == 2)

    plane.api.create(PODS, pod("volcano", "kube", VOLCANO))
    plane.api.create(PODS, pod("koordinator", "kube", KOORDINATOR))
    both = ("volcano", "koordinator")
    with_decisions(
        service, lambda: within(90, lambda: all(node_of(plane.api, each) == "own" for each in both))
    )

    taken = held(plane, "own")
    assert taken.keys() == {"volcano", "koordinator"}
    assert taken["volcano"]["grants"][0]["memory"] == 4000 << 20
    assert record(plane, "own")["status"]["cards"][0]["uuid"] == "GPU-0"

    agent.find([card(index, healthy=False, problem="Xid 79") for index in (0, 1)])
    within(40, lambda: health(plane, "own") == [False, False])
    plane.api.create(PODS, pod("late", "kube", VOLCANO))
    within(60, lambda: any("late" in str(row) for row in service.get("/api/decisions")))
    time.sleep(1)

    assert node_of(plane.api, "late") == ""
    assert held(plane, "own").keys() == {"volcano", "koordinator"}
    assert record(plane, "own")["status"]["problems"][0] == {"card": "GPU-0", "text": "Xid 79"}

    agent.find([card(0), card(1)])
    with_decisions(service, lambda: within(90, lambda: node_of(plane.api, "late") == "own"))
    assert health(plane, "own") == [True, True]


def test_what_an_agent_published_outlives_it_until_the_status_is_cleared(
    plane: ControlPlane, process: Process, service: Service
) -> None:
    within(30, lambda: len(health(plane, "own")) == 2)
    process.stop()

    plane.api.create(PODS, pod("after", "kube", VOLCANO))
    with_decisions(service, lambda: within(90, lambda: node_of(plane.api, "after") == "own"))
    # As docs/reference/node-agent.md says: kubectl patch --subresource=status --type=merge
    plane.api.merge(f"{LEDGERS}/own/status", {"status": None})
    within(60, lambda: health(plane, "own") == [])

    assert "after" in held(plane, "own")
    plane.api.delete(f"{PODS}/after")
    within(60, lambda: "after" not in held(plane, "own"))


@pytest.mark.refusals
def test_an_agent_may_write_the_status_of_its_own_node_and_nothing_else(
    plane: ControlPlane, agent: Agent
) -> None:
    own = connect(account(plane, NAMESPACE, "dragoman-node", f"agent-{agent.node}"))
    ours = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "NodeLedger"}
    forged_cards = ours | {
        "metadata": {"name": "own2"},
        "spec": {"node": "own2", "allocations": []},
    }
    other = ours | {"metadata": {"name": "other"}, "spec": {"node": "other"}}
    plane.api.create(LEDGERS, other)

    def refusal(method: Callable[[str, Object], Object], path: str, body: Object) -> int:
        with pytest.raises(ApiError) as refused:
            method(path, body)
        return refused.value.status

    forged: Object = {"status": {"cards": []}}

    def in_force() -> bool:
        """Whether the policy is: a server takes a while after it was made."""
        try:
            own.merge(f"{LEDGERS}/other/status", forged)
        except ApiError:
            return True
        return False

    within(30, in_force)
    assert refusal(own.merge, f"{LEDGERS}/other/status", forged) == HTTPStatus.FORBIDDEN
    assert refusal(own.create, LEDGERS, forged_cards) == HTTPStatus.FORBIDDEN
    assert refusal(own.merge, f"{LEDGERS}/own", {"spec": {"node": "x"}}) == HTTPStatus.FORBIDDEN
    assert refusal(own.create, "/api/v1/namespaces", {}) == HTTPStatus.FORBIDDEN

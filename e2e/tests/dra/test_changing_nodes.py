"""docs/guides/transition.md: nodes go to claims and back, while pods of all kinds come and go."""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import sleep

import pytest
from typer.testing import CliRunner

from adapters.cli.main import app
from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.nodes import add_nodes, fake_node
from e2e.harness.cluster.ready_cluster import (
    PODS,
    events,
    node_of,
    pod,
    turn,
    wait_for_nodes,
)
from e2e.harness.oracles.from_annotations import shares_of_pod
from e2e.harness.oracles.from_claims import shares_of_claim
from e2e.harness.oracles.shared_cards import FINISHED, SharedCards
from e2e.harness.processes.waiting import within
from e2e.harness.rounds.changing_nodes import CLAIMS_DRIVER, DRIVER, PLUGIN, ChangingNodes, gpus_of
from e2e.harness.rounds.transition import PART, Arrivals, add, add_class, kind_of, on, remove
from e2e.harness.schedulers.full_stack import KUBE, starter
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import (
    CLAIMS,
    RESOURCES,
    SCHEDULERS,
)
from e2e.kind.documentation import blocks
from e2e.testbed import cache
from e2e.tests.dra.arbiter import end, is_asked, wait_for_ledger

pytestmark = [
    pytest.mark.local("the API server admits no claims of other modules"),
    pytest.mark.timeout(400),
]

SHARED, WHOLE, RETURNS, *STAY = NODES = tuple(f"changing-{number}" for number in range(6))
"""The driver's devices of the first and third node are shared, of the second not."""

GUIDE = "docs/guides/transition.md"
DIALECT, BOTH, ALONE, BACK = (
    "1. `plugin` to `plugin and dialect`",
    "2. To `dialect and claims`",
    "3. To `claims`",
    "The way back",
)
"""Sections of the guide."""

CHANGING = (SHARED, WHOLE, RETURNS)
ASKS = (
    ("plain", SCHEDULERS[0]),
    ("plain", KUBE),
    ("volcano", KUBE),
    *((kind, scheduler) for kind in ("whole", "part") for scheduler in SCHEDULERS),
)
KINDS = dict(reversed(ASKS))
MOST = 10
"""Pods that run at a time."""

STEP = 1.5
"""Seconds in which pods come and go between two changes."""

TAINTS = f"{RESOURCES}/devicetaintrules"


def share(name: str, mib: int) -> Object:
    return pod(name, KUBE, {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(mib)})


@dataclass(slots=True)
class World:
    """The cluster, and what runs on it."""

    service: Service
    nodes: ChangingNodes
    arrivals: Arrivals
    shared: SharedCards

    @property
    def api(self) -> Api:
        return self.service.plane.api

    def label(self, node: str, **values: str | None) -> None:
        """Change labels, and wait until the node's components are these."""
        self.api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": values}})
        self.nodes.settle(node)

    def cordon(self, node: str, *, closed: bool = True) -> None:
        self.api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": closed or None}})

    def truth(self, node: str) -> dict[str, list[str]]:
        """The cards that pods and claims have on a node, not by the ledger."""
        found: dict[str, list[str]] = {}
        for row in self.api.get(PODS)["items"]:
            name, uid = row["metadata"]["name"], row["metadata"]["uid"]
            if row["spec"].get("nodeName") == node and row["status"].get("phase") not in FINISHED:
                card = self.nodes.assigned.get(uid)
                cards = [card] if card else [each.card for each in shares_of_pod(row)]
                if cards:
                    found[name] = cards
        for row in self.api.get(CLAIMS)["items"]:
            own = set(self.nodes.cards[node])
            cards = [each.card for each in shares_of_claim(row, self.shared.devices)]
            if cards and own.issuperset(cards):
                found[row["metadata"]["name"]] = cards
        return found

    def ledger(self, node: str) -> dict[str, list[str]]:
        """The cards that pods and claims have on a node, by the ledger."""
        return {
            name: [grant["card"] for grant in row.get("grants", ())]
            for name, row in held(self.service.plane, node).items()
        }

    def check(self, node: str, *, is_described: bool = True) -> None:
        """The ledger has each holder once, with its cards; nothing over-allocates or blocks."""
        if is_described:
            within(60, lambda: self.ledger(node) == self.truth(node), lambda: self.compared(node))
        within(60, self.is_quiet)

    def is_quiet(self) -> bool:
        """Whether the service knows all allocations, and none contradicts another."""
        metrics = self.service.metrics()
        names = ("dragoman_allocations_unknown", "dragoman_reconciler_drift")
        return all(f"{name} 0.0" in metrics for name in names)

    def follow(self, heading: str, *nodes: str, state: str, part: int = 0) -> None:
        """Run the commands of a section of the guide on nodes, while pods come and go.

        Args:
            heading: of the section.
            nodes: one after the other.
            state: in which they are then, as the command says.
            part: which block of the section.
        """
        script = blocks(GUIDE, heading)[part].replace("kubectl drain", "kubectl drain --force")
        with self.arrivals.coming():
            for node in nodes:
                self.sh(script.replace("NODE", node))
                self.nodes.settle(node)
                sleep(STEP)
        for row in self.api.get(PODS)["items"]:  # those that wait would take what others leave
            if not row["spec"].get("nodeName"):
                remove(self.api, row["metadata"]["name"])
        for node in CHANGING:
            self.check(node, is_described=bool(ledger(self.service.plane, node).get("cards")))
        states = {row["node"]: row["state"] for row in self.transition()}
        assert {states[node] for node in nodes} == {state}

    def transition(self) -> list[Object]:
        """What ``doctor --transition`` says of each node; ``audit`` finds nothing.

        They run in this process: programs of their own would take most of the test's time.
        """
        (look,) = blocks(GUIDE, "Look first")
        file = self.service.plane.kubeconfig("person", "system:masters")
        audit, doctor = (
            CliRunner().invoke(app, [*line.split()[1:], "--kubeconfig", str(file), "-o", "json"])
            for line in look.splitlines()
        )
        assert not audit.exit_code, audit.output
        found: list[Object] = json.loads(doctor.stdout)["nodes"]
        return found

    def sh(self, script: str) -> None:
        """Run lines of bash, with the kubectl of the test bed."""
        environment = os.environ | {
            "KUBECONFIG": str(self.service.plane.kubeconfig("person", "system:masters")),
            "PATH": f"{cache.binary('kubernetes', 'kubectl').parent}:{os.environ['PATH']}",
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert not done.returncode, f"{script}\n{done.stdout}{done.stderr}"

    def drain(self, node: str, *kinds: str) -> None:
        """Delete the pods of some kinds from a node; no other comes meanwhile."""
        self.end(
            row["metadata"]["name"]
            for row in self.api.get(PODS)["items"]
            if row["spec"].get("nodeName") == node and kind_of(row["metadata"]["name"]) in kinds
        )
        within(60, lambda: self.ledger(node) == self.truth(node), lambda: self.compared(node))

    def end(self, names: Iterable[str]) -> None:
        """Delete pods and their claims; their names are free."""
        gone = set(names)
        for name in gone:
            remove(self.api, name)

        def are_free() -> bool:
            rows = [row for path in (PODS, CLAIMS) for row in self.api.get(path)["items"]]
            return gone.isdisjoint(row["metadata"]["name"] for row in rows)

        within(30, are_free)

    def compared(self, node: str) -> str:
        return f"{node}: the ledger has {self.ledger(node)}, the truth is {self.truth(node)}"

    def free(self, node: str) -> list[str]:
        """Cards of a node of which nothing is in use."""
        used = {card for cards in self.truth(node).values() for card in cards}
        return [card for card in self.nodes.cards[node] if card not in used]

    def take_free(self, node: str, kind: str) -> None:
        """A pod of a kind gets each free card of a node: nothing else blocks them."""
        names = [f"probe-{kind}-{number}" for number in range(len(self.free(node)))]
        for name in names:
            add(self.api, kind, name, KINDS[kind], node)
        for name in names:
            self.wait_for(name)
        self.check(node)
        self.end(names)
        within(60, lambda: not set(names) & set(self.ledger(node)))

    def wait_for(self, name: str) -> None:
        """Wait until a pod is bound."""
        within(60, lambda: node_of(self.api, name), lambda: events(self.api, name))


@pytest.fixture(scope="module")
def world(plane: ControlPlane) -> Iterator[World]:
    api = plane.api
    labels = {PLUGIN: "true", "nvidia.com/gpu.present": "true"}
    add_nodes(api, [fake_node(name, labels=labels) for name in NODES])
    wait_for_nodes(api, NODES)
    nodes = ChangingNodes(plane, (SHARED, RETURNS))
    for name in CHANGING:
        nodes.learn_cards(name)
    nodes.cards |= {name: tuple(f"GPU-{name}-{index}" for index in range(2)) for name in STAY}
    add_class(api)
    shared = SharedCards(gpus_of(nodes.cards), nodes.devices())
    service = start_service(plane, dra={"claims": True, "arbiter": True, "shadows": True})
    wait_for_ledger(plane)
    with webhooks(service), turn(starter(service, KUBE), plane):
        within(60, lambda: is_asked(service))
        with nodes.running(), shared.watching(api):
            yield World(service, nodes, Arrivals(api, ASKS, shared, MOST), shared)
            end(plane)
    service.stop()
    for name in NODES:
        api.delete(f"/api/v1/nodes/{name}")
    api.delete(f"{RESOURCES}/deviceclasses/{DRIVER}")


def test_nodes_go_through_all_states_while_pods_come_and_go(world: World) -> None:
    world.follow(DIALECT, *CHANGING, state="plugin and dialect")
    world.take_free(SHARED, "volcano")

    world.follow(BOTH, *CHANGING, state="dialect and claims")
    world.take_free(WHOLE, "whole")
    world.take_free(WHOLE, "plain")
    driver_is_away_and_comes_back(world, WHOLE)
    parts_are_on_one_card_where_the_driver_shares_it(world)
    a_tainted_card_is_closed(world, WHOLE)

    world.follow(ALONE, RETURNS, state="claims")
    world.take_free(RETURNS, "whole")

    world.follow(BACK, RETURNS, state="dialect and claims")
    world.take_free(RETURNS, "volcano")
    world.follow(BACK, RETURNS, state="plugin and dialect", part=1)
    world.drain(RETURNS, *KINDS)  # the kubelet, which would choose, does not know shares
    world.take_free(RETURNS, "plain")
    world.follow(ALONE, RETURNS, state="plugin")

    assert world.shared.problems() == []
    assert world.nodes.errors == []
    assert {kind_of(name) for name in world.shared.bound} >= KINDS.keys()
    assert {kind_of(name) for name in world.shared.claims()} >= {"whole", "part"}


def driver_is_away_and_comes_back(world: World, node: str) -> None:
    """What claims have stays theirs, and no share gets it."""
    world.drain(node, *KINDS)
    add(world.api, "whole", "stays", SCHEDULERS[0], node)
    world.wait_for("stays")
    world.check(node)
    before = world.ledger(node)
    world.label(node, **{CLAIMS_DRIVER: None})
    world.take_free(node, "volcano")
    assert world.ledger(node)["stays"] == before["stays"]
    world.label(node, **{CLAIMS_DRIVER: "true"})
    world.take_free(node, "whole")
    assert world.ledger(node)["stays"] == before["stays"]
    remove(world.api, "stays")


def parts_are_on_one_card_where_the_driver_shares_it(world: World) -> None:
    """Three quarters of each card are shares; a claim for a quarter fits there, a whole one not."""
    api = world.api
    for node, fits in ((SHARED, True), (WHOLE, False)):
        world.drain(node, *KINDS)
        names = [f"three-quarters-{number}" for number in range(2)]
        for name in names:
            body = share(name, 3 * PART)
            api.create(PODS, on(body, node))
        for name in names:
            world.wait_for(name)
        kind = "part" if fits else "whole"
        add(api, kind, "beside", SCHEDULERS[0], node)
        if fits:
            world.wait_for("beside")
            world.check(node)
            (card,) = world.ledger(node)["beside"]
            assert sum(card in cards for cards in world.ledger(node).values()) == 2
        else:
            within(30, lambda: any("FailedScheduling" in row for row in events(api, "beside")))
            remove(api, names[0])
            world.wait_for("beside")
            world.check(node)
        world.drain(node, *KINDS, "beside", "three")


def a_tainted_card_is_closed(world: World, node: str) -> None:
    """A taint of one device leaves the other card to shares and claims."""
    api = world.api
    spec = {
        "deviceSelector": {"driver": DRIVER, "pool": node, "device": "gpu-0"},
        "taint": {"key": "example.com/repair", "effect": "NoSchedule"},
    }
    api.create(TAINTS, {"metadata": {"name": "repair"}, "spec": spec})
    closed, is_open = world.nodes.cards[node]
    within(30, lambda: not card_of(world, node, closed).get("healthy", True))
    for kind in ("volcano", "whole"):
        name = f"tainted-{kind}"
        add(api, kind, name, KINDS[kind], node)
        world.wait_for(name)
        world.check(node)
        assert world.ledger(node)[name] == [is_open]
        remove(api, name)
        within(30, lambda: not world.ledger(node))
    api.delete(f"{TAINTS}/repair")
    within(30, lambda: card_of(world, node, closed).get("healthy", True))


def card_of(world: World, node: str, uuid: str) -> Object:
    """A card, as the ledger of its node describes it."""
    cards: list[Object] = ledger(world.service.plane, node)["cards"]
    return next(card for card in cards if card["uuid"] == uuid)

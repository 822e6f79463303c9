"""A cluster whose nodes change how they give cards, by docs/guides/transition.md."""

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import sleep

from typer.testing import CliRunner

from adapters.cli.main import app
from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.ready_cluster import PODS, events, node_of
from e2e.harness.oracles.from_annotations import shares_of_pod
from e2e.harness.oracles.from_claims import shares_of_claim
from e2e.harness.oracles.shared_cards import FINISHED, SharedCards
from e2e.harness.processes.waiting import within
from e2e.harness.rounds.changing_nodes import ChangingNodes
from e2e.harness.rounds.transition import Arrivals, add, kind_of, remove
from e2e.harness.schedulers.service import Service
from e2e.harness.workloads.claims import CLAIMS
from e2e.kind.documentation import blocks
from e2e.testbed import cache

GUIDE = "docs/guides/transition.md"
BOTH = "2. To `dialect and claims`"
"""A section of the guide."""

STEP = 1.5
"""Seconds in which pods come and go between two changes."""


@dataclass(slots=True)
class World:
    """The cluster, and what runs on it.

    Attributes:
        changing: names of the nodes that do.
    """

    service: Service
    nodes: ChangingNodes
    arrivals: Arrivals
    shared: SharedCards
    changing: Sequence[str]

    @property
    def api(self) -> Api:
        return self.service.plane.api

    def label(self, node: str, **values: str | None) -> None:
        """Change labels, and wait until the node's components are these."""
        self.api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": values}})
        self.nodes.settle(node)

    def truth(self, node: str) -> dict[str, list[str]]:
        """The cards that pods and claims have on a node, not by the ledger."""
        found: dict[str, list[str]] = {}
        for row in self.api.get(PODS)["items"]:
            name, uid = row["metadata"]["name"], row["metadata"]["uid"]
            if row["spec"].get("nodeName") == node and row["status"].get("phase") not in FINISHED:
                card, minors = self.nodes.assigned.get(uid), self.nodes.cards[node]
                cards = [card] if card else [each.card for each in shares_of_pod(row, minors)]
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
        within(60, self.is_quiet, lambda: str(self.contradictions()))

    def is_quiet(self) -> bool:
        """Whether the service knows all allocations, and none contradicts another."""
        return [row.split()[1] for row in self.contradictions()] == ["0.0", "0.0"]

    def contradictions(self) -> list[str]:
        """The metrics that count allocations that are not known, or contradict another."""
        names = ("dragoman_allocations_unknown ", "dragoman_reconciler_drift ")
        return [row for row in self.service.metrics().splitlines() if row.startswith(names)]

    def follow(self, heading: str, *nodes: str, state: str, part: int = 0) -> None:
        """Run the commands of a section of the guide on nodes, while pods come and go.

        Args:
            heading: of the section.
            nodes: one after the other.
            state: in which they are then, as the command says.
            part: which block of the section.
        """
        script = blocks(GUIDE, heading)[part]
        with self.arrivals.coming():
            for node in nodes:
                self.change(node, script)
                sleep(STEP)
        self.settled(state, *nodes)

    def change(self, node: str, script: str) -> None:
        """Run commands of the guide on a node, and wait until its components are those."""
        alone = script.replace("kubectl drain", "kubectl drain --force")  # pods without a workload
        self.sh(alone.replace("NODE", node))
        self.nodes.settle(node)

    def settled(self, state: str, *nodes: str) -> None:
        """Wait until all ledgers are right, and find the nodes in a state."""
        for row in self.api.get(PODS)["items"]:  # those that wait would take what others leave
            if not row["spec"].get("nodeName"):
                remove(self.api, row["metadata"]["name"])
        for node in self.changing:
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
        names = [f"probe-{kind}-{node}-{number}" for number in range(len(self.free(node)))]
        for name in names:
            add(self.api, kind, name, self.scheduler(kind), node)
        for name in names:
            self.wait_for(name)
        self.check(node)
        self.end(names)
        within(60, lambda: not set(names) & set(self.ledger(node)))

    def scheduler(self, kind: str) -> str:
        """The first scheduler that gets pods of a kind."""
        return next(each for name, each in self.arrivals.asks if name == kind)

    def wait_for(self, name: str) -> None:
        """Wait until a pod is bound."""
        within(60, lambda: node_of(self.api, name), lambda: events(self.api, name))

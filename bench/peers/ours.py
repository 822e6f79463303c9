"""Dragoman as a contestant: one new pod after the other, bytes in to bytes out, in this process.

    python bench/peers/ours.py KIND NODES

It speaks the protocol of the peers' programs: it prints one line when the nodes are there, and for
each number that it then reads it makes that number of decisions, and prints the milliseconds of
processor time of each, as a JSON array.

Each call has a new pod uid. Before it another replica's write changes the ledger of one node; the
time has the update of the caches by that write, but not the parsing of the record.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1]))  # bench's modules

import clusters
import served

from adapters.service.decide.service import Service
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.volcano_extender import VolcanoExtender
from adapters.service.standalone import LocalCluster
from adapters.service.web.app import Call
from adapters.service.web.routes import people
from adapters.stores.store import Change, Stored
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.request import ContainerRequest, Request

SHARE = 8 * GIB
COMPUTE = 10
CAPTURES = Path(__file__).parents[2] / "e2e" / "captures" / "volcano" / "v1.14.1"

Limits = Mapping[str, str | int]
Decide = Callable[[str], Awaitable[float]]
"""Decides about a new pod with this uid; seconds of processor time."""


@dataclass(frozen=True, slots=True)
class Form:
    """How one dialect writes a share of a tenth of a card.

    Attributes:
        limits: of the pod.
        vendor: of the cards.
        model: of the cards.
    """

    limits: Limits
    vendor: str = "nvidia"
    model: str = "A100-SXM4-80GB"


VOLCANO = {
    "volcano.sh/vgpu-number": "1",
    "volcano.sh/vgpu-memory": "8k",
    "volcano.sh/vgpu-cores": "10",
}
FORMS = {
    "volcano": Form(VOLCANO),
    "koordinator": Form({"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory-ratio": "10"}),
    "metax": Form(
        {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": "10", "metax-tech.com/vmemory": "8"},
        "metax",
        "C500",
    ),
}
NOWHERE = VOLCANO | {"volcano.sh/vgpu-memory": "79k"}


class Contestant:
    """A service with a cluster, and what it is asked.

    Attributes:
        names: the names of all nodes.
        service: makes the decisions.
    """

    def __init__(self, ledgers: list[NodeLedger], made: Service) -> None:
        self.names = [ledger.node.name for ledger in ledgers]
        self.service = made
        self._ledgers = ledgers
        self._turn = 0

    def next_change(self) -> Change:
        """Another replica's write: a share of the next node's first card moves to another pod."""
        self._turn += 1
        at = self._turn % len(self._ledgers)
        ledger = self._ledgers[at]
        held = next(each for each in ledger.allocations.values() if _is_on_first(each, ledger))
        moved = replace(held, uid=f"changed-{self._turn}", pod=f"bench/changed-{self._turn}")
        changed = self._ledgers[at] = ledger.release(held.uid).adopt(moved)
        return Change(ledger.node.name, Stored(changed, f"changed-{self._turn}"))


async def main(kind: str, nodes: int) -> None:
    """Take turns until the input ends."""
    dialect = kind if kind in FORMS else "volcano"
    ledgers = [_ledger(clusters.name(number), dialect) for number in range(nodes)]
    contestant = Contestant(ledgers, await served.composed(ledgers, LocalCluster()))
    decide = ROUTES[kind](contestant)
    print("ready", flush=True)
    number = 0
    for line in sys.stdin:
        spent: list[float] = []
        for _ in range(int(line)):
            number += 1
            change, uid = contestant.next_change(), f"new-{number}"
            before = process_time()
            contestant.service.ledgers.apply(change)
            spent.append((process_time() - before + await decide(uid)) * 1e3)
        print(json.dumps(spent), flush=True)


def filters(limits: Limits, *, fits: bool) -> Callable[[Contestant], Decide]:
    """A filter call with the names of all nodes."""

    def route(contestant: Contestant) -> Decide:
        extender = KubeExtender(contestant.service)
        names = contestant.names

        async def decide(uid: str) -> float:
            order = clusters.in_another_order(names, uid)
            body = json.dumps(
                {"Pod": _pod(uid, limits), "Nodes": None, "NodeNames": order}, separators=(",", ":")
            ).encode()
            before = process_time()
            answer = await extender.filter(body)
            spent = process_time() - before
            if len(json.loads(answer)["NodeNames"]) != (len(names) if fits else 0):
                sys.exit(f"filter: {answer[:300]!r}")
            return spent

        return decide

    return route


def predicates(contestant: Contestant) -> Decide:
    """One predicate call for each node, with the body that vc-scheduler sent for such a pod."""
    extender = VolcanoExtender(contestant.service)
    captured = json.loads((CAPTURES / "predicate.json").read_bytes())
    captured["task"]["Pod"]["spec"]["containers"][0]["resources"] = {
        "limits": VOLCANO,
        "requests": VOLCANO,
    }
    template = json.dumps(captured, separators=(",", ":"))
    uid_before, node_before = captured["task"]["UID"], captured["node"]["Name"]

    async def decide(uid: str) -> float:
        of_pod = template.replace(uid_before, uid)
        bodies = [of_pod.replace(node_before, name).encode() for name in contestant.names]
        before = process_time()
        answers = [await extender.predicate(body) for body in bodies]
        spent = process_time() - before
        if {json.loads(answer)["code"] for answer in answers} != {0}:
            sys.exit(f"predicate: {answers[0]!r}")
        return spent

    return decide


def explains(contestant: Contestant) -> Decide:
    """``/api/explain`` of a pod that fits no node."""

    async def no_metrics(*_: object) -> bytes:
        return b""

    route = people(contestant.service, no_metrics, list)["POST", "/api/explain"]

    async def decide(uid: str) -> float:
        body = json.dumps(_pod(uid, NOWHERE)).encode()
        before = process_time()
        answer = await route.handler(Call(body))
        spent = process_time() - before
        if len(json.loads(answer.body)["nodes"]) != len(contestant.names):
            sys.exit(f"explain: {answer.body[:300]!r}")
        return spent

    return decide


ROUTES = {
    **{dialect: filters(form.limits, fits=True) for dialect, form in FORMS.items()},
    "nowhere": filters(NOWHERE, fits=False),
    "predicate": predicates,
    "explain": explains,
}


def _pod(uid: str, limits: Limits) -> dict[str, object]:
    resources = {"limits": limits, "requests": limits}
    return {
        "metadata": {"name": uid, "namespace": "bench", "uid": uid},
        "spec": {"containers": [{"name": "main", "resources": resources}]},
    }


def _ledger(name: str, dialect: str) -> NodeLedger:
    """A node of eight cards with one share on each."""
    form = FORMS[dialect]
    cards = tuple(
        Card(
            uuid=f"GPU-{name}-{index}",
            node=name,
            index=index,
            vendor=form.vendor,
            model=form.model,
            memory=clusters.MEMORY,
            slots=10,
            dialects=frozenset({dialect}),
        )
        for index in range(clusters.CARDS)
    )
    ledger = NodeLedger.of(Node(name, cards))
    for card in cards:
        uid = f"{name}-held-{card.index}"
        asked = ContainerRequest("main", 1, memory=SHARE, compute=COMPUTE)
        grant = Grant("main", card.uuid, SHARE, COMPUTE)
        placed = Placement(name, (grant,))
        ledger = ledger.adopt(
            Allocation.of(Request(uid, f"bench/{uid}", dialect, (asked,)), placed)
        )
    return ledger


def _is_on_first(held: Allocation, ledger: NodeLedger) -> bool:
    return held.grants[0].card == ledger.node.cards[0].uuid


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

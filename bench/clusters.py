"""Partly allocated clusters of ledgers, the same in every run."""

import random
from collections.abc import Iterator

from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.request import ContainerRequest, Request

CARDS = 8
MEMORY = 80 * GIB
DIALECT = "bench"


def request(memory: int = 48 * GIB, count: int = 2, compute: int = 30, uid: str = "new") -> Request:
    """A pod with one container; by default it fits about two thirds of the nodes."""
    containers = (ContainerRequest("main", count, memory=memory, compute=compute),)
    return Request(uid, f"bench/{uid}", DIALECT, containers)


def ledgers(nodes: int, dialect: str = DIALECT) -> list[NodeLedger]:
    """Ledgers of nodes with eight cards and zero to twelve allocations each."""
    seed = random.Random(nodes)  # noqa: S311
    return [_node(seed, name(number), dialect) for number in range(nodes)]


def idle(nodes: int, dialect: str = DIALECT) -> Iterator[NodeLedger]:
    """Ledgers of nodes with eight cards and no allocation."""
    return (NodeLedger.of(_hardware(name(number), dialect)) for number in range(nodes))


def name(number: int) -> str:
    """The name of the node with this number."""
    return f"node-{number:05}.example"


def in_another_order(names: list[str], uid: str) -> list[str]:
    """The names as a filter of this pod sends them: in the order of kube-scheduler's goroutines."""
    return random.Random(uid).sample(names, len(names))  # noqa: S311


def share(ledger: NodeLedger, cards: list[int], memory: int, compute: int, uid: str) -> Allocation:
    """An allocation on some cards of a node."""
    pod = request(memory, len(cards), compute, uid)
    grants = (Grant("main", ledger.node.cards[card].uuid, memory, compute) for card in cards)
    return Allocation.of(pod, Placement(ledger.node.name, tuple(grants)))


def _hardware(name: str, dialect: str) -> Node:
    cards = (
        Card(
            uuid=f"GPU-{name}-{index}",
            node=name,
            index=index,
            vendor="nvidia",
            model="A100-SXM4-80GB",
            memory=MEMORY,
            slots=10,
            dialects=frozenset({dialect}),
        )
        for index in range(CARDS)
    )
    return Node(name, tuple(cards))


def _node(seed: random.Random, name: str, dialect: str) -> NodeLedger:
    ledger = NodeLedger.of(_hardware(name, dialect))
    for number in range(seed.randint(0, 12)):
        chosen = seed.sample(range(CARDS), seed.choice((1, 1, 2)))
        memory, compute = seed.randint(4, 40) * GIB, seed.choice((0, 10, 25))
        if all(ledger.usages[card].memory + memory <= MEMORY for card in chosen):
            uid = f"{name}/{number}"
            ledger = ledger.adopt(share(ledger, chosen, memory, compute, uid))
    return ledger

"""Clusters of ledgers, in part sold: the same ones in every run."""

import random

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
    """A pod with one container; by default about two thirds of the nodes have room for it."""
    asks = (ContainerRequest("main", count, memory=memory, compute=compute),)
    return Request(uid, f"bench/{uid}", DIALECT, asks)


def ledgers(nodes: int, dialect: str = DIALECT) -> list[NodeLedger]:
    """Nodes of eight cards with none to twelve shares on each node."""
    seed = random.Random(nodes)  # noqa: S311
    return [_node(seed, name(number), dialect) for number in range(nodes)]


def name(number: int) -> str:
    """Of a node."""
    return f"node-{number:05}.example"


def share(ledger: NodeLedger, cards: list[int], memory: int, compute: int, uid: str) -> Allocation:
    """A share of some cards of a node."""
    wish = request(memory, len(cards), compute, uid)
    grants = (Grant("main", ledger.node.cards[card].uuid, memory, compute) for card in cards)
    return Allocation.of(wish, Placement(ledger.node.name, tuple(grants)))


def _node(seed: random.Random, name: str, dialect: str) -> NodeLedger:
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
    ledger = NodeLedger.of(Node(name, tuple(cards)))
    for number in range(seed.randint(0, 12)):
        chosen = seed.sample(range(CARDS), seed.choice((1, 1, 2)))
        memory, compute = seed.randint(4, 40) * GIB, seed.choice((0, 10, 25))
        if all(ledger.usages[card].memory + memory <= MEMORY for card in chosen):
            uid = f"{name}/{number}"
            ledger = ledger.adopt(share(ledger, chosen, memory, compute, uid))
    return ledger

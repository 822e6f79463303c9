"""Ledgers of many nodes in a SQLite file, with problems on some of them; the same in every run."""

import asyncio
import random
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from adapters.stores.sqlite import SqliteStore
from adapters.wire.records.ledger import encode
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from core.requests.request import SharingTerms

CARDS = 8
MODELS = {"NVIDIA A100-SXM4-80GB": 80, "NVIDIA A10": 24, "MetaX C500": 64}
DIALECTS = ("volcano", "koordinator", "hami")
NAMESPACES = ("research", "serving", "training", "批处理")

OVER, UNREAD, SICK, BROKEN = "node-01234", "node-02345", "node-03456", "node-04567"
"""Nodes with an over-allocated card, with a pod whose record cannot be read, with a card that is
not healthy, and with a ledger that cannot be read."""

_INSERT = "INSERT INTO ledgers (node, version, record) VALUES (?, ?, ?)"


def write(path: Path, numbers: Iterable[int]) -> None:
    """Write the ledgers of the nodes with these numbers, such as ``node-00000``."""
    made = [a_random_ledger(number) for number in numbers]

    async def begin() -> None:
        store = SqliteStore(path)
        await store.write(made[0], None)
        await store.close()

    asyncio.run(begin())
    rows = [
        (each.node.name, number + 1, b"{}" if each.node.name == BROKEN else encode(each))
        for number, each in enumerate(made)
    ]
    with closing(sqlite3.connect(path)) as file, file:
        file.executemany(_INSERT, rows[1:])


def a_random_ledger(number: int) -> NodeLedger:
    """Eight cards, and zero to twelve pods."""
    seed = random.Random(number)  # noqa: S311
    name = f"node-{number:05}"
    model, gib = seed.choice([*MODELS.items()])
    cards = tuple(
        Card(
            f"GPU-{name}-{index}",
            name,
            index,
            "metax" if "MetaX" in model else "nvidia",
            model,
            gib * GIB,
            10,
            healthy=(name, index) != (SICK, 3),
            dialects=frozenset(DIALECTS),
        )
        for index in range(CARDS)
    )
    found = NodeLedger.of(Node(name, cards))
    for pod in range(seed.randint(0, 12)):
        card = seed.randrange(CARDS)
        share = _share(seed, name, pod, cards[card], seed.randint(2, gib // 3) * GIB)
        if found.usages[card].memory + share.grants[0].memory <= cards[card].memory:
            found = found.reserve(share)
    if name == OVER:
        for pod in (90, 91):
            found = found.adopt(_share(seed, name, pod, cards[0], cards[0].memory * 3 // 4))
    if name == UNREAD:
        unread = _share(seed, name, 92, cards[1], 0)
        text = "metax-tech.com/gpu-devices-allocated: 'x': is no list of devices"
        blocked = frozenset({cards[1].uuid})
        found = found.adopt(replace(unread, grants=(), unread=text, blocked=blocked))
    return found


def _share(seed: random.Random, node: str, pod: int, card: Card, memory: int) -> Allocation:
    uid = f"{node}-{pod}"
    return Allocation(
        uid,
        f"{seed.choice(NAMESPACES)}/job-{uid}",
        seed.choice(DIALECTS),
        node,
        (Grant("main", card.uuid, memory, seed.choice((0, 5, 10))),),
    )


CARD = Card("GPU-1", "n1", 0, "nvidia", "NVIDIA A10", 80 * GIB, 1, dialects=frozenset(DIALECTS))
"""A card for one pod."""


def share(name: str, gib: int, *, compute: int = 0, qos: str | None = None) -> Allocation:
    """A part of ``CARD``."""
    grant = Grant("main", CARD.uuid, gib * GIB, compute)
    return Allocation(name, f"ns/{name}", "volcano", "n1", (grant,), terms=SharingTerms(qos=qos))

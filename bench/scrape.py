"""Size and cost of a scrape of the service: cards of many nodes, with and without changes.

Ratios compare processor time with the first scrape, which renders and compresses everything.
"""

import asyncio
import gzip
import random
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from time import process_time
from uuid import UUID

import clusters

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.card_metrics import CardMetrics
from adapters.service.observe.metrics import Compressor, plain
from adapters.stores.store import Change, Stored
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger

NODES = 1_000
CHANGED = 50
"""Nodes whose ledgers change between two scrapes."""

ROUNDS = 9

Result = tuple[str, float, str, str | None, float | None]
"""Name, value, unit, what it is compared with, and the ratio."""


def measure() -> Iterator[Result]:
    """All measurements; each result as arguments of ``run.report``."""
    for peers, suffix in ((False, ""), (True, "_peers")):
        yield from asyncio.run(_measured(peers, suffix))


async def _measured(peers: bool, suffix: str) -> list[Result]:  # noqa: FBT001
    ledgers = _ledgers()
    cards, compressor = CardMetrics(ledgers, peers=peers), Compressor()
    name = f"scrape_{NODES}_nodes{suffix}"

    async def scrape() -> bytes:
        return await compressor.compress(b"", await cards.families())

    first, body = await _timed(scrape)
    again = min([(await _timed(scrape))[0] for _ in range(ROUNDS)])
    partly: list[float] = []
    for turn in range(ROUNDS):
        _change(ledgers, turn)
        partly.append((await _timed(scrape))[0])
    text = gzip.decompress(body)
    last = await scrape()
    if gzip.decompress(last) != plain(b"", await cards.families()):
        sys.exit(f"{name}: the compressed text differs")
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    return [
        (f"{name}_bytes", len(text), "B", None, None),
        (f"{name}_gzip_bytes", len(body), "B", "uncompressed", len(body) / len(text)),
        (f"{name}_series", series, "", None, None),
        (f"{name}_first_cpu_ms", first * 1e3, "ms", None, None),
        (f"{name}_unchanged_cpu_ms", again * 1e3, "ms", "first", again / first),
        (f"{name}_{CHANGED}_changed_cpu_ms", min(partly) * 1e3, "ms", "first", min(partly) / first),
    ]


async def _timed(work: Callable[[], Awaitable[bytes]]) -> tuple[float, bytes]:
    start = process_time()
    body = await work()
    return process_time() - start, body


def _ledgers() -> LedgerCache:
    """Ledgers whose cards have UUIDs of the usual length."""
    seed = random.Random(NODES)  # noqa: S311
    cache = LedgerCache()
    stored: dict[str, Stored] = {}
    for ledger in clusters.ledgers(NODES):
        named = {card.uuid: f"GPU-{UUID(int=seed.getrandbits(128))}" for card in ledger.node.cards}
        cards = tuple(replace(card, uuid=named[card.uuid]) for card in ledger.node.cards)
        made = NodeLedger.of(replace(ledger.node, cards=cards))
        for held in ledger.allocations.values():
            grants = tuple(replace(grant, card=named[grant.card]) for grant in held.grants)
            made = made.adopt(replace(held, grants=grants))
        stored[ledger.node.name] = Stored(made, "1")
    cache.load(stored)
    return cache


def _change(cache: LedgerCache, turn: int) -> None:
    """Allocate a share of the first card of some nodes, which are spread over the cluster."""
    step = NODES // CHANGED
    for number in range(turn % step, NODES, step):
        stored = cache.stored(clusters.name(number))
        if stored is not None:
            more = clusters.share(stored.ledger, [0], GIB, 0, f"scrape/{turn}/{number}")
            changed = Stored(stored.ledger.adopt(more), str(turn))
            cache.put(Change(clusters.name(number), changed))


if __name__ == "__main__":
    for result in measure():
        print(*result)

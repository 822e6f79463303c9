"""What Prometheus is told of every card: our names, and those of the peers' dashboards of today.

A node's lines are made once and kept until its ledger changes, so a scrape of 40,000 cards costs
what has changed since the last one.
"""

from asyncio import sleep
from collections.abc import Callable, Iterator

from adapters.sidecar.book import Book
from core.card import Card
from core.ledger import NodeLedger
from core.quantity import FULL, MIB
from core.usage import CardUse

BATCH = 50
"""Nodes whose lines are made before others get a turn."""

_OURS = ("node", "uuid", "index", "vendor", "model")
# Source: HAMi v2.10.0 cmd/scheduler/metrics.go:106-397
_HAMI = ("node", "device_uuid", "device_index", "device_type")
# Source: volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/metrics.go:35-84
_VOLCANO = ("devID", "NodeName")

Value = Callable[[Card, CardUse], float]

_CARDS: tuple[tuple[str, str, tuple[str, ...], Value], ...] = (
    ("dragoman_card_memory_bytes", "Memory of a card.", _OURS, lambda c, _: c.memory),
    (
        "dragoman_card_memory_granted_bytes",
        "Memory of a card that is given away.",
        _OURS,
        lambda _, u: u.memory,
    ),
    (
        "dragoman_card_compute_granted_ratio",
        "Compute of a card that is given away, 0 to 1.",
        _OURS,
        lambda _, u: u.compute / FULL,
    ),
    ("dragoman_card_sharers", "Pods on a card.", _OURS, lambda _, u: len(u.holders)),
    ("dragoman_card_healthy", "1 for a healthy card.", _OURS, lambda c, _: int(c.healthy)),
    ("hami_gpu_memory_limit_bytes", "As HAMi names it.", _HAMI, lambda c, _: c.memory),
    ("hami_gpu_core_limit_ratio", "As HAMi names it.", _HAMI, lambda _c, _u: FULL),
    ("hami_gpu_memory_allocated_bytes", "As HAMi names it.", _HAMI, lambda _, u: u.memory),
    ("hami_gpu_core_allocated_ratio", "As HAMi names it.", _HAMI, lambda _, u: u.compute),
    ("hami_gpu_shared_count", "As HAMi names it.", _HAMI, lambda _, u: u.slots),
    (
        "hami_node_gpu_memory_allocated_ratio",
        "As HAMi names it.",
        _HAMI,
        lambda c, u: u.memory / c.memory if c.memory else 0,
    ),
    (
        "volcano_vgpu_device_memory_limit",
        "As Volcano names it, in MiB.",
        _VOLCANO,
        lambda c, _: c.memory // MIB,
    ),
    (
        "volcano_vgpu_device_allocated_memory",
        "As Volcano names it, in MiB.",
        _VOLCANO,
        lambda _, u: u.memory // MIB,
    ),
    (
        "volcano_vgpu_device_allocated_cores",
        "As Volcano names it.",
        _VOLCANO,
        lambda _, u: u.compute,
    ),
    ("volcano_vgpu_device_shared_number", "As Volcano names it.", _VOLCANO, lambda _, u: u.slots),
)

_PODS = (
    ("hami_vgpu_memory_allocated_bytes", "As HAMi names it."),
    ("hami_vgpu_core_allocated_ratio", "As HAMi names it."),
    ("volcano_vgpu_device_memory_allocation_for_a_certain_pod", "As Volcano names it, in MiB."),
    ("volcano_vgpu_device_core_allocation_for_a_certain_pod", "As Volcano names it."),
)

Lines = tuple[bytes, ...]
"""The lines of one node, family by family."""


class CardMetrics:
    """The lines of all nodes."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._known: dict[str, tuple[NodeLedger, Lines]] = {}

    async def text(self) -> bytes:
        """All of it, as Prometheus reads it; others get their turns while it is made."""
        fresh = 0
        ledgers = [*self._book.inventory]
        known: dict[str, tuple[NodeLedger, Lines]] = {}
        for ledger in ledgers:
            earlier = self._known.get(ledger.node.name)
            if earlier is None or earlier[0] is not ledger:
                earlier = (ledger, _lines(ledger))
                fresh += 1
                if fresh % BATCH == 0:
                    await sleep(0)
            known[ledger.node.name] = earlier
        self._known = known
        return b"".join(self._families())

    def _families(self) -> Iterator[bytes]:
        heads = [(name, text) for name, text, _, _ in _CARDS] + [*_PODS]
        for place, (name, text) in enumerate(heads):
            yield f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode()
            for _, lines in self._known.values():
                yield lines[place]


def _lines(ledger: NodeLedger) -> Lines:
    cards = tuple(zip(ledger.node.cards, ledger.uses, strict=True))
    labels: dict[tuple[str, ...], list[str]] = {
        names: [_labels(names, _values(names, card)) for card, _ in cards]
        for names in (_OURS, _HAMI, _VOLCANO)
    }
    of_cards = (
        "".join(
            f"{name}{label} {value(card, use)}\n"
            for (card, use), label in zip(cards, labels[names], strict=True)
        ).encode()
        for name, _, names, value in _CARDS
    )
    return (*of_cards, *_of_pods(ledger))


def _of_pods(ledger: NodeLedger) -> tuple[bytes, ...]:
    families: tuple[list[str], ...] = ([], [], [], [])
    for card, use in zip(ledger.node.cards, ledger.uses, strict=True):
        for holder in use.holders:
            namespace, _, name = ledger.allocations[holder.uid].pod.partition("/")
            hami = _labels(
                ("namespace", "node", "pod", "container_index", "device_uuid"),
                (namespace, ledger.node.name, name, "0", card.uuid),
            )
            volcano = _labels((*_VOLCANO, "podName"), (card.uuid, ledger.node.name, name))
            amounts = (holder.memory, holder.compute, holder.memory // MIB, holder.compute)
            labels = (hami, hami, volcano, volcano)
            for family, (metric, _), label, amount in zip(
                families, _PODS, labels, amounts, strict=True
            ):
                family.append(f"{metric}{label} {amount}\n")
    return tuple("".join(family).encode() for family in families)


def _values(names: tuple[str, ...], card: Card) -> tuple[str, ...]:
    if names is _OURS:
        return card.node, card.uuid, str(card.index), card.vendor, card.model
    if names is _HAMI:
        return card.node, card.uuid, str(card.index), card.model
    return card.uuid, card.node


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = zip(names, values, strict=True)
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

"""The book as JSON that people and the dashboard read. Memory is in MiB, compute in percent."""

from collections.abc import Iterator
from itertools import islice

from adapters.sidecar.decide.ledger_cache import LedgerCache
from core.hardware.card import Card
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage
from core.requests.grant import Allocation, Grant

View = dict[str, object]


def nodes(book: LedgerCache) -> list[View]:
    """Every node, with what of it is in use and what a person should look at."""
    readable: list[View] = [
        {
            "name": ledger.node.name,
            "cards": len(ledger.node.cards),
            "healthy": sum(card.healthy for card in ledger.node.cards),
            "pods": len(ledger.allocations),
            "memoryMiB": sum(card.memory for card in ledger.node.cards) // MIB,
            "usedMemoryMiB": sum(use.memory for use in ledger.usages) // MIB,
            "changes": ledger.version,
            "problems": [f"{p.pod}: {p.text}" if p.pod else p.text for p in ledger.problems()],
        }
        for ledger in book.inventory
    ]
    unreadable: list[View] = [
        {"name": name, "problems": [text]} for name, text in book.problems().items()
    ]
    return [*readable, *unreadable]


def cards(book: LedgerCache, node: str | None = None, first: int | None = None) -> list[View]:
    """Every card, and who shares it; of one node, or of the first so many nodes."""
    ledgers = islice(book.inventory, first) if node is None else filter(None, [book.ledger(node)])
    return [
        _card(ledger, card, use)
        for ledger in ledgers
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
    ]


def pods(book: LedgerCache) -> list[View]:
    """Every pod that holds anything."""
    return list(_pods(book))


def _card(ledger: NodeLedger, card: Card, use: CardUsage) -> View:
    return {
        "node": ledger.node.name,
        "uuid": card.uuid,
        "index": card.index,
        "vendor": card.vendor,
        "model": card.model,
        "mode": card.mode.value,
        "healthy": card.healthy,
        "dialects": sorted(card.dialects),
        "memoryMiB": card.memory // MIB,
        "usedMemoryMiB": use.memory // MIB,
        "usedCompute": use.compute,
        "slots": card.slots,
        "usedSlots": use.slots,
        "sharers": [
            {
                "pod": held.pod,
                "uid": held.uid,
                "dialect": held.dialect,
                "memoryMiB": holder.memory // MIB,
                "compute": holder.compute,
                "state": held.state.value,
                "blocking": holder.blocked,
            }
            for holder in use.shares
            for held in (ledger.allocations[holder.uid],)
        ],
    }


def _pods(book: LedgerCache) -> Iterator[View]:
    for ledger in book.inventory:
        for held in ledger.allocations.values():
            yield {
                "namespace": held.pod_ref.namespace,
                "name": held.pod_ref.name,
                "uid": held.uid,
                "dialect": held.dialect,
                "node": held.node,
                "state": held.state.value,
                "priority": held.priority,
                "containers": _containers(held, ledger),
                "unread": held.unread,
            }


def _containers(held: Allocation, ledger: NodeLedger) -> dict[str, list[View]]:
    indexes = {card.uuid: card.index for card in ledger.node.cards}
    told: dict[str, list[View]] = {}
    for grant in held.grants:
        told.setdefault(grant.container or "*", []).append(_share(grant, indexes.get(grant.card)))
    return told


def _share(grant: Grant, index: int | None) -> View:
    share: View = {
        "uuid": grant.card,
        "index": index,
        "memoryMiB": grant.memory // MIB,
        "compute": grant.compute,
    }
    if grant.slice is not None:
        share["mig"] = {"profile": grant.slice.profile, "start": grant.slice.start}
    return share

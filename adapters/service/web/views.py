"""Ledgers and answers as JSON for people. Memory is in MiB, compute in percent."""

from collections.abc import Iterable, Iterator
from itertools import islice

from adapters.answer.answer import NodeGroup
from adapters.service.decide.state.ledger_cache import LedgerCache
from core.hardware.card import Card
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage
from core.requests.grant import Allocation, Grant

View = dict[str, object]


def nodes(cached: LedgerCache) -> list[View]:
    """Return every node: what is in use, and problems for an operator."""
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
        for ledger in cached.inventory
    ]
    unreadable: list[View] = [
        {"name": name, "problems": [text]} for name, text in cached.problems().items()
    ]
    return [*readable, *unreadable]


def cards(cached: LedgerCache, node: str | None = None, first: int | None = None) -> list[View]:
    """Return the cards with their sharers: of one node, of the first ``first`` nodes, or of all."""
    ledgers = (
        islice(cached.inventory, first) if node is None else filter(None, [cached.ledger(node)])
    )
    return [
        _card(ledger, card, use)
        for ledger in ledgers
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
    ]


def pods(cached: LedgerCache) -> list[View]:
    """Return every pod with an allocation."""
    return list(_pods(cached))


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
        "compute": card.compute,
        "usedCompute": use.compute,
        "slots": card.slots,
        "usedSlots": use.slots,
        "sharers": [
            {
                "pod": allocation.pod,
                "uid": allocation.uid,
                "dialect": allocation.dialect,
                "memoryMiB": holder.memory // MIB,
                "compute": holder.compute,
                "state": allocation.state.value,
                "blocking": holder.blocked,
            }
            for holder in use.shares
            for allocation in (ledger.allocations[holder.uid],)
        ],
    }


def _pods(cached: LedgerCache) -> Iterator[View]:
    for ledger in cached.inventory:
        for allocation in ledger.allocations.values():
            yield {
                "namespace": allocation.pod_ref.namespace,
                "name": allocation.pod_ref.name,
                "uid": allocation.uid,
                "dialect": allocation.dialect,
                "node": allocation.node,
                "state": allocation.state.value,
                "priority": allocation.priority,
                "containers": _containers(allocation, ledger),
                "unread": allocation.unread,
            }


def _containers(allocation: Allocation, ledger: NodeLedger) -> dict[str, list[View]]:
    indexes = {card.uuid: card.index for card in ledger.node.cards}
    by_container: dict[str, list[View]] = {}
    for grant in allocation.grants:
        by_container.setdefault(grant.container or "*", []).append(
            _share(grant, indexes.get(grant.card))
        )
    return by_container


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


def groups(found: Iterable[NodeGroup]) -> list[dict[str, object]]:
    """Return the nodes that a pod does not fit, by cause, the nearest to a fit first."""
    return [{"text": each.text, "nodes": each.nodes, "examples": each.examples} for each in found]

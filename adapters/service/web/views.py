"""Ledgers and answers as JSON for people. Memory is in MiB, compute in percent."""

from collections.abc import Iterable
from itertools import islice

from adapters.answer.answer import NodeGroup
from adapters.service.decide.state.ledger_cache import LedgerCache
from core.hardware.quantity import MIB

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
        {
            "node": ledger.node.name,
            "uuid": card.uuid,
            "index": card.index,
            "vendor": card.vendor,
            "model": card.model,
            "mode": card.mode.value,
            "healthy": card.healthy,
            "problem": card.problem,
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
        for ledger in ledgers
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
    ]


def pods(cached: LedgerCache) -> list[View]:
    """Return every pod with an allocation."""
    rows: list[View] = []
    for ledger in cached.inventory:
        indexes = {card.uuid: card.index for card in ledger.node.cards}
        for allocation in ledger.allocations.values():
            containers: dict[str, list[View]] = {}
            for grant in allocation.grants:
                share: View = {
                    "uuid": grant.card,
                    "index": indexes.get(grant.card),
                    "memoryMiB": grant.memory // MIB,
                    "compute": grant.compute,
                }
                if grant.slice is not None:
                    share["mig"] = {"profile": grant.slice.profile, "start": grant.slice.start}
                containers.setdefault(grant.container or "*", []).append(share)
            rows.append(
                {
                    "namespace": allocation.pod_ref.namespace,
                    "name": allocation.pod_ref.name,
                    "uid": allocation.uid,
                    "dialect": allocation.dialect,
                    "node": allocation.node,
                    "state": allocation.state.value,
                    "priority": allocation.priority,
                    "containers": containers,
                    "unread": allocation.unread,
                }
            )
    return rows


def groups(found: Iterable[NodeGroup]) -> list[dict[str, object]]:
    """Return the nodes that a pod does not fit, by cause, the nearest to a fit first."""
    return [{"text": each.text, "nodes": each.nodes, "examples": each.examples} for each in found]

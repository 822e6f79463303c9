"""Ledgers as messages of ``dragoman.proto``."""

from collections.abc import Iterable

from adapters.service.grpc import dragoman_pb2 as pb
from core.hardware.card import Card
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage
from core.requests.grant import Grant


def cards(ledger: NodeLedger) -> list[pb.Card]:
    """A node's cards with their sharers."""
    return [
        _card(ledger, card, use) for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
    ]


def grants(allocated: Iterable[Grant]) -> list[pb.Grant]:
    """The grants of a pod."""
    return [
        pb.Grant(
            container=grant.container,
            card=grant.card,
            memory=grant.memory,
            compute=grant.compute,
            exclusive=grant.exclusive,
            mig_profile=grant.slice.profile if grant.slice else "",
            mig_start=grant.slice.start if grant.slice else 0,
        )
        for grant in allocated
    ]


def change(name: str, ledger: NodeLedger | None, problem: str | None) -> pb.LedgerChange:
    """A node as it is now."""
    if problem is not None:
        return pb.LedgerChange(node=name, problem=problem)
    if ledger is None:
        return pb.LedgerChange(node=name, gone=True)
    return pb.LedgerChange(node=name, version=ledger.version, cards=cards(ledger))


def _card(ledger: NodeLedger, card: Card, use: CardUsage) -> pb.Card:
    return pb.Card(
        node=ledger.node.name,
        uuid=card.uuid,
        index=card.index,
        vendor=card.vendor,
        model=card.model,
        mode=card.mode.value,
        healthy=card.healthy,
        dialects=sorted(card.dialects),
        memory=card.memory,
        used_memory=use.memory,
        compute=card.compute,
        used_compute=use.compute,
        slots=card.slots,
        used_slots=use.slots,
        sharers=[
            pb.Sharer(
                pod=allocation.pod,
                uid=allocation.uid,
                dialect=allocation.dialect,
                memory=holder.memory,
                compute=holder.compute,
                state=allocation.state.value,
                blocking=holder.blocked,
            )
            for holder in use.shares
            for allocation in (ledger.allocations[holder.uid],)
        ],
    )

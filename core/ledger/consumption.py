"""What the pods of a node have of its cards, and have had: summed by who uses what."""

from collections.abc import Mapping
from dataclasses import replace

from core.ledger.meter import Amounts, Consumer
from core.ledger.node_ledger import NodeLedger


def consumption(ledger: NodeLedger) -> Mapping[Consumer, Amounts]:
    """What is allocated now.

    A pod counts with what it holds on each card that the node has, at its peak, as in the card's
    usage. A pod whose cards are unknown is left out: nothing says which of them it uses.
    """
    sums: dict[tuple[str, str, str], list[int]] = {}
    for card, usage in zip(ledger.node.cards, ledger.usages, strict=True):
        for share in usage.shares:
            allocation = ledger.allocations[share.uid]
            if allocation.unread is None:
                place = allocation.pod_ref.namespace, allocation.dialect, card.model
                total = sums.setdefault(place, [0, 0, 0])
                total[0] += 1
                total[1] += share.memory
                total[2] += share.compute
    return {Consumer(*place): Amounts(*total) for place, total in sums.items()}


def metered(changed: NodeLedger, earlier: NodeLedger | None, now: int) -> NodeLedger:
    """The ledger to write, with all that was allocated until now.

    Args:
        changed: what to write.
        earlier: what the store has, which ``changed`` was made from; None where it has nothing.
        now: milliseconds since 1970.
    """
    base = changed if earlier is None else earlier
    return replace(changed, meter=base.meter.advanced(consumption(base), now))

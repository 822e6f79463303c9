"""What the pods of a node have of its cards, summed by who uses what."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from core.ledger.node_ledger import NodeLedger


class Consumer(NamedTuple):
    """Pods that are counted together.

    Attributes:
        namespace: of the pods.
        dialect: of their requests.
        model: of the cards.
    """

    namespace: str
    dialect: str
    model: str


@dataclass(frozen=True, slots=True)
class Amounts:
    """Sums of shares, or of shares by seconds.

    Attributes:
        shares: one for each pod on each card.
        memory: bytes.
        compute: percent of one card.
    """

    shares: int = 0
    memory: int = 0
    compute: int = 0

    def plus(self, other: "Amounts", times: int = 1) -> "Amounts":
        """The sum with a multiple of others."""
        return Amounts(
            self.shares + other.shares * times,
            self.memory + other.memory * times,
            self.compute + other.compute * times,
        )


def consumption(ledger: NodeLedger) -> Mapping[Consumer, Amounts]:
    """What is allocated now.

    A pod counts with what it holds on each card that the node has, at its peak, as in the card's
    usage. A pod whose cards are unknown is left out: nothing says which of them it uses.
    """
    found: dict[Consumer, Amounts] = {}
    for card, usage in zip(ledger.node.cards, ledger.usages, strict=True):
        for share in usage.shares:
            allocation = ledger.allocations[share.uid]
            if allocation.unread is None:
                namespace = allocation.pod_ref.namespace
                consumer = Consumer(namespace, allocation.dialect, card.model)
                one = Amounts(1, share.memory, share.compute)
                found[consumer] = found.get(consumer, Amounts()).plus(one)
    return found

"""The cards of a node whose ledger was deleted, until no commit to it can become a Binding.

A commit is a write of the ledger and, later, a Binding or the write of a claim. Where the ledger is
deleted in between, the pods do not say yet what they will hold. So the ledger that replaces it has
one allocation that may hold any part of each card, which every replica, of this version or an
earlier one, obeys as it does one that cannot be read.
"""

from core.hardware.node import Node
from core.requests.grant import Allocation

UID = "deleted-ledger"
"""Uid of the allocation; no pod has it, as theirs are UUIDs."""

PRIORITY = (1 << 31) - 1
"""Above every pod's, so that no scheduler evicts it. Source: int32 in k8s.io/api/core/v1."""

WHY = "the ledger was deleted, and what was committed to it may still be bound"


def closing(node: Node) -> Allocation:
    """Return the allocation that closes all cards of a node."""
    return Allocation(
        uid=UID,
        pod="(deleted ledger)",
        dialect="",
        node=node.name,
        grants=(),
        priority=PRIORITY,
        unread=WHY,
        blocked=frozenset(card.uuid for card in node.cards),
    )

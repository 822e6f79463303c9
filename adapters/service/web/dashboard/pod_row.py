"""A pod with an allocation, in JSON. Memory is in MiB, compute in percent of one card."""

from collections.abc import Iterator

from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant

View = dict[str, object]


def pod_rows(ledger: NodeLedger) -> Iterator[View]:
    """The pods with an allocation on a node."""
    indexes = {card.uuid: card.index for card in ledger.node.cards}
    for allocation in ledger.allocations.values():
        yield pod_row(allocation, indexes)


def pod_row(allocation: Allocation, indexes: dict[str, int]) -> View:
    """One pod with its grants.

    Args:
        allocation: of the pod.
        indexes: of the node's cards, by uuid.
    """
    return {
        "pod": allocation.pod,
        "uid": allocation.uid,
        "node": allocation.node,
        "dialect": allocation.dialect,
        "priority": allocation.priority,
        "reserved": allocation.state.value == "held",
        "unread": allocation.unread,
        "releaseBy": allocation.release_by,
        "memoryMiB": sum(grant.memory for grant in allocation.grants) // MIB,
        "compute": sum(grant.compute for grant in allocation.grants),
        "grants": [_grant(grant, indexes.get(grant.card)) for grant in allocation.grants],
        "blocked": sorted(allocation.blocked),
    }


def _grant(grant: Grant, index: int | None) -> View:
    return {
        "container": grant.container,
        "card": grant.card,
        "index": index,
        "memoryMiB": grant.memory // MIB,
        "compute": grant.compute,
        "exclusive": grant.exclusive,
        "profile": None if grant.slice is None else grant.slice.profile,
    }

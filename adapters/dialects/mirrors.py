"""Mirrored records: what a pod has, also in the words of other ecosystems.

The device plugins of vc-scheduler and koord-scheduler count whatever the record of their ecosystem
says on any pod of a node. A pod that has a part of a card gets the records of those that describe
the card too, so that their schedulers see each holder. A mirror is output only: a pod's own record
is that of its own dialect, and beside each mirror stands a mark that says that it is one.
"""

from collections.abc import Iterable, Sequence

from adapters.dialects import registry
from adapters.dialects.dialect import Dialect, HeldShare
from adapters.dialects.formats.hami_record import BEST_EFFORT
from adapters.wire.kube import Pod
from core.hardware.card import Mode
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.ledger.usage import CardShare, shares_of
from core.requests.grant import Allocation
from core.requests.request import TaskClass


def mirrors(
    pod: Pod,
    own: Dialect | None,
    allocations: Iterable[Allocation],
    node: Node,
    targets: Sequence[Dialect],
) -> dict[str, str]:
    """Return the mirrored records of a pod, each with its mark.

    Args:
        pod: bound, or about to be.
        own: the dialect of what it requests, which never reads a mirror; None where it requests
            nothing of a dialect.
        allocations: what it has, itself and by ResourceClaims, on one node.
        node: with its cards.
        targets: dialects whose records are written.

    Returns:
        annotations, by key; a dialect that describes none of the cards has none.
    """
    held = held_shares(allocations, node)
    kept = frozenset[str]() if own is None else own.result_keys
    written: dict[str, str] = {}
    for target in targets:
        record = target.write_mirror(pod, held)
        if record and kept.isdisjoint(record):
            written |= {**record, registry.mirror_mark(target.name): "true"}
    return written


def held_shares(allocations: Iterable[Allocation], node: Node) -> tuple[HeldShare, ...]:
    """Return what is left for no other pod, by card in the order of their numbers.

    What a peer's record cannot say counts as the whole card: an exclusive share, a card of which
    the pod may have any part, a slice, a task class or a quality of service beside which no pod of
    the peer may be. Cards that the node does not have are left out.
    """
    by_card: dict[str, list[CardShare]] = {}
    for allocation in allocations:
        for uuid, share in shares_of(allocation).items():
            by_card.setdefault(uuid, []).append(share)
    held: list[HeldShare] = []
    for card in node.cards:
        shares = by_card.get(card.uuid, [])
        slots = max(sum(share.slots for share in shares), 1)
        memory = sum(share.memory for share in shares)
        compute = sum(share.compute for share in shares)
        takes_all = card.mode is Mode.MIG or any(
            share.exclusive
            or share.blocked
            or share.terms.task_class is not TaskClass.NORMAL
            or share.terms.qos not in (None, BEST_EFFORT)
            for share in shares
        )
        if shares and takes_all:
            held.append(HeldShare(card, card.memory, FULL, slots, whole=True))
        elif shares:
            held.append(HeldShare(card, memory, compute, slots, whole=False))
    return tuple(held)

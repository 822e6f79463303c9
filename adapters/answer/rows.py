"""Pods and their shares as rows, for the command and for the service's answers to tenants."""

from collections.abc import Iterator

from adapters.accounting.claim_cache import ClaimCache
from adapters.wire.records.tenant import HeldPod, PodShare
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation


def held_pod(held: Allocation, claims: ClaimCache) -> HeldPod:
    """Return a pod, or a claim of some pods, with what it has."""
    ref, uuids = held.pod_ref, tuple(sorted(held.cards))
    return HeldPod(
        ref.namespace,
        ref.name,
        held.dialect,
        held.node,
        len(uuids),
        sum(grant.memory for grant in held.grants) // MIB,
        sum(grant.compute for grant in held.grants),
        held.priority,
        uuids,
        _note(held, claims),
    )


def held_shares(ledger: NodeLedger, wanted: str, claims: ClaimCache) -> Iterator[PodShare] | None:
    """Return the shares of a card, by its index or uuid; of all cards for an empty text.

    None where there is no such card.
    """
    cards = [card for card in ledger.node.cards if wanted in ("", str(card.index), card.uuid)]
    if wanted and not cards:
        return None
    return (
        PodShare(
            card.index,
            owner.pod_ref.namespace,
            owner.pod_ref.name,
            owner.dialect,
            (card.memory if share.blocked else share.memory) // MIB,
            share.compute,
            tuple(sorted({g.container or "*" for g in owner.grants if g.card == card.uuid})),
            card.uuid,
            _note(owner, claims),
            share.blocked,
        )
        for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
        for share in (use.shares if card in cards else ())
        for owner in (ledger.allocations[share.uid],)
    )


def _note(held: Allocation, claims: ClaimCache) -> str:
    users = ", ".join(sorted(pod.name for pod in claims.consumers(held.uid)))
    return held.unread or (users and f"ResourceClaim of {users}")

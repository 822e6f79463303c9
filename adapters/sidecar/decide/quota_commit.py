"""The writes of a commit in a namespace with a quota, in order: its claim, then the ledger."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from adapters.sidecar.decide.ledger_writer import LedgerContended
from adapters.sidecar.decide.quota_claims import HeldQuotaClaim, QuotaClaimNeeded, QuotaClaims
from core.requests.pod_ref import PodRef
from core.requests.reason import Reason

CLAIMS = 4
"""QuotaClaims of one commit: a newer ledger may need a larger one, or have a fence."""

UNLIMITED = HeldQuotaClaim(None)
"""Of a namespace without a quota."""

T = TypeVar("T")
Allocate = Callable[[HeldQuotaClaim | None], Awaitable[T | QuotaClaimNeeded]]
"""Writes the allocation if the claim covers it; else says which claim is needed."""


async def commit_with_quota(
    quota_claims: QuotaClaims,
    holder: PodRef,
    node: str,
    expected: Callable[[], QuotaClaimNeeded | None],
    allocate: Allocate[T],
    is_new: Callable[[T], bool],
) -> T | Reason:
    """Claim of the quota, then allocate; again where the allocation needs another claim.

    Args:
        quota_claims: makes and drops claims.
        holder: the pod or ResourceClaim, with its uid.
        node: on which it gets cards.
        expected: what the allocation will probably need; None where it probably needs no claim.
        allocate: writes it.
        is_new: whether an allocation was written that the ledger did not have before.

    Raises:
        LedgerContended: as ``Committer.commit``.
        OSError: as ``Committer.commit``.
    """
    is_limited = quota_claims.limits(holder.namespace)
    needed = expected() if is_limited else None
    claim = None if is_limited else UNLIMITED
    for _ in range(CLAIMS):
        if needed is not None:
            claimed = await quota_claims.claim(holder, node, needed, claim)
            if isinstance(claimed, Reason):
                await _drop(quota_claims, claim)
                return claimed
            claim = claimed
        try:
            found = await allocate(claim)
        except LedgerContended:
            await _drop(quota_claims, claim)
            raise
        if not isinstance(found, QuotaClaimNeeded):
            if not is_new(found):
                await _drop(quota_claims, claim)
            return found
        needed = found
    await _drop(quota_claims, claim)
    raise LedgerContended(f"the quota's claim for {holder} is lost")


async def _drop(quota_claims: QuotaClaims, claim: HeldQuotaClaim | None) -> None:
    if claim is not None:
        await quota_claims.drop(claim)

"""Claims that keep devices although no pod uses them; looked for in the elected leader only.

kube-scheduler 1.37.1 leaves some where a pod is deleted while it is bound: it takes the pod out of
``reservedFor`` and leaves the allocation, and kube-controller-manager deallocates a claim only when
it removes the last consumer itself.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import NoReturn, Protocol

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra.claims import Claim
from core.requests.pod_ref import PodRef

POLL = 1.0
"""Seconds between two looks at the claims."""

AGAIN = 30.0
"""Seconds until the next attempt for a claim that could not be deallocated."""


class ClaimDeallocator(Protocol):
    """Removes allocations from claims."""

    async def deallocate(self, claim: PodRef) -> bool:
        """Remove the allocation of a claim that nothing uses; whether it had one.

        Raises:
            OSError: the API server rejected the write, or did not answer.
        """
        ...


class UnusedClaims:
    """Counts claims that nothing has used for some time, and deallocates those of some drivers."""

    def __init__(
        self,
        claims: ClaimCache,
        server: ClaimDeallocator,
        drivers: Collection[str],
        seconds: float,
        clock: Callable[[], float],
        report: Callable[[str, str], None],
    ) -> None:
        """Know no claim yet.

        Args:
            claims: of the cluster.
            server: removes allocations.
            drivers: whose claims are deallocated; a claim must have devices of only these.
            seconds: how long a claim must be unused.
            clock: monotonic seconds.
            report: called with a claim, as ``namespace/name``, and what was done, or the error.
        """
        self._claims = claims
        self._server = server
        self._drivers = frozenset(drivers)
        self._seconds = seconds
        self._clock = clock
        self._report = report
        self._since: dict[str, float] = {}
        self._not_before: dict[str, float] = {}

    @property
    def count(self) -> int:
        """How many claims nothing has used for that time; 0 where this does not run."""
        return len(self._due())

    async def run(self) -> NoReturn:
        """Look at the claims until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(POLL)
        finally:
            self._since.clear()

    async def look(self) -> None:
        """Deallocate what is due."""
        now, unused = self._clock(), {claim.uid: claim for claim in self._claims.unused()}
        self._since = {uid: self._since.get(uid, now) for uid in unused}
        self._not_before = {u: at for u, at in self._not_before.items() if u in unused}
        for uid in self._due():
            if self._may(unused[uid]) and self._not_before.get(uid, now) <= now:
                await self._deallocate(unused[uid])

    def _due(self) -> list[str]:
        now = self._clock()
        return [uid for uid, since in self._since.items() if now - since >= self._seconds]

    def _may(self, claim: Claim) -> bool:
        return bool(claim.results) and all(each.driver in self._drivers for each in claim.results)

    async def _deallocate(self, claim: Claim) -> None:
        self._not_before[claim.uid] = self._clock() + AGAIN
        try:
            done = await self._server.deallocate(claim.ref)
        except OSError as error:
            self._report(claim.name, f"cannot be deallocated: {error}")
        else:
            if done:
                self._report(claim.name, "was deallocated: no pod used it")

"""Keeps shadow claims equal to the ledgers; runs in the elected leader only.

A new claim of a device is created before the older one is deleted: for a moment both count, so that
schedulers see less than is free, never more. An allocation cannot be changed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra.shadows import ShadowClaim, shadow_claim
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.reconcile.work_queue import WorkQueue

EVERY = 1.0
"""Seconds between two writes for one node."""

AGAIN = 5.0
"""Seconds until the next attempt for a node that failed."""

POLL = 0.5
"""Seconds between two looks at the queue while no node changes."""


class ShadowWriter(Protocol):
    """Writes the claims of one namespace; raises OSError where the API server refuses."""

    async def create(self, claim: ShadowClaim) -> None:
        """Create a claim with its allocation; no effect where it is there."""

    async def delete(self, name: str, uid: str) -> None:
        """Delete a claim; no effect where there is none of this uid."""


@dataclass(eq=False, slots=True)
class ShadowPublisher:
    """Writes the claims of nodes as their ledgers change, a few nodes at a time.

    The clock has monotonic seconds; ``failed`` is called with the node and the error of a write.
    """

    _ledgers: LedgerCache
    _claims: ClaimCache
    _writer: ShadowWriter
    _namespace: str
    _clock: Callable[[], float]
    _failed: Callable[[str, str], None]
    _written: dict[str, float] = field(default_factory=dict)
    _queue: WorkQueue = field(init=False)

    def __post_init__(self) -> None:
        self._queue = WorkQueue(self._clock)

    def look_at(self, node: str) -> None:
        """Check a node soon: what others have of its devices may have changed."""
        left = self._written.get(node, -EVERY) + EVERY - self._clock()
        if left > 0:
            self._queue.add_after(node, left)
        else:
            self._queue.add(node)

    async def run(self) -> NoReturn:
        """Publish until cancelled."""
        for node in {*self._ledgers.inventory.names(), *self._claims.shadows.nodes()}:
            self._queue.add(node)
        while True:
            await self._queue.work(self._one, POLL)

    async def _one(self, node: str) -> None:
        self._queue.take(node)
        try:
            await self.publish(node)
        except OSError as error:
            self._failed(node, str(error))
            self._queue.add_after(node, AGAIN)

    async def publish(self, node: str) -> None:
        """Write the claims of a node where they differ from its ledger.

        Those of a node whose ledger cannot be read stay as they are.

        Raises:
            OSError: the API server rejected a write, or did not answer.
        """
        stored = self._ledgers.stored(node)
        if stored is None and self._ledgers.has_record(node):
            return
        devices = () if stored is None else self._claims.shadowed(stored.ledger)
        claims = (shadow_claim(self._namespace, node, each) for each in devices)
        wanted = {each.name: each for each in claims}
        present = self._claims.shadows.of_node(node, self._namespace)
        missing = [
            each
            for name, each in wanted.items()
            if name not in present or not present[name].is_allocated
        ]
        extra = [each for name, each in present.items() if name not in wanted]
        if not missing and not extra:
            if stored is None:
                self._written.pop(node, None)
            return
        self._written[node] = self._clock()
        for each in missing:
            await self._writer.create(each)
        for known in extra:
            await self._writer.delete(known.name, known.uid)

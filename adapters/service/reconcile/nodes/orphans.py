"""Decides which committed allocations have no pod that will ever use them, and since when.

A service that dies between the ledger's write and the Binding leaves cards allocated to a pod that
is not bound. It is safe to release them in this order only: read the ledger from the store; ask
the API server, not a cache, where the ledger's pods are; write the ledger without the orphans by
compare-and-swap against the version that was read. A service that begins to bind such a pod in
between writes the ledger first, so that the last write conflicts. The grace must be longer than a
Binding can be on its way.
"""

from collections.abc import Mapping

from core.ledger.node_ledger import NodeLedger


class OrphanTracker:
    """Remembers since when allocations have been without a bound pod."""

    def __init__(self, grace: int) -> None:
        """Begin without any.

        Args:
            grace: how long an attempt to bind a pod may take, in the unit of ``now``.
        """
        self._grace = grace
        self._unbound_since: dict[str, dict[tuple[str, int], int]] = {}

    def abandoned(self, ledger: NodeLedger, bound: Mapping[str, str], now: int) -> tuple[str, ...]:
        """Return the uids of pods whose allocations can be released.

        At once: pods that were deleted or run on another node. After the grace: pods that were
        without a node all that time, if no new attempt to bind them has begun since.

        Args:
            ledger: of one node, read from the store before the pods.
            bound: by uid of each existing pod, its node; empty for a pod that is not bound.
            now: monotonic.
        """
        name = ledger.node.name
        earlier = self._unbound_since.get(name, {})
        unbound_since: dict[tuple[str, int], int] = {}
        abandoned: list[str] = []
        for uid, allocation in ledger.allocations.items():
            where = bound.get(uid)
            if where == name:
                continue
            attempt = (uid, allocation.attempt)
            unbound_since[attempt] = earlier.get(attempt, now)
            if where != "" or now - unbound_since[attempt] >= self._grace:
                abandoned.append(uid)
        self._unbound_since[name] = unbound_since
        return tuple(abandoned)

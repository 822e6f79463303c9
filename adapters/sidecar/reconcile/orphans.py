"""Which committed allocations no pod will ever use: what a reconciler may take back, and when.

A service that dies between the ledger and the Binding leaves cards booked for a pod that is not
bound. They are safe to take back in this order only: read the record from the store; then ask the
API server, not a cache, where its pods are; then write the record without the abandoned, in place
of the version that was read. Whoever begins to bind such a pod in between has written the record
before, so that the write conflicts. The grace must be longer than a Binding can be on its way.
"""

from collections.abc import Mapping

from core.ledger.node_ledger import NodeLedger


class OrphanTracker:
    """Remembers since when allocations have been without a bound pod."""

    def __init__(self, grace: int) -> None:
        """Begin with nothing seen.

        Args:
            grace: how long an attempt to bind a pod may take, in the unit of ``now``.
        """
        self._grace = grace
        self._first: dict[str, dict[tuple[str, int], int]] = {}

    def abandoned(self, ledger: NodeLedger, bound: Mapping[str, str], now: int) -> tuple[str, ...]:
        """The uids of pods whose allocations can be released.

        At once: those whose pod is gone, or runs elsewhere. Else those that have been seen
        without a bound pod for the length of the grace, and no new attempt has begun since.

        Args:
            ledger: of one node, as it was in the store before the pods were asked for.
            bound: by uid of each pod that there is, its node; empty where it has none yet.
            now: on a clock that nobody sets.
        """
        name = ledger.node.name
        earlier = self._first.get(name, {})
        waiting: dict[tuple[str, int], int] = {}
        found: list[str] = []
        for uid, allocation in ledger.allocations.items():
            where = bound.get(uid)
            if where == name:
                continue
            attempt = (uid, allocation.since)
            waiting[attempt] = earlier.get(attempt, now)
            if where != "" or now - waiting[attempt] >= self._grace:
                found.append(uid)
        self._first[name] = waiting
        return tuple(found)

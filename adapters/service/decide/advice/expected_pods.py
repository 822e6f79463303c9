"""Pods that a scheduler has probably placed on a node, before their binds arrive.

kube-scheduler and koord-scheduler place a pod, begin its bind in the background, and place the next
one. With many pods the bind arrives seconds later. Meanwhile the node with the highest score stays
that for all of them, fills, and the binds of the last ones are refused, each of which then waits
for its scheduler's backoff. So the service remembers on which node each pod goes by its own scores,
and ranks a node last that such pods will fill.

This is advice: no node is excluded, and no bind refused, because of a pod that is only expected.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from adapters.accounting.pod_requests import PodRequest
from adapters.service.decide.ports import Clock
from adapters.service.decide.state.ledger_cache import LedgerCache
from core.durations import SECOND
from core.feasibility.cache import request_signature
from core.feasibility.columns import Numbers
from core.feasibility.fit import fit
from core.feasibility.inventory import NodeNames
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation, AllocationState
from core.requests.reason import Reason
from core.requests.request import Request

EXPECTED_NS = 30 * SECOND
"""Nanoseconds after which a pod whose bind has not arrived is not expected any more."""

OUTLOOK_NS = 100_000_000
"""Nanoseconds for which a node's ledger with its expected pods is used although the ledger has
changed: most changes are the binds that were expected, and to add dozens of pods takes a
millisecond. Before a node is passed over, it is always computed again."""

SIGNATURES = 128
"""Signatures that are kept of a node; further ones begin again."""

NODES = 16
"""Nodes that are evaluated for one pod at most."""


@dataclass(frozen=True, slots=True)
class _Outlook:
    """A node's ledger with its expected pods.

    Attributes:
        base: the ledger that they were added to; None where one of them is not expected any more.
        ledger: with all of them that fit.
        until: when it is computed again if ``base`` is not the node's ledger any more.
        full_for: signatures of requests that do not fit beside them.
    """

    base: NodeLedger | None
    ledger: NodeLedger
    until: int
    full_for: set[Hashable] = field(default_factory=set[Hashable])


class ExpectedPods:
    """Pods by node whose binds will probably arrive; forgets those that do not."""

    def __init__(self, ledgers: LedgerCache, clock: Clock) -> None:
        self._ledgers = ledgers
        self._clock = clock
        self._by_uid: dict[str, Allocation] = {}
        self._by_node: dict[str, dict[str, Allocation]] = {}
        self._outlooks: dict[str, _Outlook] = {}

    def place(self, pod_request: PodRequest, names: NodeNames, ranks: Numbers) -> Numbers:
        """Expect a pod on the node that ranks first and has room for it.

        Args:
            pod_request: the pod; it is not expected on another node any more.
            names: the nodes that fit or may fit.
            ranks: by position of the name: more is better, 0 where the pod does not fit.

        Returns:
            the ranks; 0 for nodes that ranked higher, and that the expected pods will fill.
        """
        request = pod_request.request
        self.discard(request.uid)
        self._expire()
        if not ranks.any():
            return ranks
        ranks = ranks.copy()
        for _ in range(NODES):
            best = int(ranks.argmax())
            if not ranks[best] or self._has_room(request, names.name(best)):
                break
            ranks[best] = 0
        return ranks

    def discard(self, uid: str) -> None:
        """Forget a pod whose bind has ended, or that was deleted."""
        allocation = self._by_uid.pop(uid, None)
        if allocation is None:
            return
        there = self._by_node[allocation.node]
        del there[uid]
        outlook = self._outlooks.pop(allocation.node, None)
        if not there:
            del self._by_node[allocation.node]
        elif outlook is not None:
            self._outlooks[allocation.node] = replace(outlook, base=None)

    def _has_room(self, request: Request, node: str) -> bool:
        """Expect a pod on a node if the others that are expected there leave room for it."""
        outlook, signature = self._outlook(node), request_signature(request)
        is_current = outlook.base is self._ledgers.ledger(node)
        if is_current and signature in outlook.full_for:
            return False
        placement = fit(request, outlook.ledger)
        if isinstance(placement, Reason) and not is_current:
            outlook = self._newest(node)
            placement = fit(request, outlook.ledger)
        if isinstance(placement, Reason):
            if len(outlook.full_for) >= SIGNATURES:
                outlook.full_for.clear()
            outlook.full_for.add(signature)
            return False
        expected = replace(
            Allocation.of(request, placement),
            state=AllocationState.RESERVED,
            expires=self._clock.now() + EXPECTED_NS,
        )
        self._by_uid[expected.uid] = expected
        self._by_node.setdefault(node, {})[expected.uid] = expected
        self._outlooks[node] = replace(outlook, ledger=_with(outlook.ledger, expected))
        return True

    def _outlook(self, node: str) -> _Outlook:
        known = self._outlooks.get(node)
        if known is None:
            return self._newest(node)
        is_valid = known.base is self._ledgers.ledger(node) or known.until > self._clock.now()
        return known if is_valid else self._newest(node)

    def _newest(self, node: str) -> _Outlook:
        base = ledger = self._ledgers.inventory.ledger(node)
        there = self._by_node.get(node, {})
        for expected in there.values():
            ledger = _with(ledger, expected)
        outlook = _Outlook(base, ledger, self._clock.now() + OUTLOOK_NS)
        if there:
            self._outlooks[node] = outlook
        return outlook

    def _expire(self) -> None:
        """Forget the pods whose binds have not arrived in time; they are in order of time."""
        now = self._clock.now()
        while self._by_uid:
            oldest = next(iter(self._by_uid.values()))
            if oldest.expires is None or oldest.expires > now:
                break
            self.discard(oldest.uid)


def _with(ledger: NodeLedger, expected: Allocation) -> NodeLedger:
    """Return the ledger with one more pod.

    Itself where the pod is there, or does not fit (any more).
    """
    if expected.uid in ledger.allocations:
        return ledger
    try:
        return ledger.reserve(expected)
    except LedgerError:
        return ledger

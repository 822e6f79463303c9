"""Pods of which this process remembers what it answered: that they wait, or where they go."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from adapters.accounting.pod_requests import CACHED_BYTES, PodRequest, Wanted, size_of, template_of
from adapters.service.decide.advice.feasibility import spread
from adapters.service.decide.ports import Clock
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.wire.kube import Pod
from core.durations import SECOND
from core.feasibility.cache import request_signature
from core.feasibility.columns import Numbers
from core.feasibility.fit import fit
from core.feasibility.inventory import NodeNames
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation, AllocationState
from core.requests.reason import Reason
from core.requests.request import Request

KEPT = 256
"""Rejected pods that are kept; the namespace with most of them loses its lowest priority."""

NODES = 64
"""Nodes that are kept of a rejection; the next one of the pod keeps others."""

ASKED = 10 * SECOND
"""Nanoseconds after which a scheduler that was given victims for a pod has begun to evict them."""

SERIES = 120 * SECOND
"""Nanoseconds in which a scheduler that is given victims again and again is waited for once: one
that evicts none of them must not keep the service from it for ever."""


@dataclass(slots=True)
class RejectedPod:
    """A pod that was rejected, since its scheduler asked for the first time.

    Attributes:
        pod: as its scheduler sent it last, or as it waits for devices of its claims.
        since: when it was rejected for the first time, in nanoseconds of the clock.
        asked: when it was rejected for the last time.
        nodes: some of those that its scheduler named last and where evictions may help. On all of
            them the pod has everything but cards.
        named: when its scheduler was given victims, for the first time of a series; None where it
            was not.
        template: equal for pods that differ at most in name, uid and status; of claims its own.
    """

    pod: Wanted
    since: int
    asked: int
    template: bytes
    nodes: tuple[str, ...] = ()
    named: int | None = field(default=None)

    @property
    def namespace(self) -> str:
        """Return the namespace, as tenants take turns."""
        return self.pod.pod.metadata.namespace

    def is_preempting(self, now: int) -> bool:
        """Return whether its scheduler is about to evict pods for it itself."""
        return self.named is not None and now - self.named < ASKED


class RejectedPods:
    """What this process has rejected: another replica answers for what it was asked."""

    def __init__(self) -> None:
        self._by_uid: dict[str, RejectedPod] = {}
        self._offset = 0

    def rejected(self, pod: Wanted, nodes: Sequence[str], now: int) -> None:
        """No node has cards for a pod.

        Args:
            pod: the pod.
            nodes: where evictions may help.
            now: in nanoseconds of the clock.
        """
        uid = pod.request.uid
        known = self._by_uid.get(uid)
        if known is None:
            template = template_of(pod.pod) if isinstance(pod, PodRequest) else uid.encode()
            known = self._by_uid[uid] = RejectedPod(pod, now, now, template)
        if len(nodes) > NODES:  # others at each call
            self._offset = (self._offset + NODES) % len(nodes)
            nodes = (*nodes[self._offset :], *nodes[: self._offset])[:NODES]
        known.pod, known.nodes, known.asked = pod, tuple(nodes), now
        if len(self._by_uid) > KEPT:
            most = Counter(each.namespace for each in self._by_uid.values()).most_common(1)[0][0]
            theirs = (each for each in reversed(self._by_uid.values()) if each.namespace == most)
            last = max(theirs, key=_place)
            del self._by_uid[last.pod.request.uid]

    def named_victims(self, uid: str, now: int) -> None:
        """Note that the scheduler of a pod was given victims."""
        known = self._by_uid.get(uid)
        if known is not None and (known.named is None or now - known.named >= SERIES):
            known.named = now

    def woken(self, uid: str) -> None:
        """Forget the nodes of a pod that fits one now: its scheduler tries it again."""
        known = self._by_uid.get(uid)
        if known is not None:
            known.nodes = ()

    def discard(self, uid: str) -> None:
        """Forget a pod that fits, or was deleted."""
        self._by_uid.pop(uid, None)

    def all(self) -> list[RejectedPod]:
        """Return all: the highest priority first, and of equal ones the oldest rejection."""
        return sorted(self._by_uid.values(), key=_place)


def _place(one: RejectedPod) -> tuple[int, int]:
    """Return the place of a pod among all."""
    return -one.pod.request.priority, one.since


LIMIT = 10_000
"""Waiting pods that are kept, of ``CACHED_BYTES`` together; further ones wait for their scheduler's
own retry."""


class WaitingPods:
    """Refused pods in the order in which they are evaluated again."""

    def __init__(self) -> None:
        self._by_uid: dict[str, PodRequest] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._by_uid)

    def add(self, pod_request: PodRequest) -> None:
        """Keep a pod of which a scheduler learned that it fits no node."""
        uid, size = pod_request.request.uid, size_of(pod_request.pod)
        self.discard(uid)
        if uid and len(self._by_uid) < LIMIT and self._bytes + size <= CACHED_BYTES:
            self._by_uid[uid] = pod_request
            self._bytes += size

    def discard(self, uid: str) -> None:
        """Forget a pod that fits, or was deleted."""
        discarded = self._by_uid.pop(uid, None)
        if discarded is not None:
            self._bytes -= size_of(discarded.pod)

    def pop_fitting(self, most: int, fits: Callable[[PodRequest], bool]) -> list[Pod]:
        """Remove the pods that fit a node now; the others go to the end of the queue.

        Args:
            most: how many pods are evaluated; the next call goes on after them.
            fits: whether a pod fits any node.
        """
        fitting: list[Pod] = []
        for uid, pod_request in [*islice(self._by_uid.items(), most)]:
            self.discard(uid)
            if fits(pod_request):
                fitting.append(pod_request.pod)
            else:
                self.add(pod_request)
        return fitting


EXPECTED_NS = 30 * SECOND
"""Nanoseconds after which a pod whose bind has not arrived is not expected any more."""

OUTLOOK_NS = 100_000_000
"""Nanoseconds for which a node's ledger with its expected pods is used although the ledger has
changed: most changes are the binds that were expected, and to add dozens of pods takes a
millisecond. Before a node is passed over, it is always computed again."""

SIGNATURES = 128
"""Signatures that are kept of a node; further ones begin again."""

RANKED = 16
"""Nodes that are evaluated for one expected pod at most."""


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
    """Pods by node whose binds will probably arrive; forgets those that do not.

    kube-scheduler and koord-scheduler place a pod, begin its bind in the background, and place the
    next one. With many pods the bind arrives seconds later. Meanwhile the node with the highest
    score stays that for all of them, fills, and the binds of the last ones are refused, each of
    which then waits for its scheduler's backoff. So the service remembers on which node each pod
    goes by its own scores, and ranks a node last that such pods will fill.

    This is advice: no node is excluded, and no bind refused, because of a pod that is expected.
    """

    def __init__(self, ledgers: LedgerCache, clock: Clock) -> None:
        self._ledgers = ledgers
        self._clock = clock
        self._by_uid: dict[str, Allocation] = {}
        self._by_node: dict[str, dict[str, Allocation]] = {}
        self._outlooks: dict[str, _Outlook] = {}

    def place(
        self, pod_request: PodRequest, names: NodeNames, ranks: Numbers, most: int
    ) -> tuple[Numbers, bool]:
        """Expect a pod on the node that ranks first and has room for it.

        While others are expected, that node scores one point above its equals. Else the scheduler
        would choose any of them, and the next pods would be placed beside none of those before.

        Args:
            pod_request: the pod; it is not expected on another node any more.
            names: the nodes that fit or may fit.
            ranks: by position of the name: more is better, 0 where the pod does not fit.
            most: the highest score.

        Returns:
            scores from 0, in the order of the ranks; 0 for nodes that ranked higher, and that the
            expected pods will fill. Whether the scheduler chooses among equal nodes.
        """
        request = pod_request.request
        self.discard(request.uid)
        now = self._clock.now()
        while self._by_uid:  # in order of time: forget those whose binds did not arrive in time
            oldest = next(iter(self._by_uid.values()))
            if oldest.expires is None or oldest.expires > now:
                break
            self.discard(oldest.uid)
        bonus, ranks = 1 if self._by_uid else 0, ranks.copy()
        for _ in range(RANKED if ranks.any() else 0):
            best = int(ranks.argmax())
            if not ranks[best]:
                break
            if self._has_room(request, names.name(best)):
                scores = spread(ranks, most - bonus)
                scores[best] += bonus
                return scores, not bonus and bool(np.count_nonzero(ranks == ranks[best]) > 1)
            ranks[best] = 0
        return spread(ranks, most), False

    def correct(self, request: Request, node: str) -> None:
        """Expect a pod, if on any node, on the one to which its scheduler binds it."""
        expected = self._by_uid.get(request.uid)
        if expected is not None and expected.node != node:
            self.discard(request.uid)
            if self._ledgers.ledger(node) is not None:
                self._has_room(request, node)

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
        signature, base = request_signature(request), self._ledgers.ledger(node)
        outlook = self._outlooks.get(node)
        if outlook is None or (outlook.base is not base and outlook.until <= self._clock.now()):
            outlook = self._newest(node)
        is_current = outlook.base is base
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

    def _newest(self, node: str) -> _Outlook:
        base = ledger = self._ledgers.inventory.ledger(node)
        there = self._by_node.get(node, {})
        for expected in there.values():
            ledger = _with(ledger, expected)
        outlook = _Outlook(base, ledger, self._clock.now() + OUTLOOK_NS)
        if there:
            self._outlooks[node] = outlook
        return outlook


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

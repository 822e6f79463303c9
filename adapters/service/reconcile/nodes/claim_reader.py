"""Where the claims of a ledger are, for the reconciler."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from adapters.dialects.adoption import may_use_cards
from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import allocated
from adapters.dialects.dra.holders import enlarged, holding
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.cluster_state.deleted_pods import UNKNOWN, Departure
from adapters.service.decide.ports import LiveClaims
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.request import PodRef

ANYWHERE = "?"
"""Stands in place of a node's name: the claim has devices elsewhere."""


@dataclass(slots=True)
class ClaimsOfNode:
    """The claims of one node and of its ledger.

    Attributes:
        held: what claims hold of its cards.
        bound: by uid of each claim of the ledger that exists, the node of its devices; empty for
            one that has none yet.
        gone: uids of claims of the ledger that were deleted or deallocated.
        moved: uids of claims of ``held`` that held something else before.
        never_allocated: uids of claims that never had devices; the ledger has some for them.
    """

    held: list[Allocation] = field(default_factory=list[Allocation])
    bound: dict[str, str] = field(default_factory=dict[str, str])
    gone: list[str] = field(default_factory=list[str])
    moved: list[str] = field(default_factory=list[str])
    never_allocated: list[str] = field(default_factory=list[str])


class _Seen(NamedTuple):
    """Which allocation of a claim, counted, stands for which attempt."""

    number: int
    attempt: int


class ClaimReader:
    """Reads claims from the cache, and from the API server where cache and ledger differ.

    The ledger of a claim is written before the claim, so that a claim without an allocation may get
    one in a moment. One that had what its ledger says, and has it no longer, was deallocated.
    """

    def __init__(self, cache: ClusterCache, live: LiveClaims | None) -> None:
        """Remember no claim yet; ``live`` is None where no claims count."""
        self._cache = cache
        self._live = live
        self._seen: dict[str, dict[str, _Seen]] = {}

    def cached(self, ledger: NodeLedger, node: Node) -> tuple[Allocation, ...] | None:
        """Return what claims hold by the watches; None where the API server must be asked."""
        held = self._cache.claims.holding(ledger, node)
        self._note(ledger, held)
        differing = any(_newer(ledger, each) or loses(ledger, each) for each in held)
        return None if differing else held

    async def read(self, ledger: NodeLedger, node: Node) -> ClaimsOfNode:
        """Read the claims of a node; the ledger must have been read from the store before.

        Raises:
            OSError: the API server did not answer.
        """
        found = ClaimsOfNode()
        cached = {each.uid: each for each in self._cache.claims.holding(ledger, node)}
        self._note(ledger, cached.values())
        for uid, held in cached.items():
            if not _newer(ledger, held):
                found.held.append(held)
                found.bound[uid] = node.name
        for uid, entry in ledger.allocations.items():
            if entry.dialect != DRA or uid in found.bound:
                continue
            live = None if self._live is None else await self._live.get(entry.pod_ref)
            if live is not None and live.metadata.uid != uid:
                live = None
            claim = None if live is None else allocated(live)
            if claim is not None:
                held_now = holding(claim, node, self._cache.claims.devices, entry)
                found.bound[uid] = ANYWHERE if held_now is None else node.name
                found.held += [] if held_now is None else [held_now]
            elif self._may_run(entry, node.name):
                # The watch of pods reports later what its pod has become.
                found.bound[uid] = node.name
            elif live is None:
                found.gone.append(uid)
            else:
                seen = self._seen.get(node.name, {}).get(uid)
                if entry.attempt == 0 or (seen is not None and seen.attempt == entry.attempt):
                    found.gone.append(uid)
                else:
                    found.bound[uid] = ""
                    # ``devices`` is empty for what preemption holds, or two attempts together.
                    if entry.devices and self._cache.claims.never_had_devices(live.metadata):
                        found.never_allocated.append(uid)
        found.moved += (held.uid for held in found.held if loses(ledger, held))
        return found

    def _may_run(self, entry: Allocation, node: str) -> bool:
        """Return whether a pod of the claim is bound and has not finished, by the watch of pods.

        An author can delete a claim under its pod. Of one that no watch of this process has
        reported, each pod that names it may be the one.
        """
        if not self._cache.claims.allocations(entry.uid):
            return self._cache.is_named(entry.pod_ref, node)
        return _has_pods(self._cache, entry.uid)

    def _note(self, ledger: NodeLedger, held: Iterable[Allocation]) -> None:
        """Note the attempts whose claims were seen with what the ledger says.

        An allocation that the watch reported stands for the first attempt that it is met with: a
        later one has the same devices while the watch has not reported the end of the earlier.
        """
        name = ledger.node.name
        earlier = self._seen.pop(name, {})
        cached = {each.uid: each for each in held}
        seen: dict[str, _Seen] = {
            uid: found
            for uid, found in earlier.items()
            if uid in ledger.allocations or uid in cached
        }
        for uid, each in cached.items():
            entry, number = ledger.allocations.get(uid), self._cache.claims.allocations(uid)
            if entry is None or entry.devices != each.devices:
                continue
            if uid not in seen or seen[uid].number != number:
                seen[uid] = _Seen(number, entry.attempt)
        if seen:
            self._seen[name] = seen


def has_ended(
    cache: ClusterCache, held: Allocation, free_at: Callable[[Departure], int | None]
) -> bool:
    """Return whether the watches saw a claim get devices and lose them, and all its pods end."""
    claims, uid = cache.claims, held.uid
    if claims.is_allocated(held) or not claims.allocations(uid) or _has_pods(cache, uid):
        return False
    return lingering_of_claim(cache, uid, free_at, moved=False) is None


def lingering_of_claim(
    cache: ClusterCache, uid: str, free_at: Callable[[Departure], int | None], *, moved: bool
) -> int | None:
    """Return until when containers may run with devices that a claim had, in seconds since 1970.

    None where none can: its pods have finished, or their kubelet deleted them. Of a claim that no
    watch of this process has reported, nothing is known.

    Args:
        cache: the watched objects.
        uid: of the claim.
        free_at: when the cards of a deleted pod are free.
        moved: whether the claim got other devices at once. Only pods count then whose deletion this
            process has seen: nothing else says that a pod ever ran with the earlier devices, which
            may be those of an attempt that failed.
    """
    gone = [pod.uid for pod in cache.claims.consumers(uid) if not _exists(cache, pod)]
    if moved:
        departures = [*filter(None, map(cache.departures.noted, gone))]
    else:
        departures = [*map(cache.departures.of, gone)]
        if not cache.claims.allocations(uid):
            departures.append(UNKNOWN)
    return max((time for time in map(free_at, departures) if time is not None), default=None)


def _has_pods(cache: ClusterCache, uid: str) -> bool:
    """Return whether a pod for which a claim was reserved exists and has not finished."""
    existing = [each for each in cache.claims.consumers(uid) if _exists(cache, each)]
    found = (cache.pod(each.namespace, each.name) for each in existing)
    return any(pod is not None and may_use_cards(pod) for pod in found)


def _exists(cache: ClusterCache, pod: PodRef) -> bool:
    found = cache.pod(pod.namespace, pod.name)
    return found is not None and found.metadata.uid == pod.uid


def loses(ledger: NodeLedger, held: Allocation) -> bool:
    """Return whether the ledger has something for a claim that its devices are not any more."""
    entry = ledger.allocations.get(held.uid)
    if entry is None or entry.unread is not None or held.unread is not None:
        return False
    if entry.release_by is not None:
        return True
    return set(enlarged(held.grants, entry.grants)) != set(held.grants)


def _newer(ledger: NodeLedger, held: Allocation) -> bool:
    """Return whether the ledger has something newer than the cache for a claim."""
    entry = ledger.allocations.get(held.uid)
    return (
        entry is not None
        and entry.attempt > 0
        and held.unread is None
        and entry.devices != held.devices
    )

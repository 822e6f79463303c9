"""Which pods would have to go so that a waiting pod fits one node."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from adapters.accounting.pod_requests import ClaimsPod
from adapters.answer.answer import ClusterFacts, PodAnswer
from adapters.answer.claims import held_if_free, requested_of, with_pods_of_claims
from adapters.dialects.dra import DRA
from adapters.dialects.volcano.keys import INFO
from adapters.wire.kube import Pod
from core.feasibility.preempt import victims
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.reason import Reason
from core.requests.request import Request

NODES = 20
"""Nodes for which victims are computed, at most: those with the fewest pods."""

NAMED = 3
"""Pods that are named in a sentence."""

HIGHEST = 1 << 31
"""Above every priority of a pod."""


@dataclass(frozen=True, slots=True)
class NodeEviction:
    """The fewest pods whose end lets a pod fit one node.

    ``preemption``: all of them have a lower priority, so that they may be evicted for it.
    """

    node: str
    pods: tuple[Allocation, ...]
    preemption: bool

    def text(self, pod: Pod, *, evicts: bool | None) -> str:
        """Say which pods of lower priority would make room for a pod, and what evicts them.

        ``evicts`` is whether the service does; None where its settings are not known.
        """
        named = [f"{each.pod} (priority {each.priority})" for each in self.pods[:NAMED]]
        more = len(self.pods) - NAMED
        pods = ", ".join(named) + (f" and {more} more" if more > 0 else "")
        by = {
            True: "the service does so, as budgets allow",
            False: "evictions are off (preemption.enabled)",
            None: "the service does so only with preemption.enabled",
        }
        how = by[evicts] if is_served(pod) else "vc-scheduler does so only with its action preempt"
        return f"evicting {pods} would make room on {self.node}; {how}"


def is_served(pod: Pod) -> bool:
    """Return whether the service may evict for a pod: vc-scheduler does that itself, or not."""
    return pod.spec.scheduler_name != INFO.scheduler


def may_evict(answer: PodAnswer) -> bool:
    """Return whether evictions may help a pod.

    A gang gets nothing by them, and for a pod with scheduling gates none is to end.
    """
    spec = answer.pod.spec
    is_barred = bool(spec.scheduling_gates) or spec.preemption_policy == "Never"
    return answer.fits_nowhere and not (answer.waits_for_gang or is_barred)


def evictions(
    answer: PodAnswer, facts: ClusterFacts, *, any_priority: bool = False
) -> Iterator[NodeEviction | None]:
    """Compute what would have to go on nodes that a pod would fit if they were empty.

    A step may take milliseconds. With ``any_priority`` pods of the same or a higher priority are
    named too, where no others help. For devices of plugins a pod's scheduler preempts itself, and
    for those of claims vc-scheduler evicts none.
    """
    pod, request, inventory = answer.pod, answer.request, facts.inventory
    evicts = may_evict(answer)
    if request is not None:
        is_ours = evicts and request.plugin is None
        names = facts.evaluate(request).resolvable(answer.candidates.names)
        yield from evictions_on(
            request if is_ours else replace(request, priority=-HIGHEST),
            filter(None, map(inventory.get, names)),  # a node may be gone by now
            any_priority=any_priority,
        )
    asked = requested_of(pod, answer.found, facts.claims)
    if asked is None or answer.claims is None:
        return
    by_claims, fits = ClaimsPod.of(pod, None).request, partial(held_if_free, asked, facts, pod)
    if not (evicts and is_served(pod) and facts.gang(pod) is None):
        by_claims = replace(by_claims, priority=-HIGHEST)
    ledgers: list[NodeLedger] = []
    for ledger in filter(None, map(inventory.get, answer.claims.reasons.names)):
        if not isinstance(fits(ledger.release(*ledger.allocations)), Reason):
            ledgers.append(with_pods_of_claims(ledger, facts, pod))
        yield None
    yield from evictions_on(by_claims, ledgers, fits, any_priority=any_priority)


def evictions_on(
    request: Request,
    ledgers: Iterable[NodeLedger],
    fits: Callable[[NodeLedger], object] | None = None,
    *,
    any_priority: bool = False,
) -> Iterator[NodeEviction | None]:
    """Compute what would have to go on each of some nodes, none of which has room.

    First those of which pods may be evicted, and of these those with the fewest pods.
    """
    found = ((_evictable(request, each), each) for each in ledgers if each.allocations)
    busy = [each for each in found if each[0] or any_priority]
    busy.sort(key=lambda each: (not each[0], len(each[1].allocations)))
    for lower, ledger in busy[:NODES]:
        pods = victims(request, ledger, lower, fits=fits)
        preemption = bool(pods) and not isinstance(pods, Reason)
        if any_priority and not preemption:
            pods = victims(replace(request, priority=HIGHEST), ledger, fits=fits)
        name = ledger.node.name
        yield None if isinstance(pods, Reason) or not pods else NodeEviction(name, pods, preemption)


def _evictable(request: Request, ledger: NodeLedger) -> list[str]:
    """Return the pods of lower priority: a claim is none, and a deleted pod is gone already."""
    return [
        one.uid
        for one in ledger.allocations.values()
        if one.priority < request.priority and one.dialect != DRA and one.release_by is None
    ]


def cost(eviction: NodeEviction) -> tuple[object, ...]:
    """Less is better; in the order in which the service chooses victims (``NodeVictims.cost``)."""
    priorities = [each.priority for each in eviction.pods]
    total = sum(priority + 2**31 for priority in priorities)
    return max(priorities), total, len(priorities), eviction.node

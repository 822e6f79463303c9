"""Which pods would have to go so that a waiting pod fits one node."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from adapters.answer.answer import PodAnswer
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


def evicting(answer: PodAnswer) -> Request | None:
    """Return the request of a pod that evictions may help; None where they do not.

    A gang gets nothing by them, a pod of a device plugin has its scheduler preempt, and for one
    with scheduling gates no pod is to end.
    """
    request, gated = answer.request, bool(answer.pod.spec.scheduling_gates)
    if request is None or request.plugin is not None or answer.waits_for_gang or gated:
        return None
    waits = answer.fits_nowhere and answer.pod.spec.preemption_policy != "Never"
    return request if waits else None


def evictions(
    request: Request, ledgers: Iterable[NodeLedger], *, any_priority: bool = False
) -> Iterator[NodeEviction | None]:
    """Compute what would have to go on each of some nodes; a step may take milliseconds.

    The request fits none of them, and would if they were empty. With ``any_priority`` pods of the
    same or a higher priority are named too, where no others help.
    """
    busy = (
        each
        for each in ledgers
        if (each.allocations if any_priority else _evictable(request, each))
    )
    for ledger in sorted(busy, key=lambda each: len(each.allocations))[:NODES]:
        found = _eviction(request, ledger, preemption=True)
        if found is None and any_priority:
            found = _eviction(replace(request, priority=HIGHEST), ledger, preemption=False)
        yield found


def _evictable(request: Request, ledger: NodeLedger) -> list[str]:
    """Return the pods of lower priority: a claim is none, and a deleted pod is gone already."""
    return [
        one.uid
        for one in ledger.allocations.values()
        if one.priority < request.priority and one.dialect != DRA and one.release_by is None
    ]


def _eviction(request: Request, ledger: NodeLedger, *, preemption: bool) -> NodeEviction | None:
    pods = victims(request, ledger, _evictable(request, ledger) if preemption else None)
    if isinstance(pods, Reason) or not pods:
        return None
    return NodeEviction(ledger.node.name, pods, preemption)


def cost(eviction: NodeEviction) -> tuple[object, ...]:
    """Less is better; in the order in which the service chooses victims (``NodeVictims.cost``)."""
    priorities = [each.priority for each in eviction.pods]
    total = sum(priority + 2**31 for priority in priorities)
    return max(priorities), total, len(priorities), eviction.node

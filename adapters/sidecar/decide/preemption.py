"""Whom a scheduler's preemption puts off: the least pods that free the cards, budgets in mind."""

from collections.abc import Mapping, Sequence

from adapters.dialects.adopt import may_use_cards
from adapters.sidecar.decide.pod_requests import PodRequest
from adapters.sidecar.decide.service import Service
from adapters.wire.budget import Budget, violations
from adapters.wire.kube import Pod
from core.feasibility.preempt import victims
from core.ledger.node_ledger import NodeLedger
from core.requests.reason import Reason

Proposal = tuple[Sequence[str], int]
"""Uids of pods that go from a node, the highest priority first, and how many budgets that breaks.

kube-scheduler compares nodes by the first. Source: kubernetes 1.37.1
pkg/scheduler/framework/preemption/preemption.go, pickOneNodeForPreemption.
"""


async def choose(
    service: Service, asking: PodRequest, proposed: Mapping[str, Proposal]
) -> dict[str, Proposal]:
    """Who must go from each node so that a pod fits.

    A proposed pod that holds no card stays: it makes room for something else. Of those with cards
    the least are chosen anew, among all that are bound there: first such that break no budget.

    Args:
        service: that knows the ledgers.
        asking: the pod that is to fit.
        proposed: by node, whom the scheduler would put off; it may be nobody.

    Returns:
        by node; nodes where nobody must go, or where it does not help, are left out.
    """
    try:
        budgets: Sequence[Budget] | None = await service.ports.budgets.all()
    except OSError:
        budgets = None
    found: dict[str, Proposal] = {}
    for node, proposal in proposed.items():
        ledger = service.ledgers.ledger(node)
        if ledger is not None:
            pods = await _expendable(service, asking, ledger)
            gone = _victims(asking, ledger, proposal, pods, budgets)
            if gone[0]:
                found[node] = gone
    return found


async def _expendable(service: Service, asking: PodRequest, ledger: NodeLedger) -> dict[str, Pod]:
    """Pods that may go, by uid, in the order in which they would: low priority first, then young.

    What is only planned for a pod that is not bound here cannot be had by evicting it.
    """
    found: dict[str, Pod] = {}
    youngest_first = [*ledger.allocations.values()][::-1]
    for one in sorted(youngest_first, key=lambda allocation: allocation.priority):
        if one.priority >= asking.request.priority:
            break
        try:
            pod = await service.ports.pods.get(one.pod_ref)
        except OSError:
            continue
        if pod is None or pod.metadata.uid != one.uid:
            continue
        if pod.spec.node_name == ledger.node.name and may_use_cards(pod):
            found[one.uid] = pod
    return found


def _victims(
    asking: PodRequest,
    ledger: NodeLedger,
    proposal: Proposal,
    pods: Mapping[str, Pod],
    budgets: Sequence[Budget] | None,
) -> Proposal:
    named, broken = proposal
    others = [uid for uid in named if uid not in ledger.allocations]
    if budgets is None:  # all that is known is how many the scheduler counts
        protected = frozenset(named if broken >= len(named) else ())
    else:
        breaking = violations([*pods.values()], budgets)
        protected = frozenset(uid for uid, breaks in zip(pods, breaking, strict=True) if breaks)
    least = victims(asking.request, ledger, candidates=pods.keys(), protected=protected)
    if isinstance(least, Reason):
        return (), 0
    if not least:  # cards are not what is short
        return named, broken
    gone = [*others, *(one.uid for one in reversed(least))]
    if budgets is None:
        going = len(others) + sum(one.uid in protected for one in least)
        return gone, min(broken, going)
    breaks_now = sum(violations([pods[one.uid] for one in least], budgets))
    return gone, breaks_now + min(broken, len(others))

"""Selects preemption victims: the fewest pods whose eviction frees enough cards.

Pods that a PodDisruptionBudget protects are chosen last.
"""

from collections.abc import Mapping, Sequence

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.adoption.adopt import may_use_cards
from adapters.service.decide.advice.recorded import Victims, VictimsSelected
from adapters.service.decide.service import Service
from adapters.wire.budget import Budget, violations
from adapters.wire.extender import Proposal
from adapters.wire.kube import Pod
from core.feasibility.preempt import victims
from core.ledger.node_ledger import NodeLedger
from core.requests.reason import Reason


async def choose(
    service: Service, pod_request: PodRequest, proposed: Mapping[str, Proposal]
) -> dict[str, Proposal]:
    """Which pods to evict from each node so that a pod fits.

    A proposed pod that has no card stays proposed: its eviction frees something else. Of the pods
    with cards the fewest are chosen, among all that are bound to the node: first such that break
    no budget.

    Args:
        service: the service, with the ledgers.
        pod_request: the pod that is to fit.
        proposed: by node, what the scheduler would evict; it may be no pod.

    Returns:
        by node; nodes where no eviction is needed, or where it does not help, are left out. So are
        those where the pod's quota would refuse it after the evictions.
    """
    try:
        budgets: Sequence[Budget] | None = await service.ports.budgets.all()
    except OSError:
        budgets = None
    chosen: dict[str, Proposal] = {}
    for node, proposal in proposed.items():
        ledger = service.ledgers.ledger(node)
        if service.feasibility.evaluate(pod_request).is_untouched(node):
            if proposal[0]:
                chosen[node] = proposal
        elif ledger is not None:
            candidates = await _candidates(service, pod_request, ledger)
            protected = _protected(proposal, candidates, budgets)
            request = pod_request.request
            fewest = victims(request, ledger, candidates.keys(), protected)
            service.ports.recorder.record(
                VictimsSelected(
                    pod_request, ledger, request.priority, candidates, protected, fewest
                )
            )
            evicted = _evicted(ledger, proposal, candidates, budgets, fewest)
            if evicted[0] and service.quotas.refusal_after(request, ledger, evicted[0]) is None:
                chosen[node] = evicted
    return chosen


async def _candidates(
    service: Service, pod_request: PodRequest, ledger: NodeLedger
) -> dict[str, Pod]:
    """Pods that may be evicted, by uid, in the order of eviction: low priority first, then young.

    Cards that are only planned for a pod that is not bound here are not freed by evicting it.
    """
    candidates: dict[str, Pod] = {}
    youngest_first = [*ledger.allocations.values()][::-1]
    for allocation in sorted(youngest_first, key=lambda each: each.priority):
        if allocation.priority >= pod_request.request.priority:
            break
        try:
            pod = await service.ports.pods.get(allocation.pod_ref)
        except OSError:
            continue
        if pod is None or pod.metadata.uid != allocation.uid:
            continue
        if pod.spec.node_name == ledger.node.name and may_use_cards(pod):
            candidates[allocation.uid] = pod
    return candidates


def _protected(
    proposal: Proposal, candidates: Mapping[str, Pod], budgets: Sequence[Budget] | None
) -> frozenset[str]:
    proposed, violated = proposal
    if budgets is None:  # only the scheduler's count is known
        return frozenset(proposed if violated >= len(proposed) else ())
    violating = violations([*candidates.values()], budgets)
    return frozenset(uid for uid, violates in zip(candidates, violating, strict=True) if violates)


def _evicted(
    ledger: NodeLedger,
    proposal: Proposal,
    candidates: Mapping[str, Pod],
    budgets: Sequence[Budget] | None,
    fewest: Victims,
) -> Proposal:
    proposed, violated = proposal
    without_cards = [uid for uid in proposed if uid not in ledger.allocations]
    if isinstance(fewest, Reason):
        return (), 0
    if not fewest:  # the pod does not lack cards
        return proposed, violated
    evicted = [*without_cards, *(victim.uid for victim in reversed(fewest))]
    if budgets is None:
        protected = _protected(proposal, candidates, budgets)
        most = len(without_cards) + sum(victim.uid in protected for victim in fewest)
        return evicted, min(violated, most)
    violated_now = sum(violations([candidates[victim.uid] for victim in fewest], budgets))
    return evicted, violated_now + min(violated, len(without_cards))

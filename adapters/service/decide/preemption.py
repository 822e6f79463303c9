"""Selects preemption victims: the fewest pods whose eviction frees enough cards.

Pods that a PodDisruptionBudget protects are chosen last. Pods of a group that may only be disrupted
together are victims all or not at all.

A pod with ResourceClaims is helped where the devices of a node are sure, and the pod has everything
but devices there: the arbiter rejected its devices of that node, or kube-scheduler found nothing
else in the way on any node where the pod may run. kube-scheduler 1.37.1 evicts no pod for devices.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from adapters.accounting.gang_cache import DisruptedTogether
from adapters.accounting.pod_requests import ClaimsPod, PodRequest, Wanted
from adapters.answer.answer import DEFAULT
from adapters.answer.claims import held_if_free, requested_of, with_pods_of_claims
from adapters.answer.node_rules import node_rule
from adapters.dialects.adoption import may_use_cards
from adapters.dialects.dra import DRA
from adapters.service.decide.service import Service
from adapters.wire.extender import Proposal
from adapters.wire.kube import Pod, rejection_of
from adapters.wire.kube_policy import Budget, violations
from core.durations import SECOND
from core.feasibility.fit import fit
from core.feasibility.preempt import EvictedTogether, victims
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from core.requests.reason import Reason

LATE = 60 * SECOND
"""Nanoseconds after its grace period for which a pod that is being deleted may still go by itself:
one on a node that is away never does."""

_ALL_REJECTED = re.compile(
    r"0/(\d+) nodes are available: (?:.*, )?(\d+) cannot allocate all claims"
)
"""Source: kubernetes 1.37.1 pkg/scheduler/framework/plugins/dynamicresources, the last filter."""

_DENIED = re.compile(r'running PreBind plugin "DynamicResources": .* dragoman: ([^\s:]+): ')
"""How the arbiter's denial comes back."""


def wanted_by(service: Service, pod: Pod) -> Wanted | None:
    """Return what a pod wants of the ledgers: by its claims, else its share, else None.

    Raises:
        DialectError: the request is invalid.
    """
    found = service.pod_requests.read(pod)
    asked = requested_of(pod, found, service.facts.claims)
    return found if asked is None else ClaimsPod.of(pod, found)


def lacks_only_devices(service: Service, pod: Pod) -> tuple[str, ...]:
    """Return the nodes where a pod has everything but devices, by what its scheduler says."""
    rejection = rejection_of(pod)
    message = "" if rejection is None else rejection.message
    denied, rejected = _DENIED.match(message), _ALL_REJECTED.match(message)
    if denied is not None:
        return (denied[1],)
    if rejected is None or (pod.spec.scheduler_name or DEFAULT) != DEFAULT:
        return ()
    nodes = service.ports.objects.nodes()
    names = tuple(name for name, node in nodes.items() if node_rule(pod, node) is None)
    # A node that another filter rejects is not in the second number.
    return names if rejected.groups() == (str(len(nodes)), str(len(names))) else ()


def held_then(
    service: Service, wanted: Wanted
) -> Callable[[NodeLedger], tuple[Allocation, ...] | Reason]:
    """Return what says what a pod, or each of its claims, would surely hold by a ledger."""
    if isinstance(wanted, PodRequest):
        request = wanted.request

        def of_pod(ledger: NodeLedger) -> tuple[Allocation, ...] | Reason:
            found = fit(request, ledger)
            return found if isinstance(found, Reason) else (Allocation.of(request, found),)

        return of_pod
    pod, facts = wanted.pod, service.facts
    return partial(held_if_free, requested_of(pod, wanted.found, facts.claims), facts, pod)


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """Pods whose eviction frees the cards of a node that a pod needs.

    Attributes:
        node: whose cards.
        pods: to evict, on all nodes, the lowest priority first; none where pods that are being
            deleted free enough.
        priorities: of the allocations that they have on the node, descending.
        grants: what the pod gets then.
    """

    node: str
    pods: tuple[Pod, ...]
    priorities: tuple[int, ...]
    grants: tuple[Grant, ...]

    @property
    def cost(self) -> tuple[object, ...]:
        """Less is better; in the order in which kube-scheduler compares nodes.

        Source: kubernetes 1.37.1 pkg/scheduler/framework/preemption/preemption.go,
        pickOneNodeForPreemption.
        """
        total = sum(priority + 2**31 for priority in self.priorities)
        return self.priorities[:1], total, len(self.pods), self.node


async def choose(
    service: Service, pod_request: PodRequest, proposed: Mapping[str, Proposal]
) -> dict[str, Proposal]:
    """Return which pods to evict from each node so that a pod fits.

    A proposed pod that has no card stays proposed: its eviction frees something else. Of the pods
    with cards the fewest are chosen, among all that are bound to the node: first such that break
    no budget.

    Args:
        service: the service, with the ledgers.
        pod_request: the pod that is to fit.
        proposed: by node, what the scheduler would evict; it may be no pod.

    Returns:
        by node; nodes where no eviction is needed, or where it does not help, are left out. So are
        those where the pod's quota would refuse it after the evictions, and those from which pods
        would go that are only disrupted with pods of other nodes: kube-scheduler accepts no victim
        that is not on the node.
    """
    try:
        budgets: Sequence[Budget] | None = await service.ports.budgets()
    except OSError:
        budgets = None
    chosen: dict[str, Proposal] = {}
    for node, proposal in proposed.items():
        ledger = service.ledgers.ledger(node)
        if service.feasibility.evaluate(pod_request).is_untouched(node):
            if proposal[0]:
                chosen[node] = proposal
        elif ledger is not None:
            evicted = await _evicted(service, pod_request, ledger, proposal, budgets)
            if (
                evicted[0]
                and service.quotas.refusal_after(pod_request.request, ledger, evicted[0]) is None
            ):
                chosen[node] = evicted
    return chosen


async def node_victims(
    service: Service, pod_request: Wanted, node: str, budgets: Sequence[Budget]
) -> NodeVictims | None:
    """Return the fewest pods, none of which a budget protects, without which a pod fits on a node.

    Args:
        service: the service, with the ledgers.
        pod_request: the pod that is to fit; everything but cards it has on the node.
        node: its name.
        budgets: of the cluster.

    Returns:
        None where evictions do not help, or where its quota would refuse the pod after them.

    Raises:
        OSError: the API server did not confirm that a pod has ended.
    """
    ledger = service.ledgers.ledger(node)
    if ledger is None:
        return None
    request, held = pod_request.request, held_then(service, pod_request)
    is_pod = isinstance(pod_request, PodRequest)
    if not is_pod:
        ledger = with_pods_of_claims(ledger, service.facts, pod_request.pod)
    ledger = ledger.release(*await _leaving(service, ledger))
    if not isinstance(held(ledger), Reason):
        return NodeVictims(node, (), (), ())
    found = await _candidates(service, pod_request, ledger)
    # A pod that is being deleted for too long does not go because it is evicted.
    going_on = {uid: pod for uid, pod in found.pods.items() if not pod.metadata.deletion_timestamp}
    candidates = _Candidates(going_on, found.groups)
    protected = candidates.protected(budgets)
    groups, fits = candidates.together(ledger), None if is_pod else held
    fewest = victims(request, ledger, candidates.pods, protected, groups, fits)
    if isinstance(fewest, Reason):
        return None
    pods = candidates.with_groups(fewest)
    on_node = [one.uid for one in fewest]
    if is_pod and service.quotas.refusal_after(request, ledger, on_node) is not None:
        return None
    if any(violations(pods, budgets)):
        return None
    placement = held(ledger.release(*on_node))
    grants = placement[0].grants if is_pod and not isinstance(placement, Reason) else ()
    priorities = sorted((one.priority for one in fewest), reverse=True)
    return NodeVictims(node, pods, tuple(priorities), grants)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Pods of a node that may be evicted.

    Attributes:
        pods: by uid, in the order of eviction: low priority first, then young.
        groups: those that are only disrupted together with others, by the uid of each.
    """

    pods: Mapping[str, Pod]
    groups: Mapping[str, DisruptedTogether]

    def together(self, ledger: NodeLedger) -> tuple[EvictedTogether, ...]:
        """Return the groups, each once, with what they have of a node."""
        uids_of = {frozenset(p.metadata.uid for p in one.pods): one for one in self.groups.values()}
        return tuple(
            EvictedTogether(uids & ledger.allocations.keys(), len(uids), group.priority)
            for uids, group in uids_of.items()
        )

    def with_groups(self, chosen: Sequence[Allocation]) -> tuple[Pod, ...]:
        """Return some of the pods, and those with which they are disrupted, on all nodes."""
        found: dict[str, Pod] = {}
        for each in chosen:
            found[each.uid] = self.pods[each.uid]
            found |= {pod.metadata.uid: pod for pod in self._group(each.uid)}
        return tuple(found.values())

    def protected(self, budgets: Sequence[Budget]) -> frozenset[str]:
        """Return the pods that break a budget, or are disrupted with one that does."""
        known = {**self.pods}
        for group in self.groups.values():
            known |= {pod.metadata.uid: pod for pod in group.pods}
        violating = zip(known, violations([*known.values()], budgets), strict=True)
        breaking = {uid for uid, breaks in violating if breaks}
        return frozenset(
            uid
            for uid in self.pods
            if uid in breaking
            or not breaking.isdisjoint(pod.metadata.uid for pod in self._group(uid))
        )

    def _group(self, uid: str) -> Iterator[Pod]:
        group = self.groups.get(uid)
        if group is not None:
            yield from group.pods


async def _candidates(service: Service, pod_request: Wanted, ledger: NodeLedger) -> _Candidates:
    """Pods that may be evicted.

    Cards that are only planned for a pod that is not bound here are not freed by evicting it.
    """
    candidates: dict[str, Pod] = {}
    groups: dict[str, DisruptedTogether] = {}
    youngest_first = [*ledger.allocations.values()][::-1]
    for allocation in sorted(youngest_first, key=lambda each: each.priority):
        if allocation.priority >= pod_request.request.priority:
            break
        if allocation.dialect == DRA:
            continue
        try:
            pod = await service.ports.pods.get(allocation.pod_ref)
        except OSError:
            continue
        if pod is None or pod.metadata.uid != allocation.uid:
            continue
        if pod.spec.node_name == ledger.node.name and may_use_cards(pod):
            candidates[allocation.uid] = pod
            group = service.ports.gangs.disrupted_with(allocation.uid)
            if group is not None:
                groups[allocation.uid] = group
    return _Candidates(candidates, groups)


async def _leaving(service: Service, ledger: NodeLedger) -> list[str]:
    """Return the pods of a node that are being deleted, or are gone: their cards are free soon.

    Raises:
        OSError: the API server did not confirm that a pod has ended.
    """
    leaving = [each.uid for each in await service.ports.ended_among(ledger)]
    latest = service.ports.clock.wall() - LATE
    for allocation in ledger.allocations.values():
        if allocation.release_by is not None and latest < allocation.release_by * SECOND:
            leaving.append(allocation.uid)
        if allocation.dialect == DRA or allocation.release_by is not None:
            continue
        try:
            pod = await service.ports.pods.get(allocation.pod_ref)
        except OSError:
            continue
        if pod is not None and pod.metadata.uid == allocation.uid and leaves(service, pod):
            leaving.append(allocation.uid)
    return leaving


def leaves(service: Service, pod: Pod) -> bool:
    """Return whether a pod is being deleted, and not much later than its grace period."""
    try:
        end = datetime.fromisoformat(pod.metadata.deletion_timestamp or "").timestamp()
    except (ValueError, OverflowError):
        return False
    return service.ports.clock.wall() < int(end * SECOND) + LATE


async def _evicted(
    service: Service,
    pod_request: PodRequest,
    ledger: NodeLedger,
    proposal: Proposal,
    budgets: Sequence[Budget] | None,
) -> Proposal:
    """Return what to evict from a node in place of a proposal; no pod where that does not help."""
    proposed, violated = proposal
    gangs, node = service.ports.gangs, ledger.node.name
    if any(_is_elsewhere(gangs.disrupted_with(uid), node) for uid in proposed):
        return (), 0
    found = await _candidates(service, pod_request, ledger)
    here = {
        uid: pod
        for uid, pod in found.pods.items()
        if not _is_elsewhere(found.groups.get(uid), node)
    }
    candidates = _Candidates(here, found.groups)
    if budgets is not None:
        protected = candidates.protected(budgets)
    else:  # only the scheduler's count is known
        protected = frozenset(proposed if violated >= len(proposed) else ())
    fewest = victims(pod_request.request, ledger, here, protected, candidates.together(ledger))
    if isinstance(fewest, Reason):
        return (), 0
    if not fewest:  # the pod does not lack cards
        return proposed, violated
    pods = {pod.metadata.uid: pod for pod in candidates.with_groups(fewest)}
    without_cards = [uid for uid in proposed if uid not in ledger.allocations and uid not in pods]
    evicted = [*without_cards, *reversed(pods)]
    if budgets is None:
        most = len(without_cards) + sum(uid in protected for uid in pods)
        return evicted, min(violated, most)
    violated_now = sum(violations([*pods.values()], budgets))
    return evicted, violated_now + min(violated, len(without_cards))


def _is_elsewhere(group: DisruptedTogether | None, node: str) -> bool:
    """Return whether pods of a group are on other nodes."""
    return group is not None and any(pod.spec.node_name != node for pod in group.pods)

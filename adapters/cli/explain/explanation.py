"""What there is to say about one pod, as a value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.cli.input.candidates import CandidateChoice
from adapters.cli.output.node_texts import NodeTexts
from adapters.cli.view.verdict import Judge, Verdict
from adapters.dialects.adoption.adopt import FINISHED, may_use_cards
from adapters.dialects.device_plugins.plain_pods import NO_AMOUNTS, plain_amounts
from adapters.dialects.dialect import DialectError
from adapters.wire.kube import Pod
from core.feasibility.node_names import NodeNames
from core.feasibility.preempt import victims
from core.feasibility.smallest_change import RequestChange, smallest_changes
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation
from core.requests.reason import Reason
from core.requests.request import Request

if TYPE_CHECKING:
    from adapters.cli.input.history import PodEvent  # it imports the client of a cluster

HIGHEST = 1 << 31
"""Above every priority of a pod."""

NODES = 20
"""Nodes for which the pods that would have to go are computed, at most."""


@dataclass(frozen=True, slots=True)
class NodeEviction:
    """The fewest pods whose end lets the pod fit one node.

    Attributes:
        node: name.
        pods: to end.
        preemption: all of them have a lower priority, so that a scheduler may evict them.
    """

    node: str
    pods: tuple[Allocation, ...]
    preemption: bool


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """One pod.

    Attributes:
        pod: the pod.
        verdict: where it fits, counting its own cards as free.
        node: the node that it is bound to; None where it is pending, or unknown.
        allocation: its cards; None where it has none.
        excluded: nodes that it fits and may not run on, by name with the cause.
        changes: the smallest changes of the request, each of which makes it fit.
        evictions: by number of pods.
        history: Events of the pod, oldest first.
        claims: what its ResourceClaims have, each with its node.
        devices: of device plugins that a bound pod has and no ledger knows, by resource.
        releases: by node, the fewest pods whose end frees the devices that it requests.
    """

    pod: Pod
    verdict: Verdict
    node: NodeState | None = None
    allocation: Allocation | None = None
    excluded: Mapping[str, str] | None = None
    changes: tuple[RequestChange, ...] = ()
    evictions: tuple[NodeEviction, ...] = ()
    history: "tuple[PodEvent, ...]" = ()
    claims: tuple[tuple[NodeState, Allocation], ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    releases: tuple[tuple[str, tuple[Pod, ...]], ...] = ()

    @property
    def finished(self) -> bool:
        """Whether all its containers have ended."""
        return self.pod.status.phase in FINISHED

    @property
    def well(self) -> bool:
        """Whether there is nothing to repair: it has its cards, fits, or needs none."""
        if self.finished:
            return True
        if self.pod.spec.node_name:
            held = (self.allocation, *(each for _, each in self.claims))
            return all(each is None or each.unread is None for each in held)
        return self.verdict.problem is None and (
            not self.verdict.requests or bool(self.verdict.fitting)
        )


def explain(fleet: Fleet, pod: Pod) -> PodExplanation:
    """Explain one pod of a cluster."""
    judge = Judge(fleet)
    verdict = judge.verdict(pod)
    state, allocation = _allocation(fleet, pod)
    found = PodExplanation(
        pod,
        verdict,
        state,
        allocation,
        claims=_claims(fleet, pod),
        devices=_devices(fleet, pod) if allocation is None else NO_AMOUNTS,
    )
    request, choice = verdict.request, verdict.candidates
    if pod.spec.node_name or request is None or choice is None or verdict.fitting:
        return found
    amounts = verdict.devices.amounts if verdict.devices else NO_AMOUNTS
    barred = CandidateChoice(NodeNames(choice.excluded), NodeTexts())
    others = judge.judge(request, amounts, barred)
    return replace(
        found,
        excluded={name: choice.excluded[name] for name in others.fitting},
        releases=() if verdict.devices is None else judge.devices.releases(verdict.devices),
        changes=tuple(
            smallest_changes(
                request, lambda each: bool(judge.judge(each, NO_AMOUNTS, choice).fitting)
            )
        ),
        evictions=_evictions(fleet, request, choice.names),
    )


def _allocation(fleet: Fleet, pod: Pod) -> tuple[NodeState | None, Allocation | None]:
    """The node of a pod and its cards; a pod that is being bound has cards and no node yet."""
    uid = pod.metadata.uid
    named = fleet.nodes.get(pod.spec.node_name or "")
    if named is not None:
        return named, named.ledger.allocations.get(uid)
    holders = (state for state in fleet.nodes.values() if uid in state.ledger.allocations)
    state = next(holders, None)
    return state, None if state is None else state.ledger.allocations[uid]


def _devices(fleet: Fleet, pod: Pod) -> Mapping[str, int]:
    """The devices of plugins that a pod has where it is bound."""
    try:
        return plain_amounts(pod, fleet.dialects) if may_use_cards(pod) else NO_AMOUNTS
    except DialectError:
        return NO_AMOUNTS


def _claims(fleet: Fleet, pod: Pod) -> tuple[tuple[NodeState, Allocation], ...]:
    uids = fleet.claims.get(pod.metadata.uid, ())
    return tuple(
        (state, state.ledger.allocations[uid])
        for uid in uids
        for state in fleet.nodes.values()
        if uid in state.ledger.allocations
    )


def _evictions(fleet: Fleet, request: Request, names: Sequence[str]) -> tuple[NodeEviction, ...]:
    ledgers = [fleet.nodes[name].ledger for name in names if fleet.nodes[name].unreadable is None]
    busy = sorted((each for each in ledgers if each.allocations), key=_size)
    found = [_eviction(request, ledger) for ledger in busy[:NODES]]
    return tuple(sorted(filter(None, found), key=lambda each: (len(each.pods), each.node)))


def _size(ledger: NodeLedger) -> int:
    return len(ledger.allocations)


def _eviction(request: Request, ledger: NodeLedger) -> NodeEviction | None:
    allowed = victims(request, ledger)
    if not isinstance(allowed, Reason) and allowed:
        return NodeEviction(ledger.node.name, allowed, preemption=True)
    every = victims(replace(request, priority=HIGHEST), ledger)
    if isinstance(every, Reason) or not every:
        return None
    return NodeEviction(ledger.node.name, every, preemption=False)

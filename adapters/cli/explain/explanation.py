"""What there is to say about one pod, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from adapters.accounting.gang_cache import Gang
from adapters.answer.answer import PodAnswer, held_devices
from adapters.answer.eviction import HIGHEST, NodeEviction, evicting, evictions
from adapters.answer.judge import Judge
from adapters.cli.fleet.facts import FleetFacts
from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.dialects.adoption import FINISHED
from adapters.dialects.matching import NO_AMOUNTS
from adapters.wire.kube import Pod
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import NodeNames
from core.feasibility.smallest_change import RequestChange, smallest_changes
from core.requests.grant import Allocation

if TYPE_CHECKING:
    from adapters.cli.input.cluster import PodEvent  # it imports the client of a cluster


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """One pod.

    Attributes:
        answer: where it fits, counting its own cards as free.
        node: the node that it is bound to; None where it is pending, or unknown.
        allocation: its cards; None where it has none.
        excluded: nodes that it fits and may not run on, by name with the cause.
        changes: the smallest changes of the request, each of which makes it fit.
        evictions: by number of pods.
        history: Events of the pod, oldest first.
        claims: what its ResourceClaims have, each with its node.
        devices: of device plugins that a bound pod has and no ledger knows, by resource.
        releases: by node, the fewest pods whose end frees the devices that it requests.
        gang: the pods with which it is bound together; None where it is bound alone.
    """

    answer: PodAnswer
    node: NodeState | None = None
    allocation: Allocation | None = None
    excluded: Mapping[str, str] | None = None
    changes: tuple[RequestChange, ...] = ()
    evictions: tuple[NodeEviction, ...] = ()
    history: "tuple[PodEvent, ...]" = ()
    claims: tuple[tuple[NodeState, Allocation], ...] = ()
    devices: Mapping[str, int] = field(default_factory=dict)
    releases: tuple[tuple[str, tuple[Pod, ...]], ...] = ()
    gang: Gang | None = None

    @property
    def pod(self) -> Pod:
        """The pod."""
        return self.answer.pod

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
        return self.answer.problem is None and (
            not self.answer.requests or self.answer.best is not None
        )


def explain(fleet: Fleet, pod: Pod) -> PodExplanation:
    """Explain one pod of a cluster."""
    facts = FleetFacts(fleet)
    judge = Judge(facts)
    answer = judge.answer(pod)
    state, allocation = _allocation(fleet, pod)
    found = PodExplanation(
        answer,
        state,
        allocation,
        claims=tuple(
            (state, state.ledger.allocations[uid])
            for uid in fleet.claims.get(pod.metadata.uid, ())
            for state in fleet.nodes.values()
            if uid in state.ledger.allocations
        ),
        devices=held_devices(facts, pod) if allocation is None else NO_AMOUNTS,
        gang=facts.gang(pod),
    )
    request = answer.request
    if pod.spec.node_name or request is None or answer.fitting:
        return found
    amounts = NO_AMOUNTS if answer.devices is None else answer.devices.amounts
    causes = dict(
        zip(
            answer.excluded.names,
            (answer.excluded.distinct[number].text() for number in answer.excluded.ids),
            strict=True,
        )
    )
    others = judge.fitting(request, amounts, NodeNames(answer.excluded.names))
    return replace(
        found,
        excluded={name: causes[name] for name in others},
        releases=() if answer.devices is None else judge.devices.releases(answer.devices),
        changes=tuple(smallest_changes(request, lambda each: judge.fits(each, answer.candidates))),
        evictions=_evictions(fleet, facts.evaluate(request), answer),
    )


def _allocation(fleet: Fleet, pod: Pod) -> tuple[NodeState | None, Allocation | None]:
    """Return the node of a pod and its cards; one that is being bound has no node yet."""
    uid = pod.metadata.uid
    named = fleet.nodes.get(pod.spec.node_name or "")
    if named is not None:
        return named, named.ledger.allocations.get(uid)
    holders = (state for state in fleet.nodes.values() if uid in state.ledger.allocations)
    state = next(holders, None)
    return state, None if state is None else state.ledger.allocations[uid]


def _evictions(
    fleet: Fleet, evaluation: NodeEvaluation, answer: PodAnswer
) -> tuple[NodeEviction, ...]:
    names = [name for name in answer.candidates.names if fleet.nodes[name].unreadable is None]
    ledgers = [fleet.nodes[name].ledger for name in evaluation.resolvable(names)]
    request = evicting(answer) or replace(evaluation.request, priority=-HIGHEST)
    found = evictions(request, ledgers, any_priority=True)
    return tuple(sorted(filter(None, found), key=lambda each: (len(each.pods), each.node)))

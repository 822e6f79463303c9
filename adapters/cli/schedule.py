"""Places the pending pods of the input on the cards of the input, one after another."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from adapters.accounting.gang_cache import Gang
from adapters.accounting.pod_requests import PodRequest, dialect_name
from adapters.answer.answer import GangAnswer, PodAnswer, scheduler_message, standing
from adapters.answer.device_plugins import devices_text
from adapters.answer.judge import Judge
from adapters.cli.fleet.facts import FleetFacts
from adapters.cli.fleet.fleet import Fleet, read_fleet
from adapters.cli.fleet.replicas import add_replicas
from adapters.cli.input.manifests import Manifests
from adapters.cli.output.report import (
    EVERY,
    NOT_PLACED,
    CardLine,
    GangLine,
    NodeTexts,
    PodLine,
    PodResult,
    ShareLine,
    Sharer,
    WorkloadLine,
)
from adapters.dialects.adoption import FINISHED, UNKNOWN, may_use_cards
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.dra import DRA
from adapters.dialects.matching import NO_AMOUNTS, plain_amounts
from adapters.wire.kube import Pod, full_name, gates_of, pod_ref
from core.hardware.node import Node
from core.ledger.problem import ProblemKind
from core.requests.gang import GangRef
from core.requests.grant import Allocation, Grant, Placement

NO_REQUEST = "requests no share"

OVER_ALLOCATED = frozenset(
    {ProblemKind.MEMORY, ProblemKind.COMPUTE, ProblemKind.SLOTS, ProblemKind.CONFLICT}
)
"""Problems of a card of which pods have more than there is."""

Progress = Callable[[Sequence[Pod]], Iterable[Pod]]
"""Iterates over the pods and shows the progress of the run."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The user's options of a run.

    Attributes:
        defaults: for pods that set no policy.
        now: nanoseconds since 1970, for the annotations.
        explain: report for placed pods too why they do not fit the other nodes.
        progress: iterates over the pods.
    """

    defaults: Defaults
    now: int
    explain: bool = False
    progress: Progress = iter


@dataclass(frozen=True, slots=True)
class Warnings:
    """What the user should know, as sentences: of the cluster first, then pod by pod.

    Attributes:
        cluster: of nodes and of the rest of the input.
        bound: of bound pods that count nowhere.
        ledgers: of allocations that are more than a card has, or that could not be read.
        pending: of pods that were placed, or not.
    """

    cluster: Sequence[str]
    ledgers: Sequence[str]
    bound: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        """Return each sentence once; more come while pods are placed."""
        every = (*self.cluster, *self.bound, *self.ledgers, *self.pending)
        return iter(dict.fromkeys(every))


class Run:
    """The pending pods of a cluster, which are placed in order of the input beside the bound ones.

    A report can be written while the run goes on. ``cards``, ``warnings`` and ``complete`` are for
    its end.

    Attributes:
        fleet: before any pod was placed.
        inventory: the ledgers, with what was placed so far.
        warnings: so far.
        over_allocated: uuids of cards of which bound pods have more than there is.
        complete: whether every pod that requests a share has one so far, and no card is
            over-allocated.
        workloads: those that make pods of the input, with how many were placed so far.
    """

    def __init__(self, fleet: Fleet, options: RunOptions) -> None:
        self.fleet = fleet
        self.options = options
        self._facts = FleetFacts(fleet)
        self.inventory = self._facts.inventory
        ledgers: list[str] = []
        over: list[str] = []
        for state in fleet.nodes.values():
            held = state.ledger.allocations.values()
            for problem in state.ledger.problems():
                owner = f"node {state.node.name}"
                if problem.pod:
                    is_claim = any(e.pod == problem.pod and e.dialect == DRA for e in held)
                    owner = f"{'ResourceClaim' if is_claim else 'pod'} {problem.pod}"
                ledgers.append(f"{owner}: {problem.text}")
                if problem.kind in OVER_ALLOCATED:
                    over.append(problem.card)
        self.warnings = Warnings(fleet.warnings(), ledgers)
        self.over_allocated = tuple(over)
        self.complete = not over
        self.workloads = {ref: WorkloadLine(ref) for ref in fleet.made.values()}
        self._judge = Judge(self._facts)
        self._gangs: dict[frozenset[GangRef], GangAnswer] = {}
        self._allocated = {
            uid: name for name, state in fleet.nodes.items() for uid in state.ledger.allocations
        }

    @classmethod
    def of(cls, manifests: Manifests, options: RunOptions) -> "Run":
        """Return the run for some input, with the pods that its workloads make.

        Raises:
            InputError: a settings file or a workload cannot be used.
        """
        if manifests.workloads:
            add_replicas(manifests, [node for node, _ in manifests.nodes.values()])
        return cls(read_fleet(manifests, options.defaults), options)

    def place_all(self) -> Iterator[PodLine]:
        """Yield the line of each pod in order of the input; place the pending ones on the way."""
        for pod in self.options.progress([*self.fleet.pods.values()]):
            gang = self._facts.gang(pod)
            line = self._bound(pod) if pod.spec.node_name else self._place(pod, gang)
            if gang is not None:
                line = replace(line, gang=GangLine.of(gang))
            self.complete &= line.result not in NOT_PLACED
            workload = self.fleet.made.get(full_name(pod))
            if workload is not None:
                self.workloads[workload].count(line.result)
            yield line

    def _bound(self, pod: Pod) -> PodLine:
        """Return the line of a pod that is already bound."""
        name = pod.spec.node_name or ""
        if not may_use_cards(pod):
            return _ended(pod, node=name)
        state = self.fleet.nodes.get(name)
        if state is None:
            text = f"already bound to {name}, which is not among the input"
            self.warnings.bound.append(f"pod {full_name(pod)}: {text}")
            return PodLine(pod_ref(pod), PodResult.BOUND, text, node=name)
        adopted = state.ledger.allocations.get(pod.metadata.uid)
        if adopted is None:
            try:
                amounts = plain_amounts(pod, self.fleet.dialects)
            except DialectError:
                amounts = NO_AMOUNTS
            claims = self.fleet.claims.of_pod(pod.metadata.uid)
            own = any(each.uid in state.ledger.allocations for each in claims)
            flaws = "; ".join(self.fleet.claims.uncounted(pod))
            if own or flaws:
                has = "the cards of its claims" if own else f"devices by claims: {flaws}"
            elif amounts:
                has = f"{devices_text(amounts)} of the device plugin, in no ledger"
            else:
                return PodLine(pod_ref(pod), PodResult.SKIPPED, NO_REQUEST, node=name)
            text = f"already bound, has {has}"
            dialect = dialect_name(pod, self.fleet.dialects)
            return PodLine(pod_ref(pod), PodResult.BOUND, text, dialect=dialect, node=name)
        text = "already bound" if adopted.unread is None else f"already bound, but {adopted.unread}"
        return PodLine(
            pod_ref(pod),
            PodResult.BOUND,
            text,
            dialect=None if adopted.dialect == UNKNOWN else adopted.dialect,
            node=name,
            containers=_shares(adopted.grants, state.node),
        )

    def _place(self, pod: Pod, gang: Gang | None) -> PodLine:
        """Place a pending pod, with all of its gang, and commit the allocations."""
        if pod.status.phase in FINISHED:
            return _ended(pod)
        if pod.metadata.deletion_timestamp is not None:
            return PodLine(pod_ref(pod), PodResult.SKIPPED, "is being deleted")
        node = self._allocated.get(pod.metadata.uid)
        if node is not None:  # it is just being bound
            state = self.fleet.nodes[node]
            allocation = state.ledger.allocations[pod.metadata.uid]
            return PodLine(
                pod_ref(pod),
                PodResult.BOUND,
                standing(self._facts, pod, ""),
                dialect=allocation.dialect,
                node=node,
                containers=_shares(allocation.grants, state.node),
            )
        if gates_of(pod):
            return PodLine(pod_ref(pod), PodResult.SKIPPED, scheduler_message(pod))
        # What it places counts for this pod, which may not be among it.
        whole = None if gang is None else self._place_gang(gang)
        refused = whole is not None and bool(whole.refusal)
        answer = self._judge.alone(pod, explain=self.options.explain or refused)
        self.warnings.pending.extend(f"pod {full_name(pod)}: {note}" for note in answer.notes)
        if answer.problem is not None:
            return PodLine(pod_ref(pod), PodResult.INVALID, answer.problem, dialect=answer.dialect)
        if answer.claims is not None and answer.fits_nowhere:
            return self._rejected(answer)
        if answer.found is None:
            text = NO_REQUEST if answer.claims is None else answer.summary()
            return PodLine(pod_ref(pod), PodResult.SKIPPED, text, dialect=answer.dialect)
        if whole is not None and whole.refusal:
            refused_answer = replace(answer, gang=whole, message=scheduler_message(pod))
            return replace(self._rejected(refused_answer), groups=())
        if whole is not None and pod.metadata.uid in whole.placed:
            return self._placed(answer, answer.found, whole.placed[pod.metadata.uid])
        if whole is not None and pod.metadata.uid in whole.devices:
            return _served(answer, whole.devices[pod.metadata.uid])
        if answer.best is None:
            return self._rejected(answer)
        if answer.placement is None:
            if answer.devices is None or answer.best not in answer.devices.fitting:
                text = answer.summary()  # by a claim, which its scheduler makes
                return PodLine(pod_ref(pod), PodResult.SKIPPED, text, dialect=answer.dialect)
            self._judge.devices.take(answer.best, _amounts(answer))
            return _served(answer, answer.best)
        allocation = Allocation.of(answer.found.request, answer.placement)
        ledger = self.inventory.ledger(answer.best)
        refusal = self._facts.quotas.take(allocation, ledger.node)
        if refusal is not None:
            return PodLine(pod_ref(pod), PodResult.REJECTED, refusal, dialect=answer.dialect)
        self.inventory.put(ledger.allocate(allocation))
        return self._placed(answer, answer.found, answer.placement)

    def _place_gang(self, gang: Gang) -> GangAnswer:
        """Return what became of a gang: the first of its pods places all of them, or none."""
        refs = frozenset(part.ref for part in gang.parts)
        if refs in self._gangs:
            return self._gangs[refs]
        whole = self._gangs[refs] = self._judge.plan(gang)
        for each in whole.members.waiting:
            to = whole.placed.get(each.request.uid)
            if to is not None:
                allocation, ledger = Allocation.of(each.request, to), self.inventory.ledger(to.node)
                self._facts.quotas.count(allocation, ledger.node)
                self.inventory.put(ledger.allocate(allocation))
        for pod in whole.gang.pods:
            node = whole.devices.get(pod.metadata.uid)
            if node is not None:
                self._judge.devices.take(node, plain_amounts(pod, self.fleet.dialects))
        return whole

    def _rejected(self, answer: PodAnswer) -> PodLine:
        return PodLine(
            pod_ref(answer.pod),
            PodResult.REJECTED,
            answer.summary(),
            dialect=answer.dialect,
            reasons=_texts(answer),
            groups=answer.groups(),
        )

    def _placed(self, answer: PodAnswer, found: PodRequest, placement: Placement) -> PodLine:
        """Return the line of a pod whose allocation is committed."""
        pod, node = found.pod, self.fleet.nodes[placement.node].node
        result = found.dialect.write_result(pod, found.request, placement, node, self.options.now)
        return PodLine(
            pod_ref(pod),
            PodResult.PLACED,
            f"placed on {node.name}",
            dialect=answer.dialect,
            node=node.name,
            containers=_shares(placement.grants, node),
            annotations=result.annotations,
            labels=result.labels,
            reasons=_texts(answer) if self.options.explain else NodeTexts(),
            groups=answer.groups() if self.options.explain else (),
        )

    def cards(self) -> Iterator[CardLine]:
        """Yield every card with the pods that share it."""
        for name, state in self.fleet.nodes.items():
            ledger = self.inventory.get(name) or state.ledger
            for card, use in zip(ledger.node.cards, ledger.usages, strict=True):
                sharers = tuple(
                    Sharer(pod.pod, pod.dialect, share.memory, share.compute, share.blocked)
                    for share in use.shares
                    for pod in (ledger.allocations[share.uid],)
                )
                yield CardLine(card, use.memory, use.compute, sharers)


def _served(answer: PodAnswer, node: str) -> PodLine:
    """Return the line of a pod that gets devices of a plugin."""
    text = f"{devices_text(_amounts(answer))} of the device plugin, no card of the ledger"
    return PodLine(pod_ref(answer.pod), PodResult.PLACED, text, dialect=answer.dialect, node=node)


def _amounts(answer: PodAnswer) -> Mapping[str, int]:
    return NO_AMOUNTS if answer.devices is None else answer.devices.amounts


def _ended(pod: Pod, node: str | None = None) -> PodLine:
    return PodLine(pod_ref(pod), PodResult.SKIPPED, f"has ended ({pod.status.phase})", node=node)


def _texts(answer: PodAnswer) -> NodeTexts:
    rejected = answer.rejected
    return NodeTexts(rejected.names, rejected.ids, answer.distinct_texts())


def _shares(grants: Sequence[Grant], node: Node) -> Mapping[str, tuple[ShareLine, ...]]:
    indexes = {card.uuid: card.index for card in node.cards}
    shares: dict[str, tuple[ShareLine, ...]] = {}
    for grant in grants:
        share = ShareLine(
            grant.card, indexes.get(grant.card), grant.memory, grant.compute, grant.slice
        )
        container = grant.container or EVERY
        shares[container] = (*shares.get(container, ()), share)
    return shares

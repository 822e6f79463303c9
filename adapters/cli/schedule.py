"""Places the pending pods of the input on the cards of the input, one after the other."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from adapters.cli.input.candidates import Candidates
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.settings import configured
from adapters.cli.output.report import (
    EVERY,
    CardLine,
    PodLine,
    PodResult,
    ScheduleReport,
    ShareLine,
    Sharer,
)
from adapters.dialects.adopt import FINISHED, UNKNOWN, adopt, may_use_cards
from adapters.dialects.dialect import Defaults, Dialect, DialectError
from adapters.dialects.merge import read_node
from adapters.dialects.registry import dialect_of
from adapters.wire.kube import Pod, full_name, pod_ref
from core.feasibility.allocate import allocate
from core.feasibility.cache import FeasibilityCache
from core.feasibility.inventory import Inventory
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from core.requests.request import Request

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "dragoman.dev")
"""In which a pod without a uid gets one: the same for the same namespace and name."""

NO_SHARE = "asks for no share"

Watch = Callable[[Sequence[Pod]], Iterable[Pod]]
"""Sees every pod as its turn comes, to tell how far the run is."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How the user wants the run.

    Attributes:
        defaults: for pods that do not say.
        now: nanoseconds since 1970, for the annotations.
        explain: tell of placed pods too why not on the other nodes.
        watch: sees every pod as its turn comes.
    """

    defaults: Defaults
    now: int
    explain: bool = False
    watch: Watch = iter


def schedule(manifests: Manifests, wish: RunOptions) -> ScheduleReport:
    """Let bound pods hold their cards, place the pending ones in order of the input, and report.

    Raises:
        InputError: a settings file cannot be used.
    """
    run = _Run(manifests, wish, configured(manifests.config_maps, wish.defaults))
    pods = {name: _with_uid(pod) for name, (pod, _) in manifests.pods.items()}
    lines = {name: run.bound(pod) for name, pod in pods.items() if pod.spec.node_name}
    run.look_at_ledgers()
    pending = [pod for name, pod in pods.items() if name not in lines]
    for pod in wish.watch(pending):
        lines[full_name(pod)] = run.pending(pod)
    return ScheduleReport(
        pods=tuple(lines[name] for name in pods),
        cards=tuple(run.cards()),
        warnings=tuple(dict.fromkeys(run.warnings)),
    )


def _with_uid(pod: Pod) -> Pod:
    if pod.metadata.uid:
        return pod
    uid = str(uuid.uuid5(NAMESPACE, full_name(pod)))
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))


class _Run:
    """The one book of a run, and what was noticed on the way."""

    def __init__(
        self, manifests: Manifests, wish: RunOptions, dialects: tuple[Dialect, ...]
    ) -> None:
        self.wish = wish
        self.dialects = dialects
        self.warnings: list[str] = []
        self.nodes: dict[str, Node] = {}
        for name, (kube, _) in manifests.nodes.items():
            device, _ = manifests.devices.get(name, (None, None))
            self.nodes[name], problems = read_node(kube, device, dialects)
            self.warnings += [_of_node(name, problem) for problem in problems]
        self.warnings += [
            f"Device {name}: there is no Node of this name, so its cards are not used"
            for name in manifests.devices
            if name not in manifests.nodes
        ]
        owners: dict[str, str] = {}
        for node in self.nodes.values():
            for card in node.cards:
                if owners.setdefault(card.uuid, node.name) != node.name:
                    self.warnings.append(
                        f"card {card.uuid} is on {owners[card.uuid]} and {node.name}"
                    )
        self.inventory = Inventory([NodeLedger.of(node) for node in self.nodes.values()])
        self.feasibility = FeasibilityCache()
        self.candidates = Candidates([node for node, _ in manifests.nodes.values()])

    def look_at_ledgers(self) -> None:
        """Warn of everything that is held but not understood, or sold twice."""
        for name in self.nodes:
            for problem in self.inventory.ledger(name).problems():
                who = f"pod {problem.pod}" if problem.pod else f"node {name}"
                self.warnings.append(f"{who}: {problem.text}")

    def bound(self, pod: Pod) -> PodLine:
        """What a pod that is on a node already holds there."""
        name = pod.spec.node_name or ""
        if not may_use_cards(pod):
            return replace(_over(pod), node=name)
        node = self.nodes.get(name)
        if node is None:
            text = f"already bound to {name}, which is not among the input"
            self.warnings.append(f"pod {full_name(pod)}: {text}")
            return replace(_line(pod, PodResult.BOUND, text), node=name)
        held = adopt(pod, node, self.dialects)
        if held is None:
            return replace(_line(pod, PodResult.LEFT_ALONE, NO_SHARE), node=name)
        self.inventory.put(self.inventory.ledger(name).adopt(held))
        text = "already bound" if held.unread is None else f"already bound, but {held.unread}"
        return replace(
            _line(pod, PodResult.BOUND, text),
            dialect=None if held.dialect == UNKNOWN else held.dialect,
            node=name,
            containers=_shares(held.grants, node),
        )

    def pending(self, pod: Pod) -> PodLine:
        """Place one pod, and book it."""
        if pod.status.phase in FINISHED:
            return _over(pod)
        if pod.metadata.deletion_timestamp is not None:
            return _line(pod, PodResult.LEFT_ALONE, "is being deleted")
        dialect: Dialect | None = None
        try:
            dialect = dialect_of(pod, self.dialects)
            if dialect is None:
                return _line(pod, PodResult.LEFT_ALONE, NO_SHARE)
            request = dialect.read_request(pod)
        except DialectError as error:
            name = None if dialect is None else dialect.name
            return replace(_line(pod, PodResult.INVALID, str(error)), dialect=name)
        self.warnings += [f"pod {request.pod}: {note}" for note in request.notes]
        return replace(self._place(pod, dialect, request), dialect=dialect.name)

    def _place(self, pod: Pod, dialect: Dialect, request: Request) -> PodLine:
        choice = self.candidates.of(pod)
        evaluation = self.feasibility.evaluate(request, self.inventory)
        decision = allocate(evaluation, choice.names, explain=self.wish.explain)
        placement = decision.placement
        reasons = {name: reason.text() for name, reason in decision.reasons.items()}
        if placement is None:
            told = filter(None, (decision.summary(), choice.told()))
            line = _line(pod, PodResult.REFUSED, "; ".join(told))
            return replace(line, reasons={**reasons, **choice.excluded})
        node = self.nodes[placement.node]
        result = dialect.write_result(pod, request, placement, node, self.wish.now)
        ledger = self.inventory.ledger(node.name).reserve(Allocation.of(request, placement))
        self.inventory.put(ledger.commit(request.uid))
        return replace(
            _line(pod, PodResult.PLACED, decision.summary()),
            node=node.name,
            containers=_shares(placement.grants, node),
            annotations=result.annotations,
            labels=result.labels,
            reasons={**reasons, **choice.excluded} if self.wish.explain else {},
        )

    def cards(self) -> Iterator[CardLine]:
        """Every card, and who shares it."""
        for name in self.nodes:
            ledger = self.inventory.ledger(name)
            for card, use in zip(ledger.node.cards, ledger.usages, strict=True):
                sharers = tuple(
                    Sharer(held.pod, held.dialect, holder.memory, holder.compute, holder.blocked)
                    for holder in use.shares
                    for held in (ledger.allocations[holder.uid],)
                )
                yield CardLine(card, use.memory, use.compute, sharers)


def _of_node(name: str, problem: str) -> str:
    told = problem.startswith((f"node {name}", f"Device {name}"))
    return problem if told else f"node {name}: {problem}"


def _line(pod: Pod, fate: PodResult, summary: str) -> PodLine:
    ref = pod_ref(pod)
    return PodLine(ref.namespace, ref.name, ref.uid, None, fate, summary)


def _over(pod: Pod) -> PodLine:
    return _line(pod, PodResult.LEFT_ALONE, f"is over ({pod.status.phase})")


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

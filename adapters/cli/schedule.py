"""Places the pending pods of the input on the cards of the input, one after another."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from adapters.cli.input.candidates import Candidates
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.settings import configured_dialects
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
from adapters.dialects.matching import dialect_of
from adapters.dialects.merge import read_node
from adapters.wire.kube import Pod, full_name, pod_ref
from core.feasibility.allocate import allocate
from core.feasibility.cache import FeasibilityCache
from core.feasibility.inventory import Inventory
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from core.requests.request import Request

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "dragoman.dev")
"""Namespace of the uids for pods without one; each follows from the pod's namespace and name."""

NO_REQUEST = "requests no share"

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


def schedule(manifests: Manifests, options: RunOptions) -> ScheduleReport:
    """Adopt bound pods, place the pending ones in order of the input, and report.

    Raises:
        InputError: a settings file cannot be used.
    """
    run = _Run(manifests, options, configured_dialects(manifests.config_maps, options.defaults))
    pods = {name: _with_uid(pod) for name, (pod, _) in manifests.pods.items()}
    lines = {name: run.adopt_bound(pod) for name, pod in pods.items() if pod.spec.node_name}
    run.warn_of_ledger_problems()
    pending = [pod for name, pod in pods.items() if name not in lines]
    for pod in options.progress(pending):
        lines[full_name(pod)] = run.place_pending(pod)
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
    """The ledgers of a run, and its warnings."""

    def __init__(
        self, manifests: Manifests, options: RunOptions, dialects: tuple[Dialect, ...]
    ) -> None:
        self.options = options
        self.dialects = dialects
        self.warnings: list[str] = []
        self.nodes: dict[str, Node] = {}
        for name, (kube, _) in manifests.nodes.items():
            device, _ = manifests.devices.get(name, (None, None))
            self.nodes[name], problems = read_node(kube, device, dialects)
            self.warnings += [_of_node(name, problem) for problem in problems]
        self.warnings += [
            f"Device {name}: no Node has this name, so its cards are ignored"
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

    def warn_of_ledger_problems(self) -> None:
        """Warn of unknown allocations and of cards that are over-allocated."""
        for name in self.nodes:
            for problem in self.inventory.ledger(name).problems():
                who = f"pod {problem.pod}" if problem.pod else f"node {name}"
                self.warnings.append(f"{who}: {problem.text}")

    def adopt_bound(self, pod: Pod) -> PodLine:
        """Adopt the allocation of a pod that is already bound."""
        name = pod.spec.node_name or ""
        if not may_use_cards(pod):
            return replace(_ended(pod), node=name)
        node = self.nodes.get(name)
        if node is None:
            text = f"already bound to {name}, which is not among the input"
            self.warnings.append(f"pod {full_name(pod)}: {text}")
            return replace(_line(pod, PodResult.BOUND, text), node=name)
        adopted = adopt(pod, node, self.dialects)
        if adopted is None:
            return replace(_line(pod, PodResult.SKIPPED, NO_REQUEST), node=name)
        self.inventory.put(self.inventory.ledger(name).adopt(adopted))
        text = "already bound" if adopted.unread is None else f"already bound, but {adopted.unread}"
        return replace(
            _line(pod, PodResult.BOUND, text),
            dialect=None if adopted.dialect == UNKNOWN else adopted.dialect,
            node=name,
            containers=_shares(adopted.grants, node),
        )

    def place_pending(self, pod: Pod) -> PodLine:
        """Place one pod, and commit its allocation."""
        if pod.status.phase in FINISHED:
            return _ended(pod)
        if pod.metadata.deletion_timestamp is not None:
            return _line(pod, PodResult.SKIPPED, "is being deleted")
        dialect: Dialect | None = None
        try:
            dialect = dialect_of(pod, self.dialects)
            if dialect is None:
                return _line(pod, PodResult.SKIPPED, NO_REQUEST)
            request = dialect.read_request(pod)
        except DialectError as error:
            name = None if dialect is None else dialect.name
            return replace(_line(pod, PodResult.INVALID, str(error)), dialect=name)
        self.warnings += [f"pod {request.pod}: {note}" for note in request.notes]
        return replace(self._place(pod, dialect, request), dialect=dialect.name)

    def _place(self, pod: Pod, dialect: Dialect, request: Request) -> PodLine:
        choice = self.candidates.of(pod)
        evaluation = self.feasibility.evaluate(request, self.inventory)
        decision = allocate(evaluation, choice.names, explain=self.options.explain)
        placement = decision.placement
        reasons = {name: reason.text() for name, reason in decision.reasons.items()}
        if placement is None:
            causes = filter(None, (decision.summary(), choice.summary()))
            line = _line(pod, PodResult.REJECTED, "; ".join(causes))
            return replace(line, reasons={**reasons, **choice.excluded})
        node = self.nodes[placement.node]
        result = dialect.write_result(pod, request, placement, node, self.options.now)
        ledger = self.inventory.ledger(node.name).reserve(Allocation.of(request, placement))
        self.inventory.put(ledger.commit(request.uid))
        return replace(
            _line(pod, PodResult.PLACED, decision.summary()),
            node=node.name,
            containers=_shares(placement.grants, node),
            annotations=result.annotations,
            labels=result.labels,
            reasons={**reasons, **choice.excluded} if self.options.explain else {},
        )

    def cards(self) -> Iterator[CardLine]:
        """Every card with the pods that share it."""
        for name in self.nodes:
            ledger = self.inventory.ledger(name)
            for card, use in zip(ledger.node.cards, ledger.usages, strict=True):
                sharers = tuple(
                    Sharer(pod.pod, pod.dialect, share.memory, share.compute, share.blocked)
                    for share in use.shares
                    for pod in (ledger.allocations[share.uid],)
                )
                yield CardLine(card, use.memory, use.compute, sharers)


def _of_node(name: str, problem: str) -> str:
    named = problem.startswith((f"node {name}", f"Device {name}"))
    return problem if named else f"node {name}: {problem}"


def _line(pod: Pod, result: PodResult, summary: str) -> PodLine:
    ref = pod_ref(pod)
    return PodLine(ref.namespace, ref.name, ref.uid, None, result, summary)


def _ended(pod: Pod) -> PodLine:
    return _line(pod, PodResult.SKIPPED, f"has ended ({pod.status.phase})")


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

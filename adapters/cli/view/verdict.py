"""One pod against all nodes of a cluster, by the engine that the service uses."""

from collections.abc import Mapping
from dataclasses import dataclass

from adapters.cli.fleet import Fleet
from adapters.cli.input.candidates import CandidateChoice, Candidates
from adapters.cli.quotas import NamespaceQuotas
from adapters.dialects.dialect import DialectError
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import Pod
from core.feasibility.allocate import allocate
from core.requests.decision import Decision
from core.requests.reason import Reason
from core.requests.request import Request


@dataclass(frozen=True, slots=True)
class Verdict:
    """One pod.

    Attributes:
        dialect: name; None where it requests no share, or uses several dialects.
        problem: why the request is invalid; None where it is valid.
        request: None where there is none, or an invalid one.
        decision: None without a request.
        candidates: the nodes that it may run on.
        fitting: nodes that fit.
    """

    dialect: str | None
    problem: str | None = None
    request: Request | None = None
    decision: Decision | None = None
    candidates: CandidateChoice | None = None
    fitting: tuple[str, ...] = ()

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """By candidate node, why it does not fit."""
        return {} if self.decision is None else self.decision.reasons

    def summary(self) -> str:
        """The verdict in a sentence."""
        if self.problem is not None:
            return self.problem
        if self.decision is None or self.candidates is None:
            return "requests no share"
        if self.fitting:
            count = len(self.fitting)
            nodes = "1 node" if count == 1 else f"{count} nodes"
            return f"fits {nodes}, best {self.decision.placement and self.decision.placement.node}"
        return "; ".join(filter(None, (self.decision.summary(), self.candidates.summary())))


class Judge:
    """Compares pods with one cluster; nothing is placed."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._inventory = fleet.inventory()
        self._quotas = NamespaceQuotas(fleet)
        self._candidates = Candidates([state.kube for state in fleet.nodes.values()])

    def verdict(self, pod: Pod) -> Verdict:
        """Where a pod fits, and why it does not fit the other nodes."""
        dialect = None
        try:
            dialect = dialect_of(pod, self._fleet.dialects)
            if dialect is None:
                return Verdict(None)
            request = dialect.read_request(pod)
        except DialectError as error:
            return Verdict(None if dialect is None else dialect.name, str(error))
        return self.judge(request, self._candidates.of(pod))

    def judge(self, request: Request, candidates: CandidateChoice) -> Verdict:
        """Where a request fits among some nodes."""
        evaluation = self._quotas.evaluate(request, self._inventory)
        decision = allocate(evaluation, candidates.selection, explain=True)
        fitting = tuple(n for n in candidates.names if n not in decision.reasons)
        return Verdict(request.dialect, None, request, decision, candidates, fitting)

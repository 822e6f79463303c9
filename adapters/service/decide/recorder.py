"""Where decisions are recorded with all that they depend on, so that they can be replayed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from adapters.dialects.dialect import Defaults, Documents
from adapters.service.decide.attempt import LedgerView
from adapters.service.decide.card_choice import Committed
from adapters.service.decide.ledger_cache import LedgerCache
from adapters.service.decide.pod_requests import PodRequest
from adapters.service.decide.quotas import Quotas
from adapters.service.decide.rejections import NodeRejections
from adapters.wire.name_index import NameList
from core.feasibility.arrays import Mask, Numbers
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.reason import Reason

Victims = Sequence[Allocation] | Reason
"""Allocations to evict, none where the pod fits already; or why evictions do not help."""


@dataclass(frozen=True, slots=True)
class PreemptionFacts:
    """What victims depend on beside the pod.

    Attributes:
        ledger: of the node.
        priority: of the pod.
        candidates: uids of the pods that may be evicted.
        protected: uids of those that a budget protects.
    """

    ledger: NodeLedger
    priority: int
    candidates: Collection[str]
    protected: Collection[str] = ()


class Recorder(Protocol):
    """Each method is called before anything changes on which its decision depends; none fails."""

    def follow(self, ledgers: LedgerCache, quotas: Quotas) -> None:
        """What decisions depend on beside the pod."""
        ...

    def configured(self, defaults: Defaults, documents: Documents) -> None:
        """The policy and the schedulers' own settings from now on."""
        ...

    def close(self) -> None:
        """Nothing is recorded any more."""
        ...

    def filtered(self, pod: PodRequest, names: NameList, fits: Mask) -> None:
        """Which nodes fit."""
        ...

    def rejected(self, pod: PodRequest, names: NameList, rejections: NodeRejections) -> None:
        """Why no node fits."""
        ...

    def ranked(self, pod: PodRequest, names: NameList, ranks: Numbers) -> None:
        """How good nodes are."""
        ...

    def predicted(self, pod: PodRequest, node: str, reason: str) -> None:
        """Whether a node fits; the reason is empty where it does."""
        ...

    def scored(self, pod: PodRequest, scores: Mapping[str, int], most: int) -> None:
        """Scores of nodes, from 0 to ``most``."""
        ...

    def preempted(self, pod: PodRequest, facts: PreemptionFacts, answer: Victims) -> None:
        """Which pods a node evicts, or why that does not help."""
        ...

    def held(self, pod: PodRequest, node: str, answer: Placement | Reason) -> None:
        """Which cards a plan reserves."""
        ...

    def reserved(
        self,
        pod: PodRequest,
        choice: Sequence[Grant],
        view: LedgerView,
        answer: Committed | Reason,
    ) -> None:
        """Which cards a commit reserves before it writes."""
        ...

    def committed(
        self,
        pod: PodRequest,
        choice: Sequence[Grant],
        view: LedgerView,
        answer: Committed | Reason,
    ) -> None:
        """Which cards a pod gets."""
        ...

    def claimed(self, asked: Allocation, view: LedgerView, problem: str | None) -> None:
        """Why a claim does not get the devices that were chosen for it; None where it does."""
        ...


class NoRecorder:
    """Records nothing; implements ``Recorder``."""

    def follow(self, ledgers: LedgerCache, quotas: Quotas) -> None:
        """Nothing."""

    def configured(self, defaults: Defaults, documents: Documents) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""

    def filtered(self, pod: PodRequest, names: NameList, fits: Mask) -> None:
        """Nothing."""

    def rejected(self, pod: PodRequest, names: NameList, rejections: NodeRejections) -> None:
        """Nothing."""

    def ranked(self, pod: PodRequest, names: NameList, ranks: Numbers) -> None:
        """Nothing."""

    def predicted(self, pod: PodRequest, node: str, reason: str) -> None:
        """Nothing."""

    def scored(self, pod: PodRequest, scores: Mapping[str, int], most: int) -> None:
        """Nothing."""

    def preempted(self, pod: PodRequest, facts: PreemptionFacts, answer: Victims) -> None:
        """Nothing."""

    def held(self, pod: PodRequest, node: str, answer: Placement | Reason) -> None:
        """Nothing."""

    def reserved(
        self,
        pod: PodRequest,
        choice: Sequence[Grant],
        view: LedgerView,
        answer: Committed | Reason,
    ) -> None:
        """Nothing."""

    def committed(
        self,
        pod: PodRequest,
        choice: Sequence[Grant],
        view: LedgerView,
        answer: Committed | Reason,
    ) -> None:
        """Nothing."""

    def claimed(self, asked: Allocation, view: LedgerView, problem: str | None) -> None:
        """Nothing."""

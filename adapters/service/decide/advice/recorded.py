"""The decisions on which schedulers act, as a recorder gets them; see ``decide.recorder``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from adapters.accounting.pod_requests import PodRequest
from adapters.service.decide.advice.rejections import NodeRejections
from adapters.service.decide.recorder import RecordedDecision
from core.feasibility.columns import Mask, Numbers
from core.feasibility.gang_plan import GangPlan
from core.feasibility.node_names import NodeNames
from core.feasibility.preempt import EvictedTogether
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.reason import Reason

Victims = Sequence[Allocation] | Reason
"""Allocations to evict, none where the pod fits already; or why evictions do not help."""


@dataclass(frozen=True, slots=True)
class NodesFiltered(RecordedDecision):
    """Which of the named nodes fit the pod."""

    pod: PodRequest
    names: NodeNames
    fits: Mask


@dataclass(frozen=True, slots=True)
class NodesRejected(RecordedDecision):
    """Why none of the named nodes fits the pod."""

    pod: PodRequest
    names: NodeNames
    rejections: NodeRejections


@dataclass(frozen=True, slots=True)
class NodesRanked(RecordedDecision):
    """How good the named nodes are for the pod; a lower rank is better."""

    pod: PodRequest
    names: NodeNames
    ranks: Numbers


@dataclass(frozen=True, slots=True)
class GangPlanned(RecordedDecision):
    """Where the pods of a gang go that need cards, all of them or some.

    Attributes:
        pod: the one that its scheduler asks about.
        waiting: all of them.
        names: where each of them may go, by uid.
        plan: the answer.
    """

    pod: PodRequest
    waiting: Sequence[PodRequest]
    names: Mapping[str, NodeNames]
    plan: GangPlan


@dataclass(frozen=True, slots=True)
class NodePredicted(RecordedDecision):
    """Whether one node fits the pod; the reason is empty where it does."""

    pod: PodRequest
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodesScored(RecordedDecision):
    """The scores of nodes for the pod, by name, from 0 to ``most``."""

    pod: PodRequest
    scores: Mapping[str, int]
    most: int


@dataclass(frozen=True, slots=True)
class VictimsSelected(RecordedDecision):
    """Which pods a node evicts for the pod, or why that does not help.

    Attributes:
        pod: the pod that needs room.
        ledger: the node's.
        priority: the pod's.
        candidates: uids of the pods that may be evicted.
        protected: uids of those that a disruption budget protects.
        answer: the victims.
        groups: pods that are evicted together.
    """

    pod: PodRequest
    ledger: NodeLedger
    priority: int
    candidates: Collection[str]
    protected: Collection[str]
    answer: Victims
    groups: Sequence[EvictedTogether] = ()


@dataclass(frozen=True, slots=True)
class PlanReserved(RecordedDecision):
    """Which cards of a node are reserved for a pod that its scheduler plans to put there."""

    pod: PodRequest
    node: str
    answer: Placement | Reason

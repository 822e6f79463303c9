"""The recording of a service's decisions: JSON lines, each with what the next ones depend on.

A recording begins with ``Began`` and ``PolicyInForce``. Pods, lists of nodes and ledgers have a
line of their own before the first decision that depends on them, and again when they differ; so
every decision can be made again from the lines before it. Each line has its kind in ``record``.
"""

from typing import Any

import msgspec

from adapters.wire.decode.decoder import Decoder
from adapters.wire.kube import Pod, Wire
from adapters.wire.records.grant import GrantRecord
from adapters.wire.records.ledger_records import AllocationRecord


class Began(Wire, tag="began", tag_field="record", frozen=True):
    """The first line.

    Attributes:
        format: of the lines.
        version: of the program.
        time: RFC 3339.
    """

    format: int
    version: str
    time: str


FORMAT = 3

FORMATS = (1, 2, FORMAT)
"""Formats that are read; a recording of format 1 has no decisions about claims, and one of format 2
no plans of gangs."""


class DocumentRecord(Wire, frozen=True):
    """A settings file of a scheduler: its ConfigMap, the key in it, and the parsed content."""

    name: str
    key: str
    content: Any


class PolicyInForce(Wire, tag="policy", tag_field="record", frozen=True):
    """The operator's policy, and the schedulers' own settings; None where nothing is set."""

    node: str | None = None
    card: str | None = None
    topology_aware: bool | None = None
    documents: tuple[DocumentRecord, ...] = ()


class PodSeen(Wire, tag="pod", tag_field="record", frozen=True):
    """A pod by the key that decisions have for it."""

    key: str
    pod: Pod


class NodesSeen(Wire, tag="nodes", tag_field="record", frozen=True):
    """The list of nodes of the following decisions."""

    names: tuple[str, ...]


class LedgerSeen(Wire, tag="ledger", tag_field="record", frozen=True, omit_defaults=True):
    """A node's ledger as the service sees it.

    Attributes:
        node: its name.
        ledger: the record of the store.
        reserved: the service's own reservations on top.
    """

    node: str
    ledger: msgspec.Raw
    reserved: tuple[AllocationRecord, ...] = ()


class LedgerGone(Wire, tag="gone", tag_field="record", frozen=True):
    """A node whose ledger was deleted, or cannot be read."""

    node: str
    unreadable: bool


class Filtered(Wire, tag="filter", tag_field="record", frozen=True, omit_defaults=True):
    """Which nodes of the list fit; None for all. ``refusal`` is that of the namespace's quota."""

    pod: str
    time: str
    fitting: tuple[str, ...] | None = None
    refusal: str | None = None


class Rejected(Wire, tag="reject", tag_field="record", frozen=True, omit_defaults=True):
    """Why no node of the list fits: texts, each with its number of nodes, by text."""

    pod: str
    time: str
    reasons: tuple[tuple[str, int], ...] = ()
    refusal: str | None = None


class Ranked(Wire, tag="prioritize", tag_field="record", frozen=True, omit_defaults=True):
    """How good the nodes of the list are: more is better, 0 where the pod does not fit."""

    pod: str
    time: str
    ranks: tuple[int, ...] = ()
    refusal: str | None = None


class PodChoice(Wire, frozen=True, omit_defaults=True):
    """A pod of a gang that needs cards.

    Attributes:
        pod: its key.
        nodes: number of the list of ``GangPlaced`` on whose nodes it may go.
        node: the answer; empty where it gets none.
        refusal: that of its namespace's quota, for it alone.
        over: whether its quota refuses it beside the others.
    """

    pod: str
    nodes: int = 0
    node: str = ""
    refusal: str | None = None
    over: bool = False


class GangPlaced(Wire, tag="gang", tag_field="record", frozen=True, omit_defaults=True):
    """Where the pods of a gang go that need cards, all of them or some.

    Attributes:
        pod: key of the pod that was asked about.
        time: RFC 3339.
        lists: names of nodes.
        pods: all pods that need cards.
    """

    pod: str
    time: str
    lists: tuple[tuple[str, ...], ...] = ()
    pods: tuple[PodChoice, ...] = ()


class Predicted(Wire, tag="predicate", tag_field="record", frozen=True, omit_defaults=True):
    """Why one node does not fit; empty where it does."""

    pod: str
    time: str
    node: str = ""
    reason: str = ""
    refusal: str | None = None


class Scored(Wire, tag="score", tag_field="record", frozen=True, omit_defaults=True):
    """Scores of nodes for vc-scheduler, by name, from 0 to ``most``."""

    pod: str
    time: str
    scores: dict[str, int] = msgspec.field(default_factory=dict)
    most: int = 0
    refusal: str | None = None


class GroupRecord(Wire, frozen=True, omit_defaults=True):
    """Pods of a group that are evicted together; see ``core.feasibility.preempt``."""

    uids: tuple[str, ...] = ()
    pods: int = 0
    priority: int = 0


class Preempted(Wire, tag="preempt", tag_field="record", frozen=True, omit_defaults=True):
    """The pods to evict from a node so that a pod fits, or why that does not help.

    Attributes:
        pod: its key.
        time: RFC 3339.
        node: its name.
        priority: of the pod; candidates of lower priority are evicted.
        candidates: uids of the pods that may be evicted.
        protected: uids of those that a budget protects.
        victims: the answer, uids; none where the pod fits already.
        reason: the answer, where evictions do not help.
        groups: pods that are evicted together.
    """

    pod: str
    time: str
    node: str = ""
    priority: int = 0
    candidates: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    reason: str = ""
    groups: tuple[GroupRecord, ...] = ()


class Held(Wire, tag="allocate", tag_field="record", frozen=True, omit_defaults=True):
    """Cards that a plan of vc-scheduler reserves, or the reason why it gets none."""

    pod: str
    time: str
    node: str = ""
    grants: tuple[GrantRecord, ...] = ()
    reason: str = ""


class CardsCommitted(Wire, tag="commit", tag_field="record", frozen=True, omit_defaults=True):
    """Cards that a pod gets on a node, or the reason why it gets none.

    Attributes:
        pod: its key.
        time: RFC 3339.
        ledger: the store's record on which it was decided.
        reserved: the service's reservations on the node.
        own: the pod's reservation, on this node or another.
        own_node: the node of ``own``.
        claimed: the choice of cards that came with the request.
        grants: the answer.
        reason: the answer, where there are no grants.
    """

    pod: str
    time: str
    ledger: msgspec.Raw
    reserved: tuple[AllocationRecord, ...] = ()
    own: AllocationRecord | None = None
    own_node: str = ""
    claimed: tuple[GrantRecord, ...] = ()
    grants: tuple[GrantRecord, ...] = ()
    reason: str = ""


class CardsReserved(CardsCommitted, tag="reserve", tag_field="record", frozen=True):
    """Cards that a commit reserves before it writes, or the reason why there are none."""


class ClaimDecided(Wire, tag="claim", tag_field="record", frozen=True, omit_defaults=True):
    """Whether a ResourceClaim gets the devices that its scheduler, or the service, chose.

    Attributes:
        time: RFC 3339.
        node: its name.
        asked: what the claim would hold of the node's cards; ``pod`` is the claim.
        ledger: the store's record on which it was decided.
        reserved: the service's reservations on the node.
        reason: the answer: why it does not get them; empty where it does.
    """

    time: str
    node: str
    asked: AllocationRecord
    ledger: msgspec.Raw
    reserved: tuple[AllocationRecord, ...] = ()
    reason: str = ""


Choice = Filtered | Rejected | Ranked | Predicted | Scored
"""A decision about nodes."""

PodDecision = Choice | Preempted | Held | CardsCommitted | CardsReserved
Decision = PodDecision | GangPlaced | ClaimDecided
Line = Began | PolicyInForce | PodSeen | NodesSeen | LedgerSeen | LedgerGone | Decision

ENCODER = msgspec.json.Encoder()
DECODER: Decoder[Line] = Decoder(Line)

"""What an answer reads of the cluster, and the answer about one pod and its gang, as values."""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from adapters.accounting.claim_cache import ClaimCache
from adapters.accounting.gang_cache import Gang
from adapters.accounting.gang_members import GangMembers, together
from adapters.accounting.pod_requests import PodRequest
from adapters.answer.device_plugins import DeviceFit, devices_text
from adapters.dialects.adoption import FINISHED, may_use_cards
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.matching import NO_AMOUNTS, plain_amounts
from adapters.dialects.registry import rejection_text
from adapters.wire.kube import KubeNode, Pod, gates_of, rejection_of
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory, NodeNames
from core.quota.amounts import QuotaAmounts
from core.requests.decision import CauseGroup, NodeReasons, group_summary, grouped
from core.requests.grant import Allocation, AllocationState, Placement
from core.requests.reason import Cause
from core.requests.request import PodRef, Request

EXAMPLES = 5
"""Nodes that are named for each group."""

DEFAULT = "default-scheduler"

LONGEST = 200
"""Characters of the message that are shown."""

OTHER_REASONS = "cards: other reasons (dragoman explain pod)"
"""The reason of a node, of our own, where a scheduler was given enough different ones."""

_HEAD = re.compile(r"(?:In hyperNode \S+ )?0/\d+ nodes are (?:un)?available: ")
_PART = re.compile(r", (?=\d+ )")
_NUMBER = re.compile(r"^\d+ ")
_PREEMPTION = re.compile(r"\.? (?:pod group )?preemption: ")

_COUNTED = (
    "node(s) were unschedulable",
    "node(s) didn't match Pod's node affinity",
    "node(s) had untolerated taint",
    "node(s) had taint",
)
"""Beginnings of reasons that the answer states itself.

Source: kubernetes 1.37 pkg/scheduler/framework/plugins/nodeunschedulable, nodeaffinity and
tainttoleration.
"""

_SHORT = re.compile(
    r"Insufficient ((?:nvidia|metax-tech)\.com/[\w.-]+|(?:volcano|koordinator)\.sh/[\w.-]+)"
)
"""The reason of a resource of cards (kubernetes noderesources/fit.go).

The answer counts the cards itself, so that it adds nothing where these are too few. Where cards
fit it says what keeps the pod off: a scheduler counts by the allocatable amounts of a node.
"""

_OURS = re.compile(
    r"(?:\d+|some) of \d+ cards: |\d+ cards asked for one container|quota of namespace |"
    rf"{re.escape(OTHER_REASONS)}|"
    + "|".join(f"{re.escape(str(cause.value))}$" for cause in Cause)
    + "|no cards: neither "
    + r"|gang \S+ of \d+: (?:(?:at least )?\d+ of \d+ fit together|its pods request more)"
    + r"|gang \S+: \d+ of \d+ pods exist"
    + r"|.*admission webhook \"\w+\.dragoman\.dev\" denied the request: "
)
"""Beginnings of Dragoman's reasons (``Reason.text``), which the scheduler repeats."""

NO_REASONS = NodeReasons.of({})
NOWHERE: Mapping[str, str] = {}
NO_CARDS: Mapping[str, Placement] = {}


@dataclass(frozen=True, slots=True)
class GangAnswer:
    """A gang at one moment.

    Attributes:
        members: its pods, and what they have.
        refusal: why none of those that wait may be bound; empty where they may.
        placed: the cards of those that fit together, by uid.
        devices: the node of those to which a device plugin gives devices, by uid.
    """

    members: GangMembers
    refusal: str = ""
    placed: Mapping[str, Placement] = field(default_factory=lambda: NO_CARDS)
    devices: Mapping[str, str] = field(default_factory=lambda: NOWHERE)

    @property
    def gang(self) -> Gang:
        """The gang."""
        return self.members.gang

    @property
    def decides(self) -> bool:
        """Whether its pods wait for each other; else each of them is on its own."""
        return bool(self.refusal or self.placed or self.devices)

    def node_of(self, uid: str) -> str | None:
        """Return the node to which a pod would go; None where it would go to none."""
        to = self.placed.get(uid)
        return self.devices.get(uid) if to is None else to.node

    def text_of(self, uid: str) -> str:
        """Return what there is to say of a pod of a gang that decides."""
        if self.refusal:
            return self.refusal
        return together(self.gang) + ("" if self.node_of(uid) else " without this pod")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """How many nodes the pod does not fit for one cause, and names of the first of them.

    The text has ranges of what is missing.
    """

    text: str
    nodes: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimFit:
    """Where devices for a pod's claims are free.

    Attributes:
        requested: devices, by class and capacity.
        fitting: names of nodes.
        reasons: why others do not fit.
        is_sure: nothing else may exclude a device.
    """

    requested: Mapping[str, int]
    fitting: tuple[str, ...]
    reasons: NodeReasons
    is_sure: bool


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """Where a pod fits, and why it does not fit the other nodes.

    What the pod has itself counts as free.

    Attributes:
        pod: the pod.
        standing: what it has, where it does not wait for a node; else empty.
        dialect: name; None where it requests no share, or uses several dialects.
        problem: why the request is invalid; None where it is valid.
        found: what it requests; None where that is no share, or invalid.
        placement: on the best node with cards; None where there is none, or its gang gets none.
        candidates: the nodes with readable ledgers that it may run on; of a pod with ``devices``
            those with cards.
        best: the node that it would go to; None where it fits none, or its gang gets no cards.
        fitting: the nodes that it fits, whatever becomes of its gang; only ``best`` where the
            others were not asked for.
        rejected: why it does not fit the other nodes; nothing where they were not asked for.
        excluded: of ``rejected``, the nodes on which it may not run whatever cards are free.
        devices: where the devices of a plugin that it requests are free; None where it requests
            none, or the ledgers choose its cards on every node.
        claims: where devices are free for its ResourceClaims; None where these are of no cards.
        uncounted: resources of accelerators that it requests and Dragoman does not count.
        notes: what was assumed, and names that are probably misspelled.
        message: what its scheduler said last of what does not count here; empty for nothing.
        gang: the pods with which it is bound together; None where it is bound alone.
    """

    pod: Pod
    standing: str = ""
    dialect: str | None = None
    problem: str | None = None
    found: PodRequest | None = None
    placement: Placement | None = None
    candidates: NodeNames = field(default_factory=lambda: NodeNames(()))
    best: str | None = None
    fitting: tuple[str, ...] = ()
    rejected: NodeReasons = field(default_factory=lambda: NO_REASONS)
    excluded: NodeReasons = field(default_factory=lambda: NO_REASONS)
    devices: DeviceFit | None = None
    claims: ClaimFit | None = None
    uncounted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    message: str = ""
    gang: GangAnswer | None = None

    @property
    def request(self) -> Request | None:
        """What it requests; None where that is no share, or invalid."""
        return None if self.found is None else self.found.request

    @property
    def requests(self) -> bool:
        """Whether it requests a share or devices, valid or not."""
        return self.problem is not None or self.is_valid

    @property
    def is_valid(self) -> bool:
        """Whether it requests a share or devices, validly."""
        return self.found is not None or self.claims is not None

    @property
    def fits_nowhere(self) -> bool:
        """Whether it requests a share validly and no node fits it alone."""
        return self.is_valid and not self.fitting

    @property
    def waits_for_gang(self) -> bool:
        """Whether other pods decide where it goes."""
        return self.gang is not None and self.gang.decides

    @property
    def waits(self) -> bool:
        """Whether it waits for a node, by a valid request."""
        return not self.standing and self.is_valid

    @property
    def is_refused(self) -> bool:
        """Whether cards fit, and its scheduler counts too little of a resource that it requests."""
        return self.best is not None and "Insufficient " in self.message

    def summary(self) -> str:
        """Return the answer in a sentence of a few hundred characters."""
        return joined(self.text(), self.message) if self.waits else self.text()

    def text(self) -> str:
        """Return the summary without what the scheduler said."""
        if self.standing:
            return self.standing
        if self.problem is not None:
            return self.problem
        if not self.is_valid:
            return uncounted_text(self.uncounted) if self.uncounted else "requests no share"
        if self.gang is not None and self.waits_for_gang:
            return self.gang.text_of(self.pod.metadata.uid)
        if self.best is None:
            return group_summary(self._groups())
        count = len(self.fitting)
        where = self.best if count == 1 else f"{count} nodes, best {self.best}"
        if self.claims is not None and not self.claims.is_sure:
            of = count + len(self.rejected)
            where = (
                f"at most {count} of {of} nodes, best {self.best}: its ResourceClaims may exclude"
            )
            return f"devices fit on {where} devices by expressions or constraints"
        return f"cards fit on {where}"

    def groups(self) -> tuple[NodeGroup, ...]:
        """Return the nodes that it does not fit, by cause, the nearest to a fit first."""
        found = self._groups()
        group_of = {member: at for at, group in enumerate(found) for member in group.members}
        examples: list[list[str]] = [[] for _ in found]
        missing = len(found)
        for name, number in zip(self.rejected.names, self.rejected.ids, strict=True):
            names = examples[group_of[number]]
            if len(names) < EXAMPLES:
                names.append(name)
                missing -= len(names) == EXAMPLES
                if not missing:
                    break
        return tuple(
            NodeGroup(group.text, group.nodes, tuple(names))
            for group, names in zip(found, examples, strict=True)
        )

    def texts(self) -> dict[str, str]:
        """Why it does not fit, by name of the node."""
        texts = self.distinct_texts()
        return dict(
            zip(self.rejected.names, map(texts.__getitem__, self.rejected.ids), strict=True)
        )

    def distinct_texts(self) -> list[str]:
        """Return the text of each distinct reason of ``rejected``."""
        request = self.request
        if request is None:
            return [reason.text() for reason in self.rejected.distinct]
        return [rejection_text(request, reason) for reason in self.rejected.distinct]

    def _groups(self) -> tuple[CauseGroup, ...]:
        return grouped(self.rejected.counted())


def joined(text: str, message: str) -> str:
    """Return a summary, and what the pod's scheduler said beside it."""
    return f"{text}; {message}" if message else text


def uncounted_text(names: tuple[str, ...]) -> str:
    """Say that a pod requests resources that no dialect knows."""
    return f"requests {', '.join(names)}, which Dragoman does not count"


def scheduler_of(pod: Pod) -> str:
    """Return the scheduler of a pod by the name that people know."""
    name = pod.spec.scheduler_name or DEFAULT
    return "kube-scheduler" if name == DEFAULT else name


def scheduler_message(pod: Pod, best: KubeNode | None = None) -> str:
    """Return what a pod's scheduler said last beside what Dragoman counts; empty where nothing.

    Such as ``kube-scheduler said: Insufficient cpu``, and, where cards fit on a node,
    ``Insufficient nvidia.com/gpumem (gpu-1 states none)``. While a pod has scheduling gates, no
    scheduler has anything to say, and these are named instead. The condition ``PodScheduled`` has
    the message of the latest ``FailedScheduling`` Event, and does not expire as Events do.
    Source: kubernetes pkg/scheduler/framework/types.go, FitError ("0/%v nodes are available: 3
    Insufficient cpu, 1 node(s) were unschedulable.", sorted by text); volcano
    pkg/scheduler/api/unschedule_info.go, FitErrors ("0/%v nodes are unavailable: ...").
    """
    if gates := gates_of(pod):
        return f"scheduling gates hold it back: {gates}"
    condition = rejection_of(pod)
    plain = "" if condition is None else " ".join(condition.message.split())
    head = _HEAD.match(plain)
    if head is None:
        text = "" if _OURS.match(plain) else plain
    else:
        reasons = _PREEMPTION.split(plain[head.end() :])[0].removesuffix(".")
        others = dict.fromkeys(_NUMBER.sub("", part, count=1) for part in _PART.split(reasons))
        theirs = [
            each for each in others if not each.startswith(_COUNTED) and not _OURS.match(each)
        ]
        for at, each in enumerate(theirs):
            if (short := _SHORT.match(each)) is not None:
                stated = {} if best is None else best.status.allocatable or {}
                amount = stated.get(short[1], "none")
                theirs[at] = f"{each} ({best.metadata.name} states {amount})" if best else ""
        text = ", ".join(filter(None, theirs))
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return f"{scheduler_of(pod)} said: {text}" if text else ""


class ClusterFacts(Protocol):
    """The cluster as one process knows it."""

    @property
    def dialects(self) -> Sequence[Dialect]:
        """All dialects, as the operator's policy configures them."""

    @property
    def claims(self) -> ClaimCache:
        """All ResourceClaims, with their classes and devices."""

    @property
    def inventory(self) -> Inventory:
        """The ledgers that can be read."""

    @property
    def revision(self) -> Hashable:
        """Changes whenever a ledger, a quota or a gang does."""

    def nodes(self) -> Mapping[str, KubeNode]:
        """Return the nodes by name, as a copy that stays; of equally good ones the first wins."""

    def unreadable(self) -> Mapping[str, str]:
        """Why the ledger of a node cannot be read, by name of the node."""

    def pods_on(self, node: str) -> Iterable[Pod]:
        """Return the pods that are bound to a node and may use cards."""

    def read(self, pod: Pod) -> PodRequest | None:
        """Return what a pod requests; None where it requests no share.

        Raises:
            DialectError: the request is invalid.
        """

    def evaluate(self, request: Request) -> NodeEvaluation:
        """Return a request against all ledgers, and the quota of its namespace."""

    def gang(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod with all its pods; None where it may be bound alone."""

    def over_quota(self, holder: PodRef, amounts: QuotaAmounts) -> str | None:
        """Why the quota of a pod's namespace refuses some amounts; None where it does not."""


def standing(facts: ClusterFacts, pod: Pod, uncounted: str) -> str:
    """Return what a pod has; empty where it waits for a node and has no cards.

    ``uncounted`` says that it requests what Dragoman does not count, or is empty.
    """
    if pod.status.phase in FINISHED:
        return f"has ended ({pod.status.phase}) and uses no cards"
    node, allocations = pod.spec.node_name, committed(facts, pod.metadata.uid)
    if not node:
        on = allocations[0].node if allocations else ""
        return f"has cards of {on}, and its Binding is not written yet" if on else ""
    bound, unreadable = f"is bound to {node}", facts.unreadable()
    own = next((each for each in allocations if each.node == node), None)
    if own is not None:
        unread = own.unread
        return f"{bound} and has its cards" if unread is None else _unknown(bound, "it has", unread)
    if node in unreadable:
        return _unknown(bound, "it has", unreadable[node])
    named = facts.claims.of_pod(pod.metadata.uid)
    claims = [held for claim in named for held in committed(facts, claim.uid)]
    if claims:
        unread = next((each.unread for each in claims if each.unread), None)
        if unread is not None:
            return _unknown(bound, "its claims have", unread)
        return f"{bound} and has the cards of its claims"
    flaws = facts.claims.uncounted(pod)
    if flaws:
        return f"{bound} and has devices by claims: {'; '.join(flaws)}"
    is_known, devices = node in facts.nodes(), held_devices(facts, pod)
    if devices and is_known:
        return f"{bound}: has {devices_text(devices)} of the device plugin, in no ledger"
    if uncounted:
        return f"{bound}: {uncounted}"
    return f"{bound}{'' if is_known else ', which does not exist,'} and uses no cards"


def committed(facts: ClusterFacts, uid: str) -> list[Allocation]:
    """Return the allocations of a pod or a claim in the ledgers."""
    if not uid:
        return []
    found = (
        facts.inventory.ledger(node).allocations[uid] for node in facts.inventory.nodes_of(uid)
    )
    return [each for each in found if each.state is AllocationState.COMMITTED]


def held_devices(facts: ClusterFacts, pod: Pod) -> Mapping[str, int]:
    """Return the devices of plugins that a pod has where it is bound."""
    try:
        return plain_amounts(pod, facts.dialects) if may_use_cards(pod) else NO_AMOUNTS
    except DialectError:
        return NO_AMOUNTS


def _unknown(bound: str, what: str, unread: str) -> str:
    return f"{bound}; which cards {what} is unknown: {unread}"

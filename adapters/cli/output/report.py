"""The result of a run, and its fields in JSON and YAML, which are a contract."""

from array import array
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from msgspec import to_builtins

from adapters.accounting.gang_cache import Gang
from adapters.answer.answer import NodeGroup
from adapters.cli.output.rows import Row
from adapters.wire.kube import WorkloadRef
from core.hardware.card import Card
from core.hardware.mig import Slice
from core.hardware.quantity import MIB
from core.requests.request import PodRef

EVERY = "*"
"""Replaces the container's name where a record has a share for all containers of the pod."""

MAX_NODE_NAMES = 3
"""Nodes that are named, at most, where many have the same text."""

HEAD = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "ScheduleReport"}
"""The first fields of a report."""


class PodResult(Enum):
    """The result of one pod."""

    PLACED = "placed"
    """The pod was pending, and has cards now."""
    REJECTED = "rejected"
    """The pod was pending, and fits no node."""
    INVALID = "invalid"
    """The pod's request is invalid."""
    BOUND = "bound"
    """The pod was already bound to a node."""
    SKIPPED = "skipped"
    """The pod requests no share, or has ended."""


NOT_PLACED = frozenset({PodResult.REJECTED, PodResult.INVALID})
"""Results of pods that request a share and have none."""


@dataclass(frozen=True, slots=True)
class ShareLine:
    """A share of one card for one container.

    Attributes:
        uuid: of the card.
        index: the card's number on its node; None for a card that the node does not have.
        memory: bytes.
        compute: percent of the card.
        slice: the MIG slice, on a card in MIG mode; else None.
    """

    uuid: str
    index: int | None
    memory: int
    compute: int
    slice: Slice | None


@dataclass(frozen=True, slots=True)
class GangLine:
    """The gang of a pod: ``namespace/name``, whose words name it, and pods bound together."""

    name: str
    api: str
    minimum: int

    @classmethod
    def of(cls, gang: Gang | None) -> "GangLine | None":
        """Return the line of a gang."""
        return None if gang is None else cls(str(gang.ref), gang.ref.api.value, gang.minimum)


class NodeTexts(Mapping[str, str]):
    """Texts of nodes, by the node's name; few texts of many nodes differ.

    Attributes:
        names: of the nodes, in order.
        ids: for each of the names the position of its text in ``texts``.
        texts: every text once.
    """

    def __init__(
        self, names: Sequence[str] = (), ids: "array[int] | None" = None, texts: Sequence[str] = ()
    ) -> None:
        self.names = names
        self.ids = array("i") if ids is None else ids
        self.texts = texts
        self._text_of: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        if self._text_of is None:
            self._text_of = dict(self.items())
        return self._text_of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def items(self) -> ItemsView[str, str]:
        """Return each name with its text."""
        return dict(zip(self.names, map(self.texts.__getitem__, self.ids), strict=True)).items()


@dataclass(frozen=True, slots=True)
class PodLine:
    """One pod.

    Attributes:
        pod: with the uid of the manifest, or one derived from namespace and name.
        dialect: of the request; None where it requests no share, or uses several dialects.
        containers: shares by container; without containers that get none.
        annotations: those that a binding would add.
        labels: those that a binding would add.
        summary: the outcome in a sentence.
        reasons: by node name, why the pod does not fit there.
        groups: of these nodes, by cause.
        gang: the pods with which it is bound together; None where it is bound alone.
    """

    pod: PodRef
    result: PodResult
    summary: str
    dialect: str | None = None
    node: str | None = None
    containers: Mapping[str, tuple[ShareLine, ...]] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    reasons: NodeTexts = field(default_factory=NodeTexts)
    groups: tuple[NodeGroup, ...] = ()
    gang: GangLine | None = None


@dataclass(frozen=True, slots=True)
class Sharer:
    """The part of one card that one pod has; memory in bytes, compute in percent.

    Attributes:
        pod: ``namespace/name``.
        blocking: the whole card counts as in use, because the pod's record could not be parsed.
    """

    pod: str
    dialect: str
    memory: int
    compute: int
    blocking: bool


@dataclass(frozen=True, slots=True)
class CardLine:
    """One card, what is in use of it in bytes and percent, and its pods in order of allocation."""

    card: Card
    memory: int
    compute: int
    sharers: tuple[Sharer, ...]


@dataclass(slots=True)
class WorkloadLine:
    """How many of the pods that a workload makes fit, of those that request shares.

    Attributes:
        ref: its name.
        replicas: the pods, so far.
        asked: those that request shares.
        fit: those that have them.
    """

    ref: WorkloadRef
    replicas: int = 0
    asked: int = 0
    fit: int = 0

    def count(self, result: PodResult) -> None:
        """Count one of its pods."""
        self.replicas += 1
        self.fit += result is PodResult.PLACED
        self.asked += result is PodResult.PLACED or result in NOT_PLACED

    def text(self) -> str:
        """Return the line."""
        if not self.asked:
            replicas = "replica requests" if self.replicas == 1 else "replicas request"
            return f"{self.ref}: {self.replicas} {replicas} no share"
        return f"{self.ref}: {self.fit} of {self.asked} replicas fit"

    def fields(self) -> dict[str, object]:
        """Return the fields of JSON and YAML."""
        kind, namespace, name = self.ref
        counts = {"replicas": self.replicas, "requestShares": self.asked, "fit": self.fit}
        return {"kind": kind, "namespace": namespace, "name": name, **counts}


REFUSED = "refused"
"""Pods that request a share and have none; the other words are those of ``PodResult``."""


@dataclass(frozen=True, slots=True)
class ReportPart:
    """A part.

    Attributes:
        results: of the pods that are shown.
        cards: whether cards are shown.
        namespace: of the pods that are shown; None for all.
    """

    results: frozenset[PodResult] = frozenset(PodResult)
    cards: bool = True
    namespace: str | None = None

    def shows(self, line: PodLine) -> bool:
        """Return whether a pod is shown."""
        return line.result in self.results and self.namespace in (None, line.pod.namespace)

    def workloads(self, lines: Iterable[WorkloadLine]) -> list[WorkloadLine]:
        """Return the workloads that are shown."""
        return [each for each in lines if self.namespace in (None, each.ref.namespace)]


EVERYTHING = ReportPart()
SUMMARY = ReportPart(frozenset(), cards=False)


def of_results(words: Iterable[str], *, cards: bool, namespace: str | None = None) -> ReportPart:
    """Return the pods of some results, of one namespace; without any, of all."""
    results = [NOT_PLACED if word == REFUSED else {PodResult(word)} for word in words]
    return ReportPart(
        frozenset().union(*results) if results else EVERYTHING.results, cards, namespace
    )


def pod_fields(pod: PodLine, nodes: dict[str, str]) -> dict[str, object]:
    """Return the fields of a pod; last come the nodes, by name, and why it does not fit them."""

    def share_fields(share: ShareLine) -> dict[str, object]:
        part = share.slice
        return {
            "uuid": share.uuid,
            "index": share.index,
            "memoryMiB": share.memory // MIB,
            "compute": share.compute,
            "mig": None if part is None else {"profile": part.profile, "start": part.start},
        }

    return {
        "namespace": pod.pod.namespace,
        "name": pod.pod.name,
        "uid": pod.pod.uid,
        "dialect": pod.dialect,
        "gang": to_builtins(pod.gang),
        "placed": pod.node is not None,
        "phase": "admission" if pod.result is PodResult.INVALID else "schedule",
        "node": pod.node,
        "containers": {
            name: [*map(share_fields, shares)] for name, shares in pod.containers.items()
        },
        "annotations": dict(pod.annotations),
        "labels": dict(pod.labels),
        "explanation": {"summary": pod.summary, "nodes": nodes},
    }


def card_fields(line: CardLine) -> dict[str, object]:
    """Return the fields of a card."""
    return {
        "node": line.card.node,
        "uuid": line.card.uuid,
        "index": line.card.index,
        "vendor": line.card.vendor,
        "model": line.card.model,
        "memoryMiB": line.card.memory // MIB,
        "usedMemoryMiB": line.memory // MIB,
        "usedCompute": line.compute,
        "sharers": [sharer.pod for sharer in line.sharers],
    }


def pod_row(pod: PodLine) -> Row:
    """Return the row of a pod; its amounts are those of all its shares together."""
    shares = [share for shares in pod.containers.values() for share in shares]
    fields: dict[str, object] = {
        "namespace": pod.pod.namespace,
        "name": pod.pod.name,
        "result": pod.result.value,
        "dialect": pod.dialect,
        "node": pod.node,
        "cards": [share.uuid for share in shares],
        "memoryMiB": sum(share.memory for share in shares) // MIB,
        "compute": sum(share.compute for share in shares),
        "summary": pod.summary,
        "gang": None if pod.gang is None else pod.gang.name,
    }
    return Row(f"pod/{pod.pod.name}", (), fields)


def short(full_name: str) -> str:
    """Return the name of a pod; with its namespace where it is not ``default``."""
    return full_name.removeprefix("default/")


def named(nodes: Sequence[str], count: int | None = None) -> str:
    """Return the first nodes by name, and the number of the others.

    ``nodes`` are ``MAX_NODE_NAMES`` or more of them, or all; then ``count`` may be None.
    """
    count = len(nodes) if count is None else count
    if count <= MAX_NODE_NAMES:
        return ", ".join(nodes)
    return f"{', '.join(nodes[:MAX_NODE_NAMES])} and {count - MAX_NODE_NAMES} more nodes"

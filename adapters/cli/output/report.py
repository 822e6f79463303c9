"""What came of a run, and the JSON of it that others rely on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import orjson
import yaml

from core.hardware.card import Card
from core.hardware.mig import Slice
from core.hardware.quantity import MIB

EVERY = "*"
"""Stands for a container's name where a record gives a share to all containers of the pod."""


class PodResult(Enum):
    """What became of a pod."""

    PLACED = "placed"
    """It was pending, and has cards now."""
    REFUSED = "refused"
    """It was pending, and fits nowhere."""
    INVALID = "invalid"
    """It asks for something that cannot be meant."""
    BOUND = "bound"
    """It was on a node before, and holds what it holds."""
    LEFT_ALONE = "left alone"
    """It asks for no share, or is over."""


@dataclass(frozen=True, slots=True)
class ShareLine:
    """A share of one card for one container.

    Attributes:
        uuid: the card's.
        index: the card's number on its node; None for a card that the node does not have.
        memory: bytes.
        compute: percent of the card.
        slice: the hardware slice, on a card in MIG mode.
    """

    uuid: str
    index: int | None
    memory: int
    compute: int
    slice: Slice | None


@dataclass(frozen=True, slots=True)
class PodLine:
    """One pod.

    Attributes:
        namespace: of the pod.
        name: of the pod.
        uid: its own, or one made of namespace and name.
        dialect: the vocabulary in which it asks; None where it asks for no share, or in several.
        fate: what became of it.
        node: where it is or goes.
        containers: what each container gets; without those that get nothing.
        annotations: what would be written on it.
        labels: what would be written on it.
        summary: its fate in a sentence.
        reasons: by node name, why not there.
    """

    namespace: str
    name: str
    uid: str
    dialect: str | None
    fate: PodResult
    summary: str
    node: str | None = None
    containers: Mapping[str, tuple[ShareLine, ...]] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Sharer:
    """What one pod holds of one card.

    Attributes:
        pod: ``namespace/name``.
        dialect: in which it asks.
        memory: bytes.
        compute: percent.
        blocking: it may hold any part of the card: its record could not be read.
    """

    pod: str
    dialect: str
    memory: int
    compute: int
    blocking: bool


@dataclass(frozen=True, slots=True)
class CardLine:
    """One card and who shares it.

    Attributes:
        card: the card.
        memory: bytes in use.
        compute: percent in use.
        sharers: by arrival.
    """

    card: Card
    memory: int
    compute: int
    sharers: tuple[Sharer, ...]


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """A whole run.

    Attributes:
        pods: in order of the input.
        cards: by node in order of the input, then by index.
        warnings: what a person should look at, as sentences.
    """

    pods: tuple[PodLine, ...]
    cards: tuple[CardLine, ...]
    warnings: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every pod that asks for a share has one."""
        return not any(pod.fate in (PodResult.REFUSED, PodResult.INVALID) for pod in self.pods)


def as_json(report: ScheduleReport) -> bytes:
    """The report as indented JSON with a newline at the end."""
    return orjson.dumps(_objects(report), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def as_yaml(report: ScheduleReport) -> bytes:
    """The same as YAML."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        _objects(report), Dumper=dumper, sort_keys=False, allow_unicode=True, width=1 << 20
    )
    return text.encode()


def _objects(report: ScheduleReport) -> dict[str, object]:
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "ScheduleReport",
        "pods": [_pod(pod) for pod in report.pods],
        "cards": [_card(line) for line in report.cards],
    }


def _pod(pod: PodLine) -> dict[str, object]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "dialect": pod.dialect,
        "placed": pod.node is not None,
        "phase": "admission" if pod.fate is PodResult.INVALID else "schedule",
        "node": pod.node,
        "containers": {
            name: [_share(share) for share in shares] for name, shares in pod.containers.items()
        },
        "annotations": dict(pod.annotations),
        "labels": dict(pod.labels),
        "explanation": {"summary": pod.summary, "nodes": dict(pod.reasons)},
    }


def _share(share: ShareLine) -> dict[str, object]:
    part = share.slice
    return {
        "uuid": share.uuid,
        "index": share.index,
        "memoryMiB": share.memory // MIB,
        "compute": share.compute,
        "mig": None if part is None else {"profile": part.profile, "start": part.start},
    }


def _card(line: CardLine) -> dict[str, object]:
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

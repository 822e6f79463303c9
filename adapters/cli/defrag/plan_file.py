"""A plan that is carried out: its file, read strictly, and what is said of each step."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from adapters.cli.input.document import Document, documents
from adapters.cli.input.source import InputError, sources
from adapters.cluster.api import timestamps
from adapters.wire.kube import Wire
from adapters.wire.records.move_plan import (
    API_VERSION,
    KIND,
    MovePhase,
    MovePlanMetadata,
    MovePlanObject,
    MovePlanRecordError,
    MovePlanSpec,
    MovePlanStatus,
    MoveStep,
    Name,
    TargetKind,
    read_spec,
)
from core.requests.request import Phase

_CHOICES: dict[str, type[Enum]] = {"kind": TargetKind, "phase": Phase}
"""The fields of a spec with a choice of values."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan that can be carried out.

    Attributes:
        name: of the object.
        spec: what is carried out.
        manifest: the object as it is created.
    """

    name: str
    spec: MovePlanSpec
    manifest: dict[str, object]


class _PlanMetadata(Wire, frozen=True, gc=False):
    name: Name


class _PlanManifest(Wire, frozen=True, gc=False):
    metadata: _PlanMetadata
    spec: MovePlanSpec
    report: dict[str, Any] = msgspec.field(default_factory=dict)


def read_plan(file: str) -> PlanFile:
    """Read a plan of a file, or of standard input (``-``).

    Raises:
        InputError: it cannot be read, is no MovePlan or not one alone, or a field is missing,
            unknown or has a value that it cannot have.
    """
    found = [document for text in sources([file], sys.stdin.buffer) for document in documents(text)]
    if len(found) != 1:
        raise InputError(file, f"must have one {KIND}, but has {len(found)} objects")
    (document,) = found
    head = document.head()
    for field, value, right in (
        ("kind", head.kind, KIND),
        ("apiVersion", head.api_version, API_VERSION),
    ):
        if value != right:
            raise InputError(document.location, f"{field} must be {right}, but is {value!r}")
    plan = _read(document)
    for field in _unknown(document.read(dict[str, Any])["spec"], plan.spec, "spec"):
        raise InputError(document.location, f"{field}: there is no such field")
    raw = msgspec.Raw(msgspec.json.encode(plan.spec))
    try:
        read_spec(MovePlanObject(MovePlanMetadata(name=plan.metadata.name), raw))
    except MovePlanRecordError as error:
        raise InputError(document.location, str(error)) from error
    manifest: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": plan.metadata.name},
        "spec": msgspec.to_builtins(plan.spec),
        "report": plan.report,
    }
    return PlanFile(plan.metadata.name, plan.spec, manifest)


def _read(document: Document) -> _PlanManifest:
    try:
        return document.read(_PlanManifest)
    except InputError as error:
        field, cannot, _ = error.problem.partition(" cannot be ")
        choices = _CHOICES.get(field.rpartition(".")[2])
        if not cannot or choices is None:
            raise
        known = ", ".join(str(each.value) for each in choices)
        raise InputError(error.location, f"{error.problem}; it is one of {known}") from error


def _unknown(raw: Any, value: object, path: str) -> Iterator[str]:
    """Yield the fields that a value was read from and does not have."""
    if isinstance(value, tuple):
        for number, (each, item) in enumerate(zip(raw, value, strict=True)):
            yield from _unknown(each, item, f"{path}[{number}]")
    elif isinstance(value, msgspec.Struct):
        known = {each.encode_name: each.name for each in msgspec.structs.fields(value)}
        for key, each in raw.items():
            if key in known:
                yield from _unknown(each, getattr(value, known[key]), f"{path}.{key}")
            else:
                yield f"{path}.{key}"


def step_line(spec: MovePlanSpec, number: int, done: MoveStep | None = None) -> str:
    """Return a step, and what became of it once it is done.

    Args:
        spec: of the plan.
        number: of the step, from 1.
        done: what became of it; None before.
    """
    move, owner = spec.moves[number - 1], spec.moves[number - 1].controller
    what = f"{_step(spec, number)}: {move.namespace}/{move.pod} of {owner.kind}/{owner.name}"
    text = f"{what} from {move.from_.node} to {move.to.node}"
    if done is None:
        return text
    if done.skipped:
        return f"{text}: skipped, there is nothing to move any more"
    evicted, ready = timestamps.read(done.evicted_at), timestamps.read(done.ready_at)
    after = ""
    if evicted is not None and ready is not None:
        after = f" after {round((ready - evicted).total_seconds())} s"
    return f"{text}: {done.replacement} is ready{after}"


def target_lines(spec: MovePlanSpec) -> Iterator[str]:
    """Yield what the moves were for, once it is reached."""
    for target in spec.targets:
        at = "" if target.place is None else f" on {target.place.node}"
        match target.kind:
            case TargetKind.POD:
                yield f"{target.namespace}/{target.name} has its cards{at}"
            case TargetKind.NODE:
                yield f"node {target.name} is empty"
            case TargetKind.SHARE:
                yield f"{target.name} is free{at}"


def phase_text(spec: MovePlanSpec, status: MovePlanStatus) -> str:
    """Return what is done now."""
    match status.phase:
        case MovePhase.NEW | MovePhase.WAITING:
            return "waits for its turn"
        case MovePhase.HELD:
            return "asks whether each pod may be evicted"
        case MovePhase.READY:
            return "checks what comes next"
        case MovePhase.EVICT:
            return f"{_step(spec, status.step)}: evicts the pod"
        case MovePhase.EVICTED:
            return f"{_step(spec, status.step)}: waits until the new pod is ready"
        case MovePhase.PLACING:
            return "waits until the targets have their cards"
        case MovePhase.FINISHED:
            return "finished"
        case MovePhase.STOPPED:
            return f"stopped at step {status.step} of {len(spec.moves)}"


def _step(spec: MovePlanSpec, number: int) -> str:
    return f"step {number} of {len(spec.moves)}"

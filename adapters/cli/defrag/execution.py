"""A plan that is carried out: its file, read strictly, its object ``MovePlan``, and its steps.

The service and the mover do the work. This command may end at any time; the plan goes on.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from adapters.cli.defrag.planning import Planned
from adapters.cli.defrag.report import as_object, name_of, spec_of
from adapters.cli.input.document import documents
from adapters.cli.input.source import InputError, sources
from adapters.cli.output.terminal import StepDisplay
from adapters.cluster.api import timestamps
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, NOT_FOUND, ClusterError
from adapters.cluster.objects.move_plans import MovePlanClient
from adapters.wire.kube import Wire
from adapters.wire.records.move_plan import (
    API_VERSION,
    KIND,
    MOST_MOVES,
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
    read_status,
)
from core.requests.request import Phase

POLL = 1.0
"""Seconds between two readings of the status."""

TAKE_UP = 30.0
"""Seconds in which a service begins with a plan, also one that has just become the leader, and in
which the mover says its first word."""

SIGN_OF_LIFE = 90.0
"""Seconds in which a mover that waits writes that it does: it does so every minute."""

NOT_INSTALLED = (
    "the cluster has no MovePlans: install their definition (configs/crd/moveplans.yaml), and set"
    " defrag.enabled of the chart"
)

NO_SERVICE = (
    "no service began with the plan in {seconds:.0f} s: defrag.enabled of the chart is false, or no"
    " replica of Dragoman runs, or the one that leads was not restarted since (a sidecar)"
)

TOO_MANY = (
    "has {moves} moves, at most {most} can be carried out: plan for fewer pods or nodes at a time"
)

NO_MOVER = (
    "the mover has given no sign of life for {seconds:.0f} s: see whether its Deployment has a pod"
    " that runs; without one, the service stops the plan after 10 minutes"
)

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


def file_of(plan: Planned) -> PlanFile:
    """Return a plan as the file of ``-o yaml`` gives it.

    Raises:
        InputError: it has more moves than an object can have.
    """
    spec = spec_of(plan)
    if len(spec.moves) > MOST_MOVES:
        raise InputError("the plan", TOO_MANY.format(moves=len(spec.moves), most=MOST_MOVES))
    return PlanFile(name_of(spec), spec, as_object(plan))


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
    try:
        plan = document.read(_PlanManifest)
    except InputError as error:
        field, cannot, _ = error.problem.partition(" cannot be ")
        choices = _CHOICES.get(field.rpartition(".")[2])
        if not cannot or choices is None:
            raise
        known = ", ".join(str(each.value) for each in choices)
        raise InputError(error.location, f"{error.problem}; it is one of {known}") from error
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
    """Return a step, numbered from 1, and what became of it once it is done."""
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


class Execution:
    """Carries out one plan.

    Attributes:
        exists: whether the object may be there.
    """

    def __init__(self, plan: PlanFile, display: StepDisplay) -> None:
        """Send no request yet."""
        self.exists = False
        self._plan = plan
        self._display = display
        self._said = 0
        self._reason = ""
        self._seen: MovePlanStatus | None = None
        self._since = 0.0
        self._warned: MovePlanStatus | None = None

    async def run(self, client: KubeClient) -> bool:
        """Create the plan, or go on with the one that is there, and follow it to its end.

        Returns:
            whether it finished; else it stopped, or was deleted.

        Raises:
            InputError: there are no MovePlans, there is another one of this name, or no service
                begins with it.
            ClusterError: the server rejects a request, or does not answer.
        """
        plans = MovePlanClient(client)
        found: MovePlanObject | None = await self._created(plans)
        while found is not None:
            try:
                status = read_status(found)
            except MovePlanRecordError as error:
                raise InputError("the cluster", str(error)) from error
            self._report(status)
            if status.phase.has_ended:
                text = f"plan {self._plan.name}: {phase_text(self._plan.spec, status)}"
                failed = status.phase is MovePhase.STOPPED
                if status.reason or failed:
                    self._display.line(f"{text}: {status.reason}")
                    return not failed
                for line in target_lines(self._plan.spec):
                    self._display.line(line)
                self._display.line(text)
                return True
            self._check_progress(status)
            await asyncio.sleep(POLL)
            found = await plans.get(self._plan.name)
        self.exists = False
        self._display.line(
            f"plan {self._plan.name}: deleted; no further step is made, and no place is held"
        )
        return False

    async def _created(self, plans: MovePlanClient) -> MovePlanObject:
        name, moves = self._plan.name, len(self._plan.spec.moves)
        self.exists = True
        try:
            found = await plans.create(self._plan.manifest)
        except ClusterError as error:
            self.exists = error.status == CONFLICT or error.uncertain
            if error.status == NOT_FOUND:
                raise InputError(f"MovePlan {name}", NOT_INSTALLED) from error
            if not self.exists:
                raise
            there = await plans.get(name)
            if there is None:
                raise
            found = there
            spec = None
            with suppress(MovePlanRecordError):
                spec = read_spec(found)
            if spec != self._plan.spec:
                self.exists = False
                problem = "there is one of this name with another spec: delete it, or rename this"
                raise InputError(f"MovePlan {name}", problem) from error
            self._display.note(f"plan {name} is there already, and goes on")
        self._display.line(f"plan {name}: {moves} {'move' if moves == 1 else 'moves'}")
        return found

    def _report(self, status: MovePlanStatus) -> None:
        """Say what has happened since the last time."""
        spec = self._plan.spec
        done = [each for each in status.steps if each.skipped or each.ready_at]
        for each in done[self._said :]:
            number = min(each.step, len(spec.moves))
            self._display.line(step_line(spec, number, each))
        self._said = max(self._said, len(done))
        if status.reason != self._reason and not status.phase.has_ended:
            self._reason = status.reason
            if status.reason:
                self._display.note(f"{phase_text(spec, status)}: {status.reason}")
        self._display.now(f"plan {self._plan.name}: {phase_text(spec, status)}")

    def _check_progress(self, status: MovePlanStatus) -> None:
        """Say who does not answer, by the time since the status changed."""
        if status != self._seen:
            self._seen, self._since = status, time.monotonic()
        silent = time.monotonic() - self._since
        match status.phase:
            case MovePhase.NEW if silent >= TAKE_UP:
                problem = NO_SERVICE.format(seconds=TAKE_UP)
                raise InputError(f"MovePlan {self._plan.name}", problem)
            case MovePhase.HELD if silent >= TAKE_UP:
                self._warn(status, NO_MOVER.format(seconds=TAKE_UP))
            case MovePhase.EVICT if silent >= SIGN_OF_LIFE:
                self._warn(status, NO_MOVER.format(seconds=SIGN_OF_LIFE))
            case _:
                pass

    def _warn(self, status: MovePlanStatus, text: str) -> None:
        """Say something once for each status."""
        if status != self._warned:
            self._warned = status
            self._display.note(text)

"""What the command says of a plan while it is carried out, a line for each step."""

from collections.abc import Iterator

from adapters.cluster.api import timestamps
from adapters.wire.records.move_plan import (
    MovePhase,
    MovePlanSpec,
    MovePlanStatus,
    MoveStep,
    PlannedTarget,
    TargetKind,
)


def step_line(spec: MovePlanSpec, number: int, done: MoveStep | None = None) -> str:
    """A step, and what became of it once it is done.

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
    return f"{text}: {done.replacement} is ready{_after(done)}"


def target_lines(spec: MovePlanSpec) -> Iterator[str]:
    """What the moves were for, once it is reached."""
    return (_target_line(target) for target in spec.targets)


def phase_text(spec: MovePlanSpec, status: MovePlanStatus) -> str:
    """What is done now."""
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


def _after(done: MoveStep) -> str:
    evicted, ready = timestamps.read(done.evicted_at), timestamps.read(done.ready_at)
    if evicted is None or ready is None:
        return ""
    return f" after {round((ready - evicted).total_seconds())} s"


def _target_line(target: PlannedTarget) -> str:
    at = "" if target.place is None else f" on {target.place.node}"
    match target.kind:
        case TargetKind.POD:
            return f"{target.namespace}/{target.name} has its cards{at}"
        case TargetKind.NODE:
            return f"node {target.name} is empty"
        case TargetKind.SHARE:
            return f"{target.name} is free{at}"

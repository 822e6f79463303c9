"""What the mover does about a plan, and how many pods it may evict in an hour: pure functions."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from adapters.cluster.api import timestamps
from adapters.mover.plans import HOUR, KnownPlan, PastEviction
from adapters.wire.records.move_plan import MovePhase, MovePlanStatus, MoveStep, PlannedMove

TAKEOVER = 60.0
"""Seconds after which another process has left the order that it took; a live one needs fewer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the API server whether it would evict each pod of the plan."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Take the order, then evict the pod of a move.

    Attributes:
        step: number of the move.
        move: the one of that number.
    """

    step: int
    move: PlannedMove


@dataclass(frozen=True, slots=True)
class ReportEvicted:
    """Evict nothing, and write that the pod of a step was evicted: it was.

    Attributes:
        step: number of the move.
        evicted_at: when, RFC 3339.
    """

    step: int
    evicted_at: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Evict later, because of the bounds.

    Attributes:
        reason: which bound, and until when.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the order to another process, which has taken it.

    Attributes:
        mover: its name.
    """

    mover: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Give the plan up.

    Attributes:
        reason: what of its status cannot be carried out.
    """

    reason: str


Decision = Ask | Evict | ReportEvicted | Wait | Leave | Stop


@dataclass(frozen=True, slots=True)
class MoverBounds:
    """The most evictions in any hour.

    Attributes:
        per_hour: of all plans together, 1 or more.
        per_namespace: of pods of one namespace, 1 or more.
    """

    per_hour: int = 20
    per_namespace: int = 5


@dataclass(frozen=True, slots=True)
class MoverState:
    """What decides besides the plan.

    Attributes:
        mover: name of this process, which no other has or had.
        bounds: of evictions.
        evictions: of the last hour, by all movers.
        now: by the wall clock.
        monotonic: the same in monotonic seconds.
        takeover: seconds; see ``TAKEOVER``.
    """

    mover: str
    bounds: MoverBounds
    evictions: Collection[PastEviction]
    now: datetime
    monotonic: float
    takeover: float = TAKEOVER


def decide(plan: KnownPlan, state: MoverState) -> Decision | None:
    """Decide what to do about a plan; None where the service acts, or it has ended."""
    if plan.status.phase is MovePhase.HELD:
        return Ask()
    if plan.status.phase is not MovePhase.EVICT:
        return None
    step, moves = plan.status.step, plan.spec.moves
    if not 1 <= step <= len(moves):
        return Stop(f"status.step: {step}: must be 1 to {len(moves)}, the number of a move")
    others: list[PastEviction] = []
    for eviction in state.evictions:
        if (eviction.plan, eviction.step) != (plan.uid, step):
            others.append(eviction)
        elif eviction.done:
            return ReportEvicted(step, timestamps.seconds(eviction.at))
    for entry in plan.status.steps:
        if entry.step != step:
            continue
        if entry.evicted_at or entry.skipped:  # longer ago than the evictions that count
            return ReportEvicted(step, entry.evicted_at or timestamps.seconds(state.now))
        is_taken = entry.mover not in ("", state.mover)
        if is_taken and state.monotonic - plan.seen < state.takeover:
            return Leave(entry.mover)
    move = moves[step - 1]
    reason = reason_to_wait(state.bounds, others, move.namespace, state.now)
    return Wait(reason) if reason else Evict(step, move)


def reason_to_wait(
    bounds: MoverBounds, evictions: Collection[PastEviction], namespace: str, now: datetime
) -> str:
    """Return why a pod of a namespace may not be evicted yet, and until when; else empty.

    An eviction in the future counts: clocks differ, and a bound must hold all the same.
    """
    recent = [each for each in evictions if now - each.at < HOUR]
    of_namespace = [each for each in recent if each.namespace == namespace]
    return _reason(bounds.per_hour, recent, "perHour") or _reason(
        bounds.per_namespace, of_namespace, f"perNamespacePerHour, namespace {namespace}"
    )


def _reason(most: int, recent: Collection[PastEviction], name: str) -> str:
    if len(recent) < most:
        return ""
    free_at = sorted(each.at for each in recent)[-most] + HOUR
    what = f"{len(recent)} evictions in the last hour, at most {most} may be ({name})"
    return f"{what}: waits until {timestamps.seconds(free_at)}"


def with_entry(status: MovePlanStatus, entry: MoveStep) -> tuple[MoveStep, ...]:
    """Return the steps with this entry, in order and in place of any other of its number."""
    others = (each for each in status.steps if each.step != entry.step)
    return tuple(sorted((*others, entry), key=lambda each: each.step))

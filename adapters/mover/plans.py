"""The plans as a watch sees them, the evictions that they name, and what to do about a plan."""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from adapters.cluster.api import timestamps
from adapters.cluster.watch.object_tracker import Identity
from adapters.wire.kube import Unreadable
from adapters.wire.records import move_plan

HOUR = timedelta(hours=1)
"""How long an eviction counts."""

TAKEOVER = 60.0
"""Seconds after which another process has left the order that it took; a live one needs fewer."""


@dataclass(frozen=True, slots=True)
class PastEviction:
    """An eviction that was done, or was begun and may have been done.

    Attributes:
        plan: uid of the plan.
        step: number of the move.
        namespace: of the pod; empty where the plan has no such move.
        at: when it was done, else begun.
        done: whether it is known to have been done.
    """

    plan: str
    step: int
    namespace: str
    at: datetime
    done: bool


@dataclass(eq=False, slots=True)
class PlanCache:
    """The plans by name; handles the events of a watch.

    ``report`` is called with the name of a plan that cannot be read, and why.

    Attributes:
        plans: those that can be read and are not being deleted.
        clock: monotonic seconds.
        changed: set after each change.
    """

    _report: Callable[[str, str], None]
    clock: Callable[[], float] = time.monotonic
    plans: dict[str, move_plan.KnownPlan] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _listed: dict[str, tuple[PastEviction, ...]] = field(default_factory=dict)
    _own: dict[tuple[str, int], PastEviction] = field(default_factory=dict)

    def on_update(self, thing: move_plan.MovePlanObject) -> None:
        """Take a plan that was added or changed."""
        name = thing.metadata.name
        self.plans.pop(name, None)
        self.changed.set()
        try:
            plan = move_plan.KnownPlan(
                thing, move_plan.read_spec(thing), move_plan.read_status(thing), self.clock()
            )
        except move_plan.MovePlanRecordError as error:
            self._report(name, str(error))
            return
        moves = plan.spec.moves
        self._listed[plan.uid] = tuple(
            PastEviction(
                plan.uid,
                entry.step,
                moves[entry.step - 1].namespace if entry.step <= len(moves) else "",
                # An eviction at an unreadable time counts as just done.
                timestamps.read(entry.evicted_at or entry.begun_at) or timestamps.now(),
                done=bool(entry.evicted_at),
            )
            for entry in plan.status.steps
            if entry.evicted_at or entry.begun_at
        )
        if thing.metadata.deletion_timestamp is None:
            self.plans[name] = plan

    def on_delete(self, what: Identity) -> None:
        """Drop a plan that was deleted; its evictions count all the same."""
        self.plans.pop(what.name, None)
        self.changed.set()

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """Report a plan without even metadata that can be read."""
        self.plans.pop(what.name, None)
        self._report(what.name, problem)

    def on_synced(self) -> None:
        """Do nothing after a full list."""

    def evicted(self, eviction: PastEviction) -> None:
        """Count a pod that this process evicted, whatever becomes of the plan and its status."""
        self._own[eviction.plan, eviction.step] = eviction

    def evictions(self, now: datetime) -> list[PastEviction]:
        """List all evictions of the last hour, each once."""
        self._listed = {
            uid: recent
            for uid, rows in self._listed.items()
            if (recent := tuple(each for each in rows if now - each.at < HOUR))
        }
        self._own = {key: each for key, each in self._own.items() if now - each.at < HOUR}
        listed = {(each.plan, each.step): each for row in self._listed.values() for each in row}
        return [*{**listed, **self._own}.values()]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the API server whether it would evict each pod of the plan."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Take the order, then evict the pod of a move; ``step`` is the number of the move."""

    step: int
    move: move_plan.PlannedMove


@dataclass(frozen=True, slots=True)
class ReportEvicted:
    """Evict nothing, and write when the pod of a step was evicted (RFC 3339): it was."""

    step: int
    evicted_at: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Evict later, because of the bounds; the reason says which one, and until when."""

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the order to another process, of this name, which has taken it."""

    mover: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Give the plan up; the reason says what of its status cannot be carried out."""

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
class MoverSettings:
    """How a mover acts.

    Attributes:
        name: of the process, which no other has or had.
        bounds: of evictions.
        every: seconds between two looks at plans that nothing has changed.
        takeover: seconds; see ``TAKEOVER``.
    """

    name: str
    bounds: MoverBounds
    every: float = 2.0
    takeover: float = TAKEOVER


@dataclass(frozen=True, slots=True)
class MoverState:
    """What decides besides the plan.

    Attributes:
        settings: of this process.
        evictions: of the last hour, by all movers.
        now: by the wall clock.
        monotonic: the same in monotonic seconds.
    """

    settings: MoverSettings
    evictions: Collection[PastEviction]
    now: datetime
    monotonic: float


def decide(plan: move_plan.KnownPlan, state: MoverState) -> Decision | None:
    """Decide what to do about a plan; None where the service acts, or it has ended."""
    if plan.status.phase is move_plan.MovePhase.HELD:
        return Ask()
    if plan.status.phase is not move_plan.MovePhase.EVICT:
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
        is_taken = entry.mover not in ("", state.settings.name)
        if is_taken and state.monotonic - plan.seen < state.settings.takeover:
            return Leave(entry.mover)
    move = moves[step - 1]
    reason = reason_to_wait(state.settings.bounds, others, move.namespace, state.now)
    return Wait(reason) if reason else Evict(step, move)


def reason_to_wait(
    bounds: MoverBounds, evictions: Collection[PastEviction], namespace: str, now: datetime
) -> str:
    """Return why a pod of a namespace may not be evicted yet, and until when; else empty.

    An eviction in the future counts: clocks differ, and a bound must hold all the same.
    """
    recent = [each for each in evictions if now - each.at < HOUR]
    of_namespace = [each for each in recent if each.namespace == namespace]
    for most, counted, name in (
        (bounds.per_hour, recent, "perHour"),
        (bounds.per_namespace, of_namespace, f"perNamespacePerHour, namespace {namespace}"),
    ):
        if len(counted) >= most:
            free_at = sorted(each.at for each in counted)[-most] + HOUR
            what = f"{len(counted)} evictions in the last hour, at most {most} may be ({name})"
            return f"{what}: waits until {timestamps.seconds(free_at)}"
    return ""


def with_entry(
    status: move_plan.MovePlanStatus, entry: move_plan.MoveStep
) -> tuple[move_plan.MoveStep, ...]:
    """Return the steps with this entry, in order and in place of any other of its number."""
    others = (each for each in status.steps if each.step != entry.step)
    return tuple(sorted((*others, entry), key=lambda each: each.step))

"""The plans that there are, as a watch sees them, and the evictions that their statuses name."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from adapters.cluster.api import timestamps
from adapters.cluster.watch.object_tracker import Identity
from adapters.wire.kube import Unreadable
from adapters.wire.records.move_plan import (
    MovePlanObject,
    MovePlanRecordError,
    MovePlanSpec,
    MovePlanStatus,
    read_spec,
    read_status,
)

HOUR = timedelta(hours=1)
"""How long an eviction counts."""

ReportUnreadable = Callable[[str, str], None]
"""Called with the name of a plan that cannot be read, and why."""


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


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan in one version.

    Attributes:
        thing: the object.
        spec: of the object.
        status: of the object.
        seen: monotonic seconds when this process first saw this version.
    """

    thing: MovePlanObject
    spec: MovePlanSpec
    status: MovePlanStatus
    seen: float

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.thing.metadata.name

    @property
    def uid(self) -> str:
        """The uid of the object."""
        return self.thing.metadata.uid


class PlanCache:
    """The plans by name; handles the events of a watch.

    Attributes:
        plans: those that can be read and are not being deleted.
        changed: set after each change.
    """

    def __init__(
        self, report: ReportUnreadable, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin without a plan.

        Args:
            report: called for a plan that cannot be read.
            clock: monotonic seconds.
        """
        self.plans: dict[str, KnownPlan] = {}
        self.changed = asyncio.Event()
        self._report = report
        self._clock = clock
        self._listed: dict[str, tuple[PastEviction, ...]] = {}
        self._own: dict[tuple[str, int], PastEviction] = {}

    def on_update(self, thing: MovePlanObject) -> None:
        """Take a plan that was added or changed."""
        name = thing.metadata.name
        self.plans.pop(name, None)
        self.changed.set()
        try:
            plan = KnownPlan(thing, read_spec(thing), read_status(thing), self._clock())
        except MovePlanRecordError as error:
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

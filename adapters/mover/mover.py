"""The loop of the mover: carries out what plans order, one eviction after the other.

A process that is killed at any point evicts nothing twice and forgets nothing:

1. It writes into the status that it takes the order, by compare-and-swap. Of several processes one
   succeeds; the others leave the order to it for a minute. The eviction counts from here on.
2. It evicts the pod, by its uid. A pod that is gone counts as evicted.
3. It writes that the pod was evicted, and the service goes on.

Killed between 1 and 3, another process finds the order taken and not carried out. After a minute it
takes the order itself and evicts the pod of that uid again, which is gone if it had been evicted.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from msgspec.structs import replace

from adapters.cluster.api import timestamps
from adapters.cluster.api.error import (
    CONFLICT,
    NOT_FOUND,
    SERVER_ERROR,
    TOO_MANY,
    UNAUTHORIZED,
    ClusterError,
)
from adapters.cluster.api.transport import delay
from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.cluster.objects.move_plans import MovePlanClient
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.watch.object_tracker import Identity
from adapters.mover import plans
from adapters.wire.records.move_plan import (
    KnownPlan,
    MovePhase,
    MovePlanStatus,
    MoveStep,
    PlannedMove,
)
from core.requests.request import PodRef

Logger = structlog.typing.FilteringBoundLogger

CONTROLLER = "dragoman.dev/mover"
"""``reportingController`` of the mover's Events."""

_SIGN_OF_LIFE = 60.0
"""Seconds between two writes of a plan that waits. The service gives up on it after ten minutes."""

_FRESH = 10.0
"""Seconds after an order was taken in which the eviction is sent: else the plan may be another."""

# Source: kubernetes 1.37.1 pkg/registry/core/pod/storage/eviction.go.
_BUDGET = "DisruptionBudget"
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"

_TRANSIENT = {UNAUTHORIZED, 408, CONFLICT}


@dataclass(eq=False, slots=True)
class Mover:
    """Acts on the plans that a watch fills; the clock is theirs, in monotonic seconds."""

    _plans: plans.PlanCache
    _client: MovePlanClient
    _evictions: PodClient
    _events: EventRecorder
    _log: Logger
    _settings: plans.MoverSettings
    _clock: Callable[[], float] = time.monotonic
    _stopping: bool = False
    _failures: int = 0

    def stop(self) -> None:
        """Have ``run`` return, after the step that it is doing."""
        self._stopping = True
        self._plans.changed.set()

    async def run(self) -> None:
        """Act on plans, one after the other, until stopped."""
        while not self._stopping:
            self._plans.changed.clear()
            failures = self._failures
            for name in sorted(self._plans.plans):
                if self._stopping:
                    return
                await self._advance(name)
            if self._failures > failures:
                await self._pause(delay(self._failures))
            else:
                self._failures = 0
                await self._pause(self._settings.every, until_changed=True)

    async def _pause(self, seconds: float, *, until_changed: bool = False) -> None:
        end = self._clock() + seconds
        while not self._stopping and (left := end - self._clock()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._plans.changed.wait()
            except TimeoutError:
                return
            if until_changed:
                return
            self._plans.changed.clear()

    async def _advance(self, name: str) -> None:
        """Do the next thing about a plan; no error leaves it."""
        plan, now = self._plans.plans.get(name), timestamps.now()
        if plan is None:
            return
        evictions = self._plans.evictions(now)
        state = plans.MoverState(self._settings, evictions, now, self._clock())
        try:
            match plans.decide(plan, state):
                case plans.Ask():
                    await self._ask(plan)
                case plans.Evict(step, move):
                    await self._evict(plan, step, move)
                case plans.ReportEvicted(step, evicted_at):
                    await self._report(plan, step, evicted_at)
                case plans.Wait(reason):
                    # Written at once, and then as a sign of life.
                    if not plan.status.reason or self._clock() - plan.seen >= _SIGN_OF_LIFE:
                        await self._write(plan, phase=plan.status.phase, reason=reason)
                        step = plan.status.step
                        self._log.info("plan.waits", plan=name, step=step, reason=reason)
                case plans.Stop(reason):
                    await self._stop(plan, reason)
                case plans.Leave(mover):
                    self._log.debug("order.left", plan=name, mover=mover)
                case None:
                    pass
        except ClusterError as error:
            if error.status in {CONFLICT, NOT_FOUND}:
                self._log.info("plan.changed", plan=name, reason=str(error))
                await self._read_again(plan)
            else:
                self._failures += 1
                self._log.warning("plan.failed", plan=name, reason=str(error))
        except Exception:
            self._failures += 1
            self._log.exception("plan.failed", plan=name)

    async def _ask(self, plan: KnownPlan) -> None:
        for step, move in enumerate(plan.spec.moves, 1):
            if self._stopping:
                return
            try:
                await self._evictions.evict(_ref(move), dry_run=True)
            except ClusterError as error:
                if not refuses(error):
                    raise
                await self._refused(plan, step, move, error)
                return
        await self._write(plan, phase=MovePhase.READY, reason="")
        self._log.info("plan.asked", plan=plan.name, pods=len(plan.spec.moves))

    async def _evict(self, plan: KnownPlan, step: int, move: PlannedMove) -> None:
        began, name, updated_at = self._clock(), self._settings.name, ""
        steps = plan.status.steps
        if any(each.step == step and each.mover == name for each in steps):
            # An order that this process took before still stands. To write that is no sign of life:
            # the service gives up on an eviction that fails for long.
            updated_at = plan.status.updated_at
        else:
            steps = plans.with_entry(plan.status, MoveStep(step, begun_at=_now(), mover=name))
        phase = MovePhase.EVICT
        plan = await self._write(plan, phase=phase, reason="", steps=steps, updated_at=updated_at)
        if self._clock() - began > _FRESH:
            raise ClusterError(0, "Silent", "the order was taken too slowly; it is looked at again")
        try:
            was_there = await self._evictions.evict(_ref(move))
        except ClusterError as error:
            if not refuses(error):
                raise
            await self._refused(plan, step, move, error)
            return
        at = timestamps.now()
        self._plans.evicted(plans.PastEviction(plan.uid, step, move.namespace, at, done=True))
        self._log.info(
            "pod.evicted" if was_there else "pod.gone",
            plan=plan.name,
            step=step,
            pod=str(_ref(move)),
            uid=move.uid,
        )
        if was_there:
            note = f"Evicted by MovePlan {plan.name}, step {step} of {len(plan.spec.moves)}:"
            note += f" moves from node {move.from_.node} to {move.to.node}"
            self._events.emit(_subject(move), "Moved", note, action="Moving")
        await self._report(plan, step, timestamps.seconds(at))

    async def _report(self, plan: KnownPlan, step: int, evicted_at: str) -> None:
        entries = [each for each in plan.status.steps if each.step == step] or [MoveStep(step)]
        entry = replace(entries[-1], evicted_at=evicted_at)
        steps = plans.with_entry(plan.status, entry)
        await self._write(plan, phase=MovePhase.EVICTED, reason="", steps=steps)

    async def _refused(
        self, plan: KnownPlan, step: int, move: PlannedMove, error: ClusterError
    ) -> None:
        reason = f"step {step}: pod {_ref(move)} cannot be evicted: {error.message}"
        self._log.warning(
            "pod.refused",
            plan=plan.name,
            step=step,
            pod=str(_ref(move)),
            uid=move.uid,
            reason=error.message,
        )
        note = f"MovePlan {plan.name}, step {step}: cannot be evicted: {error.message}"
        self._events.emit(_subject(move), "NotMoved", note, kind="Warning", action="Moving")
        not_begun = (
            replace(each, begun_at="", mover="") if each.step == step else each
            for each in plan.status.steps
        )
        await self._stop(plan, reason, tuple(not_begun))

    async def _stop(
        self, plan: KnownPlan, reason: str, steps: tuple[MoveStep, ...] | None = None
    ) -> None:
        await self._write(plan, phase=MovePhase.STOPPED, reason=reason, steps=steps)
        self._log.warning("plan.stopped", plan=plan.name, reason=reason)

    async def _write(
        self,
        plan: KnownPlan,
        *,
        phase: MovePhase,
        reason: str,
        steps: tuple[MoveStep, ...] | None = None,
        updated_at: str = "",
    ) -> KnownPlan:
        """Write a status, if the plan is still as it was read; return the plan with it.

        Raises:
            ClusterError: status 409 where it is not.
        """
        before = plan.status
        kept = before.steps if steps is None else steps
        status = MovePlanStatus(phase, before.step, reason, updated_at or _now(), kept)
        thing = await self._client.write_status(plan.thing, status)
        self._plans.on_update(thing)
        return KnownPlan(thing, plan.spec, status, self._clock())

    async def _read_again(self, plan: KnownPlan) -> None:
        """Take a plan as it is now: the watch may be late, or broken."""
        try:
            thing = await self._client.get(plan.name)
        except ClusterError as error:
            self._failures += 1
            self._log.warning("plan.failed", plan=plan.name, reason=str(error))
            return
        if thing is None:
            self._plans.on_delete(Identity("", plan.name, plan.uid))
        else:
            self._plans.on_update(thing)


def refuses(error: ClusterError) -> bool:
    """Return whether the API server said no to an eviction, and not that it is overloaded."""
    if error.status == TOO_MANY:
        # A budget that the server has not counted yet asks for another try, with a pause.
        return _BUDGET in error.causes and not error.retry_after
    if error.status >= SERVER_ERROR:
        return _SEVERAL_BUDGETS in error.message
    return error.status not in _TRANSIENT and bool(error.status)


def _ref(move: PlannedMove) -> PodRef:
    return PodRef(move.namespace, move.pod, move.uid)


def _subject(move: PlannedMove) -> EventSubject:
    return EventSubject("Pod", move.pod, move.namespace, move.uid)


def _now() -> str:
    return timestamps.seconds(timestamps.now())

"""Carries out plans of moves, one at a time, together with the mover, which evicts.

Everything that is known of a plan is in its status, and in the holds of the ledgers: whichever
process ends, the next one goes on. The service's part by phase:

    new, waiting   check the plan against the cluster; keep every new place, and the place of each
                   target, before the first eviction
    held, evict    the mover's turn; a mover that is silent for ``SILENCE`` is given up
    ready          check the next move again, wait until its place is free, order its eviction
    evicted        wait until a pod of the same controller has the kept place and is ready
    placing        give each waiting pod its place, and wait until it is bound

At the first surprise the plan stops, and nothing is kept any more. No pod is left without a place:
a pod that was evicted keeps its own as long as the plan waits for it, and is like every other pod
after that.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import NoReturn, Protocol

from msgspec.structs import replace

from adapters.cluster.api import timestamps
from adapters.dialects.dialect import DialectError
from adapters.service.decide.commit.attempt import Committed
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.commit.validate import is_free
from adapters.service.decide.ports import DecisionRecord, Outcome
from adapters.service.decide.service import Service
from adapters.service.reconcile.move_checks import (
    NAMED_AGAIN,
    Gone,
    PlanError,
    changes_by_node,
    check_move,
    check_target,
    move_hold,
    target_hold,
    waiting_pod,
)
from adapters.service.reconcile.nodes.node_reader import few_at_a_time
from adapters.wire.kube import Pod, full_name, is_ready
from adapters.wire.records.ledger import LedgerRecordError
from adapters.wire.records.move_plan import (
    KnownPlan,
    MovePhase,
    MovePlanObject,
    MovePlanRecordError,
    MovePlanSpec,
    MovePlanStatus,
    MoveStep,
    PlannedMove,
    read_spec,
    read_status,
)
from core.durations import SECOND, Sightings
from core.ledger.node_ledger import Hold
from core.requests.request import Request

EVERY = 2.0
"""Seconds between two looks."""

SILENCE = 600
"""Seconds after which a mover that says nothing is given up."""

RENEW = 30 * SECOND
"""Nanoseconds after which the cards of a pod that is not bound yet are kept again."""

_NOT_BEGUN = (MovePhase.NEW, MovePhase.WAITING)


class MovePlanStore(Protocol):
    """The plans of the cluster; each method raises OSError where the API server refuses."""

    async def list(self) -> Sequence[MovePlanObject]:
        """Return all plans."""

    async def write_status(self, plan: MovePlanObject, status: MovePlanStatus) -> MovePlanObject:
        """Replace the status of a plan that is still as it was read."""


class Report(Protocol):
    """Emits an Event about a plan. Neither waits nor fails."""

    def __call__(self, plan: MovePlanObject, reason: str, text: str, *, warning: bool) -> None:
        """Emit it: a word in CamelCase, and a sentence."""


@dataclass(eq=False, slots=True)
class MoveCoordinator:
    """What the leader does for plans of moves.

    ``pods_of`` returns the pods of a controller, by its uid; ``failed`` is called once with why
    the plans cannot be listed. A replica that is not ``enabled`` carries out no plan, and says
    nothing about whether others do.
    """

    _service: Service
    _plans: MovePlanStore
    _pods_of: Callable[[str], Sequence[Pod]]
    _report: Report
    _failed: Callable[[str], None]
    _: KW_ONLY
    enabled: bool = True
    _failure: str = ""
    _seen: Sightings = field(default_factory=Sightings)
    _ordered: dict[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    _renewed: dict[str, int] = field(default_factory=dict)

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Do what can be done now: one step of one plan."""
        if not self.enabled and not self._service.ledgers.holding():
            return
        try:
            plans = await self._plans.list()
        except OSError as error:
            if self._failure != str(error):
                self._failure = str(error)
                self._failed(self._failure)
            return
        self._failure = ""

        def turn(plan: KnownPlan) -> tuple[bool, str, str]:
            """Sort plans that have begun first, then the oldest."""
            metadata = plan.thing.metadata
            return plan.status.phase in _NOT_BEGUN, metadata.creation_timestamp, metadata.name

        try:
            every = [await self._read(plan) for plan in plans]
            going = sorted(filter(None, every), key=turn)
            for plan in going[:1]:
                self._age(plan)  # from the first look at it on
            uids = {plan.uid for plan in going}
            await self._release(lambda hold: hold.plan not in uids)  # of plans that are over
            if not self.enabled:
                # Another replica may carry them out, and lead again: what they hold is theirs.
                for plan in going:
                    if plan.status.phase not in _NOT_BEGUN and self._age(plan) > SILENCE:
                        why = f"no replica that carries out plans has led for {SILENCE} s"
                        with suppress(OSError):  # such as for the lack of the right to write it
                            await self._stop(plan, f"{why}: moves.enabled is off")
                        await self._release_all(plan)
                return
            for plan in going[1:]:
                if plan.status.phase is MovePhase.NEW:
                    name = going[0].name
                    with suppress(OSError):  # it is said, and does not matter otherwise
                        await self._write(plan, phase=MovePhase.WAITING, reason=f"waits for {name}")
            if going:
                await self._advance(going[0])
        except (LedgerContended, OSError):
            return  # the next look tries again

    async def _read(self, found: MovePlanObject) -> KnownPlan | None:
        """Return a plan that has not ended; one that cannot be read ends."""
        status = MovePlanStatus()
        try:
            status = read_status(found)
            if status.phase.has_ended or found.metadata.deletion_timestamp:
                return None
            spec = _spec(found, status)
        except MovePlanRecordError as error:
            with suppress(OSError):  # such as of a policy, which must not hold up the others
                await self._stop(KnownPlan(found, MovePlanSpec(()), status), str(error))
            return None
        return KnownPlan(found, spec, status)

    async def _advance(self, plan: KnownPlan) -> None:
        status = plan.status
        try:
            match status.phase:
                case MovePhase.NEW | MovePhase.WAITING:
                    await self._begin(plan)
                case MovePhase.HELD:
                    self._check_mover(plan)
                case MovePhase.EVICT:
                    self._check_mover(plan)
                    # A mover that has not begun with the order may wait for hours.
                    if not any(each.step == status.step and each.begun_at for each in status.steps):
                        found = await check_move(self._service, plan.spec.moves[status.step - 1])
                        if not isinstance(found, Gone):
                            self._untaken(plan, status.step)
                case MovePhase.READY:
                    await self._order_next(plan)
                case MovePhase.EVICTED:
                    await self._await_pod(plan)
                case _:
                    await self._place_targets(plan)
        except PlanError as problem:
            await self._stop(plan, str(problem))

    async def _begin(self, plan: KnownPlan) -> None:
        """Keep all places, then let the mover ask whether each pod could be evicted.

        Raises:
            PlanError: a move is not possible any more, or an earlier definition of NodeLedgers
                drops the places.
        """
        service, requests = self._service, dict[str, Request]()
        checked = await few_at_a_time(partial(check_move, service), plan.spec.moves)
        for move, found in zip(plan.spec.moves, checked, strict=True):
            if isinstance(found, Gone):
                raise PlanError(f"{move.namespace}/{move.pod} is gone")
            requests[move.uid] = found
        for target in plan.spec.targets:
            wanted = await check_target(service, target)
            if wanted is not None:
                requests[target.uid] = wanted
        changes = changes_by_node(plan.uid, plan.spec, requests, service.ledgers)
        is_proven = False  # that the definition, which all ledgers have, keeps places
        for node, each in changes.items():
            problem = await service.committer.keep(node, each)
            if problem:
                raise PlanError(f"the places of the plan are not free any more: {problem}")
            wanted_ids = {change.id for change in each if isinstance(change, Hold)}
            if is_proven or not wanted_ids:
                continue
            try:
                stored = await service.ports.store.read(node)
            except LedgerRecordError as error:
                raise PlanError(f"NodeLedger {node}: {error}") from error
            if not stored or not wanted_ids <= {hold.id for hold in stored.ledger.holds}:
                what = "has no places that are kept: install configs/crd/nodeledgers.yaml"
                raise PlanError(f"NodeLedger {node} {what}")
            is_proven = True
        await self._write(plan, phase=MovePhase.HELD, reason="")
        count = len(plan.spec.moves)
        why = f"The places of the plan are held; {_pods(count)} to move."
        self._report(plan.thing, "PlacesHeld", why, warning=False)

    def _check_mover(self, plan: KnownPlan) -> None:
        """Check that the mover is alive.

        Raises:
            PlanError: it has said nothing for too long.
        """
        if self._age(plan) > SILENCE:
            raise PlanError(f"no mover has said anything for {SILENCE} s")

    async def _order_next(self, plan: KnownPlan) -> None:
        """Order the next eviction, once the new place is free.

        The place of a pod that is gone stays: another one may still come for it.

        Raises:
            PlanError: the move is not possible any more.
        """
        status, number = plan.status, plan.status.step + 1
        if number > len(plan.spec.moves):
            await self._write(plan, phase=MovePhase.PLACING, reason="")
            return
        move = plan.spec.moves[number - 1]
        found = await check_move(self._service, move)
        if isinstance(found, Gone):
            skipped = (*status.steps, MoveStep(number, skipped=True))
            await self._write(plan, phase=MovePhase.READY, step=number, steps=skipped)
            return
        targets = [each for each in plan.spec.targets if each.after_step >= number]
        for target in targets:  # what this move, or a later one, makes room for
            if not target.uid or await waiting_pod(self._service, target) is not None:
                break
        else:
            if targets:
                left = f"moves {number} to {len(plan.spec.moves)} are left out"
                why = f"{left}: what they make room for is bound or gone"
                await self._write(plan, phase=MovePhase.PLACING, reason=why)
                return
        hold = self._untaken(plan, number)
        ledger = self._service.ledgers.inventory.ledger(move.to.node)
        if not is_free(hold, found, ledger.release(move.uid)):
            self._check_time(plan, f"the place of move {number} is not free")
            return
        before = (pod.metadata.uid for pod in self._pods_of(move.controller.uid))
        self._ordered[plan.uid] = number, frozenset(before)
        begun = (*status.steps, MoveStep(number))
        await self._write(plan, phase=MovePhase.EVICT, step=number, steps=begun, reason="")
        why = f"move {number} of MovePlan {plan.name}: to {move.to.node}"
        self._record(plan, Outcome.HELD, why, move)

    async def _await_pod(self, plan: KnownPlan) -> None:
        """Go on once a pod of the controller is ready at the new place.

        Raises:
            PlanError: it went elsewhere, or is late.
        """
        status, move = plan.status, plan.spec.moves[plan.status.step - 1]
        step = status.steps[-1] if status.steps else MoveStep(max(status.step, 1))
        hold = self._hold(move.to.node, move_hold(plan.uid, status.step))
        if not self._is_taken(hold):
            ordered, before = self._ordered.get(plan.uid, (0, frozenset[str]()))
            for other in self._pods_of(move.controller.uid) if ordered == status.step else ():
                named = move.controller.kind != NAMED_AGAIN or other.metadata.name == move.pod
                if (
                    named
                    and other.metadata.namespace == move.namespace
                    and other.metadata.uid not in before
                    and other.spec.node_name
                ):
                    place = f"{other.spec.node_name}, not to the place held on {move.to.node}"
                    raise PlanError(f"{full_name(other)} went to {place}")
            self._check_time(plan, f"no pod of {_owner(move)} has come")
            return
        there = self._service.ledgers.record(move.to.node).allocations[hold.taken_by]
        pod = await self._service.ports.pods.newest(there.pod_ref)
        if pod is None or pod.spec.node_name != move.to.node or not is_ready(pod):
            self._check_time(plan, f"{there.pod} is not ready on {move.to.node}")
            return
        done = replace(step, replacement=pod.metadata.name, ready_at=self._now())
        steps = (*status.steps[:-1], done)
        await self._write(plan, phase=MovePhase.READY, steps=steps, reason="")
        why = f"move {status.step} of MovePlan {plan.name}: {there.pod} is ready"
        self._record(plan, Outcome.BOUND, why, move)

    async def _place_targets(self, plan: KnownPlan) -> None:
        """Give each pod that waits its place; the plan is finished when all are bound.

        Raises:
            PlanError: one is late.
        """
        service, waiting = self._service, list[str]()
        for position, target in enumerate(plan.spec.targets):
            if target.place is not None and target.uid:
                hold_id = target_hold(plan.uid, position)
                pod = await waiting_pod(service, target)
                if pod is None:
                    continue
                try:
                    found = service.pod_requests.read(pod)
                except DialectError as error:
                    raise PlanError(f"{full_name(pod)}: {error}") from error
                if found is None:
                    continue
                waiting.append(full_name(pod))
                uid, node = pod.metadata.uid, target.place.node
                now, since = service.ports.clock.now(), self._renewed.get(uid)
                if since is not None and now - since <= RENEW:
                    continue
                hold, ledger = self._hold(node, hold_id), service.ledgers.inventory.ledger(node)
                if self._is_taken(hold) or is_free(hold, found.request, ledger):
                    committed = await service.committer.commit(found, node)
                    if isinstance(committed, Committed):
                        self._renewed[uid] = now
        if waiting:
            text = f"{', '.join(waiting[:5])} not bound to the place that is held"
            self._check_time(plan, text)
            return
        await self._write(plan, phase=MovePhase.FINISHED)
        count = sum(not step.skipped for step in plan.status.steps)
        self._report(
            plan.thing, "PlanFinished", f"All is done; {_pods(count)} moved.", warning=False
        )
        await self._release_all(plan)

    def _hold(self, node: str, uid: str) -> Hold:
        """Return a hold of the plan.

        Raises:
            PlanError: the ledger has it no more.
        """
        stored = self._service.ledgers.stored(node)
        for hold in () if stored is None else stored.ledger.holds:
            if hold.id == uid:
                return hold
        raise PlanError(f"node {node} does not hold a place of the plan any more")

    def _untaken(self, plan: KnownPlan, number: int) -> Hold:
        """Return the hold for the pod of a move that is still to be made.

        Raises:
            PlanError: the ledger has it no more, or another pod has the place.
        """
        move = plan.spec.moves[number - 1]
        hold = self._hold(move.to.node, move_hold(plan.uid, number))
        if self._is_taken(hold):
            raise PlanError(f"another pod of {_owner(move)} has the place of move {number}")
        return hold

    def _is_taken(self, hold: Hold) -> bool:
        ledger = self._service.ledgers.record(hold.allocation.node)
        return hold.taken_by in ledger.allocations

    def _check_time(self, plan: KnownPlan, text: str) -> None:
        """Check that something has not been waited for too long.

        Raises:
            PlanError: it has.
        """
        if self._age(plan) > plan.spec.pod_seconds:
            raise PlanError(f"{text} after {plan.spec.pod_seconds} s")

    def _age(self, plan: KnownPlan) -> float:
        """Return the seconds for which this process has seen a plan at its step, unchanged."""
        status, now = plan.status, self._service.ports.clock.now()
        version = status.phase, status.step, status.updated_at
        return self._seen.age(plan.uid, version, now) / SECOND

    async def _stop(self, plan: KnownPlan, reason: str) -> None:
        await self._write(plan, phase=MovePhase.STOPPED, reason=reason)
        # The Event is in namespace default; the reason may name pods of others.
        why = f"Stopped at step {plan.status.step}; its status says why."
        self._report(plan.thing, "PlanStopped", why, warning=True)
        self._record(plan, Outcome.REFUSED, f"MovePlan {plan.name}: {reason}")
        await self._release_all(plan)

    async def _write(self, plan: KnownPlan, **changes: object) -> None:
        """Write the status, with the time."""
        status = replace(plan.status, updated_at=self._now(), **changes)
        await self._plans.write_status(plan.thing, status)

    def _now(self) -> str:
        wall = self._service.ports.clock.wall() / SECOND
        return timestamps.seconds(datetime.fromtimestamp(wall, UTC))

    async def _release_all(self, plan: KnownPlan) -> None:
        await self._release(lambda hold: hold.plan == plan.uid)
        self._ordered.pop(plan.uid, None)
        self._renewed.clear()

    async def _release(self, ends: Callable[[Hold], bool]) -> None:
        ledgers = self._service.ledgers
        for node in [*ledgers.holding()]:
            stored = ledgers.stored(node)
            ids = [] if stored is None else [h.id for h in stored.ledger.holds if ends(h)]
            if ids:
                await self._service.committer.drop_holds(node, *ids)

    def _record(
        self, plan: KnownPlan, outcome: Outcome, text: str, move: PlannedMove | None = None
    ) -> None:
        """Record in the decision log what came of a plan, or of one of its moves."""
        record = DecisionRecord("move", outcome, f"MovePlan {plan.name}", text=text)
        if move is not None:
            pod, uid, node = f"{move.namespace}/{move.pod}", move.uid, move.to.node
            record = DecisionRecord("move", outcome, pod, uid, move.dialect, node, text=text)
        self._service.ports.decision_log.record(record)


def _spec(found: MovePlanObject, status: MovePlanStatus) -> MovePlanSpec:
    """Return the spec of a plan.

    Raises:
        MovePlanRecordError: it cannot be read, or has not the move of the status.
    """
    spec = read_spec(found)
    numbers = [each.step for each in status.steps]
    if numbers != sorted({*numbers}) or numbers[-1:] > [status.step]:
        raise MovePlanRecordError(f"status.steps: must be of moves 1 to {status.step}, each once")
    first = 1 if status.phase in (MovePhase.EVICT, MovePhase.EVICTED) else 0
    if not first <= status.step <= len(spec.moves):
        raise MovePlanRecordError(f"status.step: the plan has no move {status.step}")
    return spec


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _owner(move: PlannedMove) -> str:
    return f"{move.controller.kind} {move.namespace}/{move.controller.name}"

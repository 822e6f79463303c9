"""Carries a plan out: creates the object MovePlan, and follows it until it ends.

The service and the mover do the work. This command may end at any time; the plan goes on.
"""

import asyncio
import time

from adapters.cli.defrag.plan_file import PlanFile, phase_text, step_line, target_lines
from adapters.cli.input.source import InputError
from adapters.cli.output.terminal import StepDisplay
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import CONFLICT, NOT_FOUND, ClusterError
from adapters.cluster.objects.move_plans import MovePlanClient
from adapters.wire.records.move_plan import (
    MovePhase,
    MovePlanObject,
    MovePlanRecordError,
    MovePlanStatus,
    read_spec,
    read_status,
)

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

NO_MOVER = (
    "the mover has given no sign of life for {seconds:.0f} s: see whether its Deployment has a pod"
    " that runs; without one, the service stops the plan after 10 minutes"
)


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
                return self._ended(status)
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
            if not self._is_same(found):
                self.exists = False
                problem = "there is one of this name with another spec: delete it, or rename this"
                raise InputError(f"MovePlan {name}", problem) from error
            self._display.note(f"plan {name} is there already, and goes on")
        self._display.line(f"plan {name}: {moves} {'move' if moves == 1 else 'moves'}")
        return found

    def _is_same(self, found: MovePlanObject) -> bool:
        try:
            return read_spec(found) == self._plan.spec
        except MovePlanRecordError:
            return False

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

    def _ended(self, status: MovePlanStatus) -> bool:
        name, text = self._plan.name, phase_text(self._plan.spec, status)
        if status.reason or status.phase is MovePhase.STOPPED:
            self._display.line(f"plan {name}: {text}: {status.reason}")
            return status.phase is MovePhase.FINISHED
        for line in target_lines(self._plan.spec):
            self._display.line(line)
        self._display.line(f"plan {name}: {text}")
        return True

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

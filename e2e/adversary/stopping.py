"""The shipped service, which stops itself at one await of a bind, on a clock that a test moves.

``stops`` starts it. It stops as with ``kill -STOP``, between the question and the answer: where a
coroutine of the product begins, and where a task goes on after it has waited. So every await is
such a point, also those that need not wait.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import CO_COROUTINE
from pathlib import Path
from types import FrameType

from adapters.accounting.pod_requests import PodRequest
from adapters.cli.main import main as command
from adapters.service.decide.commit.attempt import Committed
from adapters.service.decide.service import Service
from adapters.service.endpoints.admission import Admission
from adapters.service.reconcile import looks
from adapters.service.reconcile.nodes import controller
from adapters.service.runtime import SystemClock
from core.requests.reason import Reason
from e2e.adversary.mutants import MUTANTS
from e2e.adversary.stops import FOLDER

SECOND = 10**9
OURS = f"{Path(controller.__file__).parents[2]}{os.sep}"


@dataclass(slots=True)
class Points:
    """The points of one bind.

    Attributes:
        chosen: the number, from 1, of the one at which the service stops, or the name of the
            coroutine at whose begin it stops; empty once it has.
        passed: how many there were so far.
        begun: the coroutines that have begun.
        going_on: whether the latest event was that one went on; then those that it awaits do too.
    """

    chosen: str
    passed: int = 0
    begun: set[FrameType] = field(default_factory=set[FrameType])
    going_on: bool = False


POINTS: ContextVar[Points] = ContextVar("points")
"""The points of the bind for which a task works; tasks that it starts have them too."""


def main(rule: str = "") -> None:
    """Run the command.

    Args:
        rule: of ``MUTANTS``, which is missing; empty for none.
    """
    if rule:
        MUTANTS[rule]()
    _move_clock()
    _stop_binds()
    looks.UNBOUND_EVERY, controller.POLL = 0.2, 0.2
    command()


def _move_clock() -> None:
    """The clock of reservations, deadlines and the grace is what the file adds to the real one."""
    file = Path(os.environ[FOLDER]) / "clock"

    def now(self: SystemClock) -> int:  # noqa: ARG001
        return time.monotonic_ns() + int(file.read_text()) * SECOND

    SystemClock.now = now  # type: ignore[method-assign]


def _stop_binds() -> None:
    """Binds, and reviews of Bindings, stop where the test says."""
    bind, bindings = Service.bind, Admission.bindings

    async def stopping_bind(
        self: Service, pod_request: PodRequest, node: str
    ) -> Committed | Reason:
        with _armed():
            return await bind(self, pod_request, node)

    async def stopping_review(self: Admission, content: bytes) -> bytes:
        with _armed():
            return await bindings(self, content)

    Service.bind = stopping_bind  # type: ignore[method-assign]
    Admission.bindings = stopping_review  # type: ignore[method-assign]


@contextmanager
def _armed() -> Iterator[None]:
    """Count the points of a block, if the test has chosen one."""
    file = Path(os.environ[FOLDER]) / str(os.getpid())
    if not file.exists():
        yield
        return
    points = Points(file.read_text())
    file.unlink()
    token = POINTS.set(points)
    sys.setprofile(_pass)
    try:
        yield
    finally:
        sys.setprofile(None)
        POINTS.reset(token)


def _pass(frame: FrameType, event: str, _: object) -> None:
    """Count a point, and stop at the chosen one."""
    points = POINTS.get(None)
    code = frame.f_code
    is_ours = code.co_flags & CO_COROUTINE and code.co_filename.startswith(OURS)
    if points is None or event not in ("call", "return") or not is_ours:
        return
    goes_on, went_on = event == "call" and frame in points.begun, points.going_on
    points.going_on = goes_on
    if event == "return" or (goes_on and went_on):
        return
    points.begun.add(frame)
    points.passed += 1
    if points.chosen in (str(points.passed), code.co_name):
        points.chosen = ""
        os.kill(os.getpid(), signal.SIGSTOP)

"""Answers every CreateContainer: once, and before the runtime's deadline.

containerd serialises NRI calls: while the agent waits for one container, no other is created. A
pod's author can write what makes the agent wait, on any number of pods. So it waits for grants once
per pod, and within a budget for all.
"""

import asyncio
import heapq
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from adapters.agent.hook.facts import ContainerFacts
from adapters.agent.hook.policy import NO_ADJUSTMENT, NoGrantYet, Policy, RejectError
from adapters.agent.hook.reporter import ContainerFinding, ContainerReporter
from adapters.agent.log import log_event
from adapters.agent.nri import ttrpc
from adapters.agent.nri.connection import Connection
from adapters.agent.nri.model import Adjustment
from adapters.agent.nri.session import Creating, Removed

TICK = 0.25
"""Seconds between two checks. Waking the thread for each action would cost a container more than
its answer does, because both threads need the interpreter."""


class Watchdog:
    """A second thread that calls an action at its time, unless the action is cancelled before.

    A blocked thread - on a file system that hangs, or a machine that swaps - must not be the reason
    for which a container starts without an adjustment.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """``now``: seconds that never go back."""
        self._now = now
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._queue: list[tuple[float, int]] = []
        self._actions: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        with self._lock:
            self._stopped = True
            self._wake.notify()
        self._thread.join()

    def call_at(self, due: float, action: Callable[[], None]) -> int:
        """Call ``action`` on the watchdog's thread when the clock reaches ``due``.

        Returns:
            The number of the action, for ``cancel``.
        """
        with self._lock:
            self._count += 1
            number = self._count
            self._actions[number] = action
            heapq.heappush(self._queue, (due, number))
            if due < self._now() + TICK:
                self._wake.notify()
        return number

    def cancel(self, number: int) -> None:
        """Cancel an action; no effect where it has run."""
        with self._lock:
            self._actions.pop(number, None)
            while self._queue and self._queue[0][1] not in self._actions:
                heapq.heappop(self._queue)

    def _run(self) -> None:
        while True:
            with self._lock:
                wait = self._queue[0][0] - self._now() if self._queue else TICK
                if self._stopped:
                    return
                if wait > 0:
                    self._wake.wait(min(wait, TICK))
                    continue
                action = self._actions.pop(heapq.heappop(self._queue)[1], None)
            if action is not None:
                action()


CAPACITY = 5.0
"""Seconds that the agent may wait after it has not waited for a while: some pods in a row."""

REFILL = 0.1
"""The part of the time that it may wait in the long run."""


@dataclass(slots=True)
class WaitBudget:
    """The seconds that are left to wait; from any thread.

    Attributes:
        now: seconds that never go back.
        capacity: the seconds at the start, and at most.
    """

    now: Callable[[], float] = time.monotonic
    capacity: float = CAPACITY
    _left: float = field(init=False)
    _at: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Begin with all of it."""
        self._left, self._at = self.capacity, self.now()

    @property
    def left(self) -> float:
        """Seconds; zero or less where the agent may not wait."""
        with self._lock:
            self._refill()
            return self._left

    def spend(self, seconds: float) -> None:
        """Note that the agent has waited."""
        with self._lock:
            self._refill()
            self._left -= seconds

    def _refill(self) -> None:
        now = self.now()
        self._left = min(self.capacity, self._left + REFILL * (now - self._at))
        self._at = now


GRANT_WAIT = 0.65
"""The part of the runtime's deadline that the agent waits for a grant."""

WATCHDOG_WAIT = 0.75
"""The part of the deadline after which the watchdog answers, because no other thread did."""

DEFAULT_TIMEOUT = 2.0
"""Seconds that the runtime waits where the call sets no timeout: its default."""

MAX_WAITED_PODS = 1_000
"""Pods without a grant that the handler remembers, so that it waits for each of them once."""


@dataclass(slots=True)
class CreateContainerHandler:
    """Answers the CreateContainer calls of one connection.

    The handler waits for a missing grant once per pod, and answers the kubelet's next attempt
    immediately.

    Attributes:
        watchdog: rejects a container if this handler does not answer.
        loop: on which grants arrive.
        observe: called with each container before the ledger is read for it, and with its removal
            where the agent rejects it.
        waited: uids of pods whose grants did not arrive in time; outlives the connection.
        budget: how long the handler may wait for grants; outlives the connection.
    """

    connection: Connection
    policy: Policy
    watchdog: Watchdog
    reporter: ContainerReporter
    loop: asyncio.AbstractEventLoop
    observe: Callable[[Creating | Removed], None]
    waited: dict[str, None]
    budget: WaitBudget
    _alarms: dict[int, int] = field(default_factory=dict[int, int])
    _waiting: set[Future[None]] = field(default_factory=set[Future[None]])

    def handle(self, creating: Creating, began: float) -> None:
        """Answer now, or arrange for an answer in time; on the thread that reads.

        Args:
            creating: the call.
            began: when it arrived, by ``time.monotonic()``.
        """
        timeout = creating.timeout / 1e9 or DEFAULT_TIMEOUT
        late = partial(self._reject, creating, "no answer in time", late=True)
        self._alarms[creating.stream] = self.watchdog.call_at(began + WATCHDOG_WAIT * timeout, late)
        self.observe(creating)
        pending = self._try(creating)
        if pending is None:
            self.waited.pop(creating.pod.uid, None)
        elif creating.pod.uid in self.waited or self.budget.left <= 0:
            self._reject(creating, pending.value)
        else:
            waiting = self._wait_for_grant(creating, began + GRANT_WAIT * timeout)
            future = asyncio.run_coroutine_threadsafe(waiting, self.loop)
            self._waiting.add(future)
            future.add_done_callback(self._waiting.discard)

    def end(self) -> None:
        """Stop waiting for grants: the connection is closed."""
        for future in list(self._waiting):
            future.cancel()
        for alarm in list(self._alarms.values()):
            self.watchdog.cancel(alarm)

    async def _wait_for_grant(self, creating: Creating, due: float) -> None:
        """Try again whenever the grants change, until the container is answered or time is up."""
        pending, began = NoGrantYet.GRANT, time.monotonic()
        try:
            async with asyncio.timeout(due - time.monotonic()):
                while True:
                    change = self.policy.grants.next_change()
                    missing = self._try(creating)
                    if missing is None:
                        self.budget.spend(time.monotonic() - began)
                        change.close()
                        return
                    pending = missing
                    await change
        except TimeoutError:
            # Before the answer: the runtime's next call comes after it.
            self.budget.spend(time.monotonic() - began)
            self.waited[creating.pod.uid] = None
            while len(self.waited) > MAX_WAITED_PODS:
                del self.waited[next(iter(self.waited))]
            self._reject(creating, pending.value, late=True)

    def _try(self, creating: Creating) -> NoGrantYet | None:
        """Answer, unless the grant or its MIG slice is not there yet."""
        facts: ContainerFacts | None = None
        try:
            facts = self.policy.facts(creating.pod, creating.container)
            adjustment = self.policy.adjust(facts)
        except RejectError as error:
            self._reject(creating, str(error))
            return None
        except Exception as error:
            # The serve loop: one container's failure must not affect the next one.
            if facts is None or self.policy.may_have_share(facts):
                self._reject(creating, f"{type(error).__name__}: {error}")
                return None
            log_event(
                "container.unexpected_error",
                uid=creating.pod.uid,
                container=creating.container.name,
                reason=repr(error),
            )
            # No look for a bypass: it may fail in the same way.
            self._send(creating, NO_ADJUSTMENT)
            return None
        if isinstance(adjustment, NoGrantYet):
            return adjustment
        if self._send(creating, adjustment) and (paths := self.policy.bypass_of(facts)):
            self.reporter.report_bypass(ContainerFinding(creating.pod, creating.container, paths))
        return None

    def _send(self, creating: Creating, adjustment: Adjustment) -> bool:
        """Send and count the answer; False where the container is answered already."""
        self._cancel_alarm(creating.stream)
        reply = partial(self.connection.session.reply, creating.stream, adjustment)
        if not self.connection.send(reply):
            return False
        if adjustment == NO_ADJUSTMENT:
            self.reporter.counters.untouched += 1
        else:
            self.reporter.counters.adjusted += 1
        return True

    def _reject(self, creating: Creating, reason: str, *, late: bool = False) -> None:
        """Answer with an error that keeps the container from starting; from any thread."""
        self._cancel_alarm(creating.stream)
        problem = f"dragoman: {reason}"
        code = ttrpc.DEADLINE_EXCEEDED if late else ttrpc.UNKNOWN
        try:
            sent = self.connection.send(
                partial(self.connection.session.reply_error, creating.stream, code, problem)
            )
        except OSError:
            return
        if sent:
            self.observe(Removed(creating.pod, creating.container))
            self.reporter.report_rejected(creating, reason, late=late)

    def _cancel_alarm(self, stream: int) -> None:
        alarm = self._alarms.pop(stream, None)
        if alarm is not None:
            self.watchdog.cancel(alarm)

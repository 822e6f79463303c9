"""Every container that is created is answered for: once, and in time."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from adapters.node.hook.deadline import Watchdog
from adapters.node.hook.policy import NOTHING, Exposed, NoGrantYet, Policy, ServeError
from adapters.node.hook.reporter import ContainerReporter
from adapters.node.log import log_event
from adapters.node.nri import ttrpc
from adapters.node.nri.connection import Connection
from adapters.node.nri.model import Adjustment
from adapters.node.nri.session import Creating

WAIT = 0.65
"""The part of the runtime's deadline that is waited for a grant."""

PATIENCE = 0.75
"""The part of it after which the watchdog answers: whoever should have, could not."""

DEADLINE = 2.0
"""Seconds that the runtime waits where it does not say; its default."""

MOST_WAITED = 1_000
"""Pods of which it is remembered that their grants were waited for in vain."""


@dataclass(slots=True)
class CreateContainerHandler:
    """The creations of one connection.

    The runtime asks one question at a time, so that whoever is waited for holds up the whole node.
    A pod without a grant is waited for once; at its next attempt the answer comes at once.

    Attributes:
        line: to which the answers go.
        agent: that knows them.
        watchdog: that answers if the agent does not.
        news: where it is told.
        loop: on which grants arrive, and are waited for.
        observe: called with whom something was given.
        waited: uids of pods whose grants were waited for in vain; outlives the connection.
    """

    line: Connection
    agent: Policy
    watchdog: Watchdog
    news: ContainerReporter
    loop: asyncio.AbstractEventLoop
    observe: Callable[[Creating], None]
    waited: dict[str, None]
    _guards: dict[int, int] = field(default_factory=dict[int, int])
    _waiting: set[Future[None]] = field(default_factory=set[Future[None]])

    def handle(self, creating: Creating, began: float) -> None:
        """Answer, or see to it that an answer follows; on the thread that reads.

        Args:
            creating: the question.
            began: when it arrived, by ``time.monotonic()``.
        """
        deadline = creating.timeout / 1e9 or DEADLINE
        late = partial(self._fail, creating, "no answer in time", late=True)
        self._guards[creating.stream] = self.watchdog.at(began + PATIENCE * deadline, late)
        absent = self._try(creating)
        if absent is None:
            self.waited.pop(creating.pod.uid, None)
        elif creating.pod.uid in self.waited:
            self._fail(creating, absent.value)
        else:
            waiting = self._wait(creating, began + WAIT * deadline)
            future = asyncio.run_coroutine_threadsafe(waiting, self.loop)
            self._waiting.add(future)
            future.add_done_callback(self._waiting.discard)

    def end(self) -> None:
        """The connection is gone; nobody waits for an answer."""
        for future in list(self._waiting):
            future.cancel()
        for guard in list(self._guards.values()):
            self.watchdog.call_off(guard)

    async def _wait(self, creating: Creating, due: float) -> None:
        """Wait for the grant, and what it needs, as long as the runtime waits."""
        absent = NoGrantYet.GRANT
        try:
            async with asyncio.timeout(due - time.monotonic()):
                while True:
                    change = self.agent.grants.change()
                    found = self._try(creating)
                    if found is None:
                        change.close()
                        return
                    absent = found
                    await change
        except TimeoutError:
            self.waited[creating.pod.uid] = None
            while len(self.waited) > MOST_WAITED:
                del self.waited[next(iter(self.waited))]
            self._fail(creating, absent.value, late=True)

    def _try(self, creating: Creating) -> NoGrantYet | None:
        """Answer, unless the grant or what it needs is not there yet."""
        pod, container = creating.pod, creating.container
        try:
            adjustment = self.agent.adjust(pod, container)
        except ServeError as error:
            self._fail(creating, str(error))
            return None
        except Exception as error:
            # The serve loop: one container's failure is not the next one's.
            if self.agent.concerns(pod, container):
                self._fail(creating, f"{type(error).__name__}: {error}")
                return None
            log_event(
                "container.unexpected", uid=pod.uid, container=container.name, reason=repr(error)
            )
            # Whether it reaches cards in other ways is not asked: that may fail just so.
            self._send(creating, NOTHING)
            return None
        if isinstance(adjustment, NoGrantYet):
            return adjustment
        self._answer(creating, adjustment)
        return None

    def _send(self, creating: Creating, adjustment: Adjustment) -> bool:
        """Whether it was sent; it is counted then."""
        self._call_off(creating.stream)
        answer = partial(self.line.session.adjusted, creating.stream, adjustment)
        if not self.line.send(answer):
            return False
        if adjustment == NOTHING:
            self.news.counts.untouched += 1
        else:
            self.news.counts.adjusted += 1
            self.observe(creating)
        return True

    def _answer(self, creating: Creating, adjustment: Adjustment) -> None:
        if not self._send(creating, adjustment):
            return
        way = self.agent.exposure(creating.pod, creating.container)
        if way:
            self.news.exposed(Exposed(creating.pod, creating.container, way))

    def _fail(self, creating: Creating, reason: str, *, late: bool = False) -> None:
        """Keep the container from starting; also called on the watchdog's thread."""
        self._call_off(creating.stream)
        problem = f"dragoman: {reason}"
        code = ttrpc.DEADLINE_EXCEEDED if late else ttrpc.UNKNOWN
        try:
            sent = self.line.send(partial(self.line.session.failed, creating.stream, code, problem))
        except OSError:
            return
        if sent:
            self.news.refused(creating, reason, late=late)

    def _call_off(self, stream: int) -> None:
        guard = self._guards.pop(stream, None)
        if guard is not None:
            self.watchdog.call_off(guard)

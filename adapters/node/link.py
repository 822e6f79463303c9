"""The connection to the runtime: made, kept, made again; every question answered in time."""

import asyncio
import random
import select
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from adapters.node import ttrpc
from adapters.node.agent import NOTHING, Absent, Agent, ServeError
from adapters.node.journal import tell
from adapters.node.mux import MuxError
from adapters.node.nri import Adjustment, Runtime
from adapters.node.session import (
    Configured,
    Creating,
    Happening,
    Refused,
    Removed,
    Session,
    Stage,
    Synchronized,
)
from adapters.node.ttrpc import TtrpcError
from adapters.node.watchdog import Watchdog

WAIT = 0.65
"""The part of the runtime's deadline that is waited for a grant."""

PATIENCE = 0.75
"""The part of it after which the watchdog answers: whoever should have, could not."""

DEADLINE = 2.0
"""Seconds that the runtime waits where it does not say; its default."""

ZOMBIE = 0.8
"""The part of its deadline after which an answered Synchronize may have come too late: containerd
1.7 then keeps the socket open and never calls again."""

SHORTEST, LONGEST = 0.05, 2.0
"""Seconds between two attempts to connect."""

ARRIVAL = 30.0
"""Seconds from the connection to the Synchronize that makes the plugin active, at most."""

MOST_WAITED = 1_000
"""Pods of which it is remembered that their grants were waited for in vain."""

_CHUNK = 256 << 10
_WRITE_PATIENCE = 1.0


@dataclass(slots=True)
class Counts:
    """What the link has done since it was made.

    Attributes:
        adjusted: containers that got something.
        untouched: containers that got nothing and needed nothing.
        refused: containers that were kept from starting.
        late: of those, how many because there was no answer in time.
        connections: how often the runtime was reached.
        unserved: containers that ran without their share at the latest Synchronize.
        active: whether the runtime asks us now.
    """

    adjusted: int = 0
    untouched: int = 0
    refused: int = 0
    late: int = 0
    connections: int = 0
    unserved: int = 0
    active: bool = False


Observer = Callable[[Synchronized | Creating | Removed], None]


def _ignore(_: object) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class Link:
    """The plugin's end of one runtime's socket.

    The runtime asks one question at a time, so that whoever is waited for holds up the whole node.
    A pod without a grant is waited for once; at its next attempt the answer comes at once.

    Attributes:
        path: of the socket.
        name: of the plugin.
        index: two digits; plugins are asked in ascending order.
        agent: that answers.
        watchdog: that answers if the agent does not.
        configure: called with each runtime that is reached.
        observe: called with what is said about pods and containers.
        counts: what was done.
        waited: uids of pods whose grants were waited for in vain.
    """

    path: Path
    name: str
    index: str
    agent: Agent
    watchdog: Watchdog
    configure: Callable[[Runtime], None] = _ignore
    observe: Observer = _ignore
    counts: Counts = field(default_factory=Counts)
    waited: dict[str, None] = field(default_factory=dict[str, None])

    async def run(self) -> None:
        """Stay connected until cancelled."""
        wait = SHORTEST
        while True:
            line: Line | None = None
            try:
                line = await Line.connect(self)
                await line.serve()
            except (OSError, MuxError, TtrpcError, EOFError) as error:
                tell("link.lost", reason=str(error) or type(error).__name__, socket=self.path)
            finally:
                self.counts.active = False
                if line is not None:
                    line.close()
            wait = SHORTEST if line is not None and line.was_active else min(wait * 2, LONGEST)
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311


@dataclass(slots=True)
class Line:
    """One connection."""

    link: Link
    sock: socket.socket
    session: Session
    was_active: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _guards: dict[int, int] = field(default_factory=dict[int, int])
    _closed: bool = False
    _ended: asyncio.Future[None] | None = None

    @classmethod
    async def connect(cls, link: Link) -> "Line":
        """Reach the runtime and ask to be registered."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(0)
            await asyncio.get_running_loop().sock_connect(sock, str(link.path))
        except OSError:
            sock.close()
            raise
        line = cls(link, sock, Session(link.name, link.index))
        line._send(line.session.register)
        return line

    async def serve(self) -> None:
        """Answer until the runtime hangs up.

        Raises:
            EOFError: it has.
            OSError: the connection broke.
            MuxError: the runtime does not speak the protocol.
            TtrpcError: the same.
        """
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        loop.add_reader(self.sock, self._read)
        arrival = loop.call_later(ARRIVAL, self._arrive)
        try:
            await self._ended
        finally:
            arrival.cancel()
            loop.remove_reader(self.sock)

    def _arrive(self) -> None:
        if not self.was_active:
            self._end(TimeoutError(f"not active after {ARRIVAL:.0f} s"))

    def _end(self, error: Exception) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)

    def _read(self) -> None:
        """Take what has arrived: called by the loop itself, which spares a task's detours."""
        began = time.monotonic()
        try:
            data = self.sock.recv(_CHUNK)
            if not data:
                self._end(EOFError("the runtime has hung up"))
                return
            happened: list[Happening] = []
            self._send(partial(self._feed, data, happened))
            for each in happened:
                self._take(each, began)
        except BlockingIOError:
            return
        except (OSError, MuxError, TtrpcError) as error:
            self._end(error)

    def _feed(self, data: bytes, happened: list[Happening]) -> bytes:
        step = self.session.feed(data)
        happened += step.happened
        return step.send

    def close(self) -> None:
        """Hang up, and forget what was asked."""
        for task in self._tasks:
            task.cancel()
        for guard in list(self._guards.values()):
            self.link.watchdog.call_off(guard)
        with self._lock:
            self._closed = True
            self.sock.close()

    def _send(self, make: Callable[[], bytes]) -> bool:
        """Let the session make bytes and send them, undisturbed by the other thread.

        Returns:
            Whether there was anything to send.
        """
        with self._lock:
            data = make()
            if not data or self._closed:
                return False
            view = memoryview(data)
            while view:
                try:
                    view = view[self.sock.send(view) :]
                except BlockingIOError:
                    if not select.select((), (self.sock,), (), _WRITE_PATIENCE)[1]:
                        raise TimeoutError("the runtime does not read") from None
            return True

    def _take(self, happening: Happening, began: float) -> None:
        match happening:
            case Creating():
                self._create(happening, began)
            case Synchronized():
                self._synchronized(happening, began)
            case Configured(runtime):
                self.link.configure(runtime)
            case Removed():
                self.link.observe(happening)
            case Refused(problem):
                raise ConnectionRefusedError(f"the runtime refuses the plugin: {problem}")

    def _synchronized(self, happening: Synchronized, began: float) -> None:
        took = time.monotonic() - began
        deadline = happening.timeout / 1e9 or DEADLINE
        if took > ZOMBIE * deadline:
            raise TimeoutError(f"the answer to Synchronize took {took:.1f} s: starting over")
        self.was_active = self.session.stage is Stage.ACTIVE
        counts = self.link.counts
        counts.active = True
        counts.connections += 1
        self.link.observe(happening)
        unserved = self.link.agent.audit(happening.pods, happening.containers)
        counts.unserved = len(unserved)
        tell("link.active", containers=len(happening.containers), unserved=len(unserved))
        for each in unserved:
            tell(
                "container.unserved",
                pod=f"{each.pod.namespace}/{each.pod.name}",
                uid=each.pod.uid,
                container=each.container.name,
                reason=each.lacking,
            )

    def _create(self, creating: Creating, began: float) -> None:
        deadline = creating.timeout / 1e9 or DEADLINE
        late = partial(self._fail, creating, "no answer in time", late=True)
        guard = self.link.watchdog.at(began + PATIENCE * deadline, late)
        self._guards[creating.stream] = guard
        absent = self._try(creating)
        if absent is None:
            self.link.waited.pop(creating.pod.uid, None)
        elif creating.pod.uid in self.link.waited:
            self._fail(creating, absent.value)
        else:
            self._later(self._wait(creating, began + WAIT * deadline))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait(self, creating: Creating, due: float) -> None:
        """Wait for the grant, and what it needs, as long as the runtime waits."""
        absent = Absent.GRANT
        try:
            async with asyncio.timeout(due - time.monotonic()):
                while True:
                    change = self.link.agent.grants.change()
                    found = self._try(creating)
                    if found is None:
                        change.close()
                        return
                    absent = found
                    await change
        except TimeoutError:
            waited = self.link.waited
            waited[creating.pod.uid] = None
            while len(waited) > MOST_WAITED:
                del waited[next(iter(waited))]
            self._fail(creating, absent.value, late=True)

    def _try(self, creating: Creating) -> Absent | None:
        """Answer, unless the grant is not there."""
        pod, container = creating.pod, creating.container
        try:
            adjustment = self.link.agent.adjust(pod, container)
        except ServeError as error:
            self._fail(creating, str(error))
            return None
        except Exception as error:
            # The serve loop: one container's failure is not the next one's.
            if self.link.agent.concerns(pod, container):
                self._fail(creating, f"{type(error).__name__}: {error}")
                return None
            tell("container.unexpected", uid=pod.uid, container=container.name, reason=repr(error))
            adjustment = NOTHING
        if isinstance(adjustment, Absent):
            return adjustment
        self._answer(creating, adjustment)
        return None

    def _answer(self, creating: Creating, adjustment: Adjustment) -> None:
        self._call_off(creating.stream)
        if not self._send(partial(self.session.adjusted, creating.stream, adjustment)):
            return
        if adjustment == NOTHING:
            self.link.counts.untouched += 1
            return
        self.link.counts.adjusted += 1
        self.link.observe(creating)

    def _fail(self, creating: Creating, reason: str, *, late: bool = False) -> None:
        """Keep the container from starting; also called on the watchdog's thread."""
        self._call_off(creating.stream)
        problem = f"dragoman: {reason}"
        code = ttrpc.DEADLINE_EXCEEDED if late else ttrpc.UNKNOWN
        try:
            sent = self._send(partial(self.session.failed, creating.stream, code, problem))
        except OSError:
            return
        if not sent:
            return
        self.link.counts.refused += 1
        self.link.counts.late += late
        tell(
            "container.refused",
            pod=f"{creating.pod.namespace}/{creating.pod.name}",
            uid=creating.pod.uid,
            container=creating.container.name,
            reason=reason,
        )

    def _call_off(self, stream: int) -> None:
        guard = self._guards.pop(stream, None)
        if guard is not None:
            self.link.watchdog.call_off(guard)

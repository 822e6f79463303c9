"""Events: what a person reads in ``kubectl describe``, once and not a thousand times.

The node agent writes its own with it, over a client of its own: this module stays light.

Source: k8s.io/api/events/v1/types.go; the series as in k8s.io/client-go/tools/events.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import uuid4

from adapters.cluster.api import timestamps as moment
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import EVENTS
from adapters.wire.kube import Pod

# Source: k8s.io/kubernetes/pkg/apis/core/validation/events.go.
_LONGEST_NOTE = 1024
_LONGEST_WORD = 128

SCHEDULER = "dragoman.dev/scheduler"
"""Who reports, where it is the service."""


class EventApi(Protocol):
    """Where events are written; ``adapters.cluster.api.client.Client`` is one."""

    async def create(self, path: str, body: object) -> bytes:
        """Post an object to its collection; ``ClusterError`` where that fails."""
        ...

    async def patch(self, path: str, body: object) -> bytes:
        """Merge a part into an object; ``ClusterError`` where that fails."""
        ...


@dataclass(frozen=True, slots=True)
class EventSubject:
    """What an event is about.

    Attributes:
        kind: ``Pod``, ``Node``.
        name: of the object.
        namespace: empty where its kind has none; such events stand in ``default``.
        uid: of the object; empty where not known.
        api_version: of the kind.
    """

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"

    @classmethod
    def pod(cls, pod: Pod) -> "EventSubject":
        """A pod."""
        metadata = pod.metadata
        return cls("Pod", metadata.name, metadata.namespace or "default", metadata.uid)


@dataclass(frozen=True, slots=True)
class _Key:
    regarding: EventSubject
    reason: str
    action: str
    kind: str


@dataclass(slots=True)
class _Series:
    """One event and its repeats; ``noted`` and ``told`` are what the server has."""

    name: str = ""
    note: str = ""
    noted: str | None = None
    count: int = 0
    told: int = 0
    last: str = ""
    heard: float = 0.0
    written: float = -math.inf


class EventRecorder:
    """Writes events in the background; what repeats becomes a count.

    Attributes:
        dropped: events that were given up: too many at once, or the server refused them.
    """

    def __init__(
        self,
        client: EventApi,
        instance: str,
        *,
        controller: str = SCHEDULER,
        every: float = 60.0,
        forget: float = 360.0,
        most: int = 4096,
        rate: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is written until ``run`` runs.

        Args:
            client: the server.
            instance: which of us it is: the pod's name, or the node's.
            controller: who reports, as a name with a domain.
            every: seconds between two writes of one series.
            forget: seconds of silence after which a series ends.
            most: series that are remembered; beyond them events are dropped.
            rate: writes a second.
            clock: seconds that only go forward.
        """
        self.dropped = 0
        self._client = client
        self._instance = instance
        self._controller = controller
        self._every = every
        self._forget = forget
        self._most = most
        self._gap = 1.0 / rate
        self._clock = clock
        self._series: dict[_Key, _Series] = {}
        self._woken = asyncio.Event()

    def emit(
        self,
        regarding: EventSubject,
        reason: str,
        note: str,
        *,
        kind: Literal["Normal", "Warning"] = "Normal",
        action: str = "Scheduling",
    ) -> None:
        """Tell an event; never waits, never raises.

        Args:
            regarding: what it is about.
            reason: one word in upper camel case, such as ``CardsGranted``.
            note: a sentence; beyond 1,024 bytes it is cut.
            kind: whether somebody should look.
            action: what was being done.
        """
        key = _Key(regarding, reason[:_LONGEST_WORD], action[:_LONGEST_WORD], kind)
        now, wall = self._clock(), moment.micros(moment.now())
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= self._most:
                self.dropped += 1
                return
            series = self._series[key] = _Series()
        series.note = note.encode()[:_LONGEST_NOTE].decode(errors="ignore")
        series.count += 1
        series.last = wall
        series.heard = now
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            for key, series in self._due():
                await self._write(key, series)
                await asyncio.sleep(self._gap)
            self._woken.clear()
            if self._due():
                continue
            try:
                async with asyncio.timeout(self._next()):
                    await self._woken.wait()
            except TimeoutError:
                self._sweep()

    def _due(self) -> list[tuple[_Key, _Series]]:
        now = self._clock()
        return [
            (key, series)
            for key, series in self._series.items()
            if series.told == 0
            or (series.count > series.told and series.written + self._every <= now)
        ]

    def _next(self) -> float:
        waiting = [s.written + self._every for s in self._series.values() if s.count > s.told]
        return max(0.01, min([self._every, *(due - self._clock() for due in waiting)]))

    def _sweep(self) -> None:
        now = self._clock()
        for key, series in [*self._series.items()]:
            if series.count == series.told and series.heard + self._forget <= now:
                del self._series[key]

    async def _write(self, key: _Key, series: _Series) -> None:
        namespace = key.regarding.namespace or "default"
        if series.note != series.noted:
            # The server lets nobody change the note of an event: another text is another event.
            series.name = f"{key.regarding.name[:200]}.{uuid4().hex[:16]}"
            series.count, series.told = series.count - series.told, 0
        count, note = series.count, series.note
        try:
            if series.told == 0:
                await self._client.create(EVENTS.collection(namespace), self._body(key, series))
            else:
                repeats = {"series": {"count": count, "lastObservedTime": series.last}}
                await self._client.patch(EVENTS.path(series.name, namespace), repeats)
            series.noted = note
        except ClusterError:
            self.dropped += count - series.told
            series.noted = None
        series.told = count
        series.written = self._clock()

    def _body(self, key: _Key, series: _Series) -> dict[str, object]:
        about = key.regarding
        body: dict[str, object] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": about.namespace or "default"},
            "eventTime": series.last,
            "reportingController": self._controller,
            "reportingInstance": self._instance[:_LONGEST_WORD],
            "action": key.action,
            "reason": key.reason,
            "type": key.kind,
            "note": series.note,
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            },
        }
        if series.count > 1:
            body["series"] = {"count": series.count, "lastObservedTime": series.last}
        return body

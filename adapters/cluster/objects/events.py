"""Writes Events, which ``kubectl describe`` shows; repeats become a count, as in client-go.

The node agent uses it too, with a client of its own, so it imports no HTTP library.

Source: k8s.io/api/events/v1/types.go; the series as in k8s.io/client-go/tools/events.
"""

import asyncio
import math
import time
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, Protocol
from uuid import uuid4

from adapters.cluster.api import timestamps as moment
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import EVENTS
from adapters.wire.kube import Pod

# Source: k8s.io/kubernetes/pkg/apis/core/validation/events.go.
_LONGEST_NOTE = 1024
_LONGEST_WORD = 128

EventKind = Literal["Normal", "Warning"]

SCHEDULER = "dragoman.dev/scheduler"
"""``reportingController`` of the service's Events."""


class EventApi(Protocol):
    """Writes objects; ``adapters.cluster.api.client.KubeClient`` is one."""

    async def create(self, path: str, body: object) -> bytes:
        """Post an object to its collection.

        Raises:
            ClusterError: the API server did not confirm the write.
        """

    async def patch(self, path: str, body: object) -> bytes:
        """Merge a part into an object.

        Raises:
            ClusterError: the API server did not confirm the write.
        """


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object of an Event.

    Attributes:
        kind: ``Pod``, ``Node``.
        namespace: empty where its kind has none; such Events are in ``default``.
        uid: of the object; empty where unknown.
    """

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"

    @classmethod
    def pod(cls, pod: Pod) -> "EventSubject":
        """Return the subject of Events about a pod."""
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
    """One Event and its repeats.

    Attributes:
        note: the newest text.
        written_note: the text that the server has; None where it has none.
        written_count: the count that the server has.
        last: time of the last one, as the API writes it.
        emitted: monotonic seconds of the last one.
        written: monotonic seconds of the last write.
    """

    name: str = ""
    note: str = ""
    written_note: str | None = None
    count: int = 0
    written_count: int = 0
    last: str = ""
    emitted: float = 0.0
    written: float = -math.inf


@dataclass(eq=False, slots=True)
class EventRecorder:
    """Writes Events in the background; repeats become a count.

    The first arguments are the API server, and the reporter's instance: its pod's or node's name.

    Attributes:
        controller: name of the reporter, with a domain.
        every: seconds between two writes of one series.
        forget: seconds of silence after which a series ends.
        maximum: series that are kept; beyond them Events are dropped.
        rate: writes per second.
        dropped: Events that were not written: too many at once, or the server rejected them.
    """

    _client: EventApi
    _instance: str
    _: KW_ONLY
    controller: str = SCHEDULER
    every: float = 60.0
    forget: float = 360.0
    maximum: int = 4096
    rate: float = 20.0
    dropped: int = 0
    _series: dict[_Key, _Series] = field(default_factory=dict)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def emit(
        self,
        regarding: EventSubject,
        reason: str,
        note: str,
        *,
        kind: EventKind = "Normal",
        action: str = "Scheduling",
    ) -> None:
        """Queue an Event; never waits, never raises.

        The reason is one word in upper camel case, such as ``CardsGranted``; a note is cut beyond
        1,024 bytes; ``Warning`` is for what an operator should look at.
        """
        key = _Key(regarding, reason[:_LONGEST_WORD], action[:_LONGEST_WORD], kind)
        now, wall = time.monotonic(), moment.micros(moment.now())
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= self.maximum:
                self.dropped += 1
                return
            series = self._series[key] = _Series()
        series.note = note.encode()[:_LONGEST_NOTE].decode(errors="ignore")
        series.count += 1
        series.last = wall
        series.emitted = now
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            for key, series in self._due():
                await self._write(key, series)
                await asyncio.sleep(1.0 / self.rate)
            self._woken.clear()
            if self._due():
                continue
            unwritten = [s.written for s in self._series.values() if s.count > s.written_count]
            next_write = min([time.monotonic(), *unwritten]) + self.every
            try:
                async with asyncio.timeout(max(0.01, next_write - time.monotonic())):
                    await self._woken.wait()
            except TimeoutError:
                now = time.monotonic()
                for key, series in [*self._series.items()]:
                    has_ended = series.emitted + self.forget <= now
                    if has_ended and series.count == series.written_count:
                        del self._series[key]

    def _due(self) -> list[tuple[_Key, _Series]]:
        now = time.monotonic()
        return [
            (key, series)
            for key, series in self._series.items()
            if series.written_count == 0
            or (series.count > series.written_count and series.written + self.every <= now)
        ]

    async def _write(self, key: _Key, series: _Series) -> None:
        subject = key.regarding
        namespace = subject.namespace or "default"
        if series.note != series.written_note:
            # The note of an Event cannot be changed: another text needs another Event.
            series.name = f"{subject.name[:200]}.{uuid4().hex[:16]}"
            series.count, series.written_count = series.count - series.written_count, 0
        count, note = series.count, series.note
        repeats = {"series": {"count": count, "lastObservedTime": series.last}}
        try:
            if series.written_count:
                await self._client.patch(EVENTS.path(series.name, namespace), repeats)
            else:
                body: dict[str, object] = {
                    "apiVersion": "events.k8s.io/v1",
                    "kind": "Event",
                    "metadata": {"name": series.name, "namespace": namespace},
                    "eventTime": series.last,
                    "reportingController": self.controller,
                    "reportingInstance": self._instance[:_LONGEST_WORD],
                    "action": key.action,
                    "reason": key.reason,
                    "type": key.kind,
                    "note": note,
                    "regarding": {
                        "apiVersion": subject.api_version,
                        "kind": subject.kind,
                        "name": subject.name,
                        "namespace": subject.namespace,
                        "uid": subject.uid,
                    },
                }
                body |= repeats if count > 1 else {}
                await self._client.create(EVENTS.collection(namespace), body)
            series.written_note = note
        except ClusterError:
            self.dropped += count - series.written_count
            series.written_note = None
        series.written_count = count
        series.written = time.monotonic()

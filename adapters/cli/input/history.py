"""The Events of a pod: what its scheduler, the service and the agent said about it.

The cluster keeps them, one hour by default, so that they outlive every replica of the service.
Source: k8s.io/api/core/v1/types.go, Event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import Resource
from adapters.cluster.objects.lists import list_all
from adapters.cluster.watch.selection import Selection
from adapters.wire.kube import Wire

_EVENTS = Resource("", "v1", "events")


class _Series(Wire, frozen=True, gc=False):
    count: int = 0
    last_observed_time: str | None = None


class _Source(Wire, frozen=True, gc=False):
    component: str | None = None


class _Event(Wire, frozen=True, gc=False):
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None
    reporting_component: str | None = None
    source: _Source = _Source()


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One Event.

    Attributes:
        time: when it was last seen, RFC 3339; empty where nothing says so.
        count: how often it was seen.
        reason: in one word.
        component: what reported it.
        message: as it was written.
    """

    time: str
    count: int
    reason: str
    component: str
    message: str


async def history(client: KubeClient, namespace: str, uid: str) -> Sequence[PodEvent]:
    """The Events of a pod, oldest first; none where the user may not list Events.

    Raises:
        ClusterError: the server did not answer.
    """
    selection = Selection(_EVENTS, namespace=namespace, fields=f"involvedObject.uid={uid}")
    try:
        found = await list_all(client, selection, _Event)
    except ClusterError as error:
        if error.status in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
            return ()
        raise
    return sorted(map(_read, found), key=lambda each: each.time)


def _read(event: _Event) -> PodEvent:
    series = event.series or _Series()
    time = series.last_observed_time or event.last_timestamp or event.event_time or ""
    return PodEvent(
        time,
        max(series.count, event.count or 1),
        event.reason or "",
        event.reporting_component or event.source.component or "",
        " ".join((event.message or "").split()),
    )

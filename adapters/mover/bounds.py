"""How many pods the mover may evict in an hour."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from adapters.cluster.api import timestamps

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class MoverBounds:
    """The most evictions in any hour.

    Attributes:
        per_hour: of all plans together, 1 or more.
        per_namespace: of pods of one namespace, 1 or more.
    """

    per_hour: int = 20
    per_namespace: int = 5


@dataclass(frozen=True, slots=True)
class PastEviction:
    """An eviction that was done, or was begun and may have been done.

    Attributes:
        plan: uid of the plan.
        step: number of the move.
        namespace: of the pod; empty where the plan has no such move.
        at: when it was done, else begun.
        done: whether it is known to have been done.
    """

    plan: str
    step: int
    namespace: str
    at: datetime
    done: bool


def reason_to_wait(
    bounds: MoverBounds, evictions: Collection[PastEviction], namespace: str, now: datetime
) -> str:
    """Why a pod of a namespace may not be evicted yet, and when it may; empty where it may.

    An eviction in the future counts: clocks differ, and a bound must hold all the same.
    """
    recent = [each for each in evictions if now - each.at < HOUR]
    of_namespace = [each for each in recent if each.namespace == namespace]
    return _reason(bounds.per_hour, recent, "perHour") or _reason(
        bounds.per_namespace, of_namespace, f"perNamespacePerHour, namespace {namespace}"
    )


def _reason(most: int, recent: Collection[PastEviction], name: str) -> str:
    if len(recent) < most:
        return ""
    free_at = sorted(each.at for each in recent)[-most] + HOUR
    what = f"{len(recent)} evictions in the last hour, at most {most} may be ({name})"
    return f"{what}: waits until {timestamps.seconds(free_at)}"

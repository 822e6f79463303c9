"""What a reflector follows, how fast, and how it went."""

from dataclasses import dataclass

from adapters.cluster.api.paths import Resource


@dataclass(frozen=True, slots=True)
class Selection:
    """What is watched.

    Attributes:
        resource: the kind.
        namespace: None for all.
        fields: field selector, such as ``metadata.name=x``.
        labels: label selector.
        optional: whether the kind may be unknown to the server (a CRD that nobody installed):
            then it counts as empty and is looked for again quietly.
    """

    resource: Resource
    namespace: str | None = None
    fields: str = ""
    labels: str = ""
    optional: bool = False

    @property
    def path(self) -> str:
        """Of the collection."""
        return self.resource.collection(self.namespace)

    @property
    def query(self) -> dict[str, str]:
        """The selectors, where there are any."""
        given = {"fieldSelector": self.fields, "labelSelector": self.labels}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Seconds and sizes.

    Attributes:
        page: objects in a page of a list; 500 pods are about 4 MiB.
        turn: seconds after which the server ends a watch, so that they spread over servers.
        idle: seconds of silence after which a watch counts as dead; bookmarks come every minute.
        absent: seconds between two looks for a kind that the server does not know.
        first: seconds to wait after the first failure.
        most: seconds to wait after many.
        streaming: whether to ask the server for a list as a stream (WatchList) at all.
    """

    page: int = 500
    turn: float = 300.0
    idle: float = 100.0
    absent: float = 30.0
    initial: float = 0.2
    maximum: float = 30.0
    streaming: bool = True


@dataclass(slots=True)
class ReflectorStats:
    """What happened so far, for metrics.

    Attributes:
        lists: full syncs that were completed.
        watches: watches that were begun.
        events: objects told by watches.
        failures: in all.
        problem: the last failure; empty after the next success.
    """

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0
    problem: str = ""

"""What a reflector watches, with which timeouts, and its statistics."""

from dataclasses import dataclass

from adapters.cluster.api.paths import Resource


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to watch.

    Attributes:
        resource: the kind.
        namespace: None for all.
        fields: field selector, such as ``metadata.name=x``.
        labels: label selector.
        optional: whether the kind may be unknown to the server, as of a CRD that is not installed:
            it counts as empty then, and is looked for again without an error.
    """

    resource: Resource
    namespace: str | None = None
    fields: str = ""
    labels: str = ""
    optional: bool = False

    @property
    def path(self) -> str:
        """The path of the collection."""
        return self.resource.collection(self.namespace)

    @property
    def query(self) -> dict[str, str]:
        """The selectors as query parameters."""
        given = {"fieldSelector": self.fields, "labelSelector": self.labels}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Seconds and sizes.

    Attributes:
        page: objects in a page of a list; 500 pods are about 4 MiB.
        turn: seconds after which the server ends a watch, so that watches spread over servers.
        idle: seconds without data after which a watch counts as dead; a bookmark comes each minute.
        absent: seconds between two looks for a kind that the server does not know.
        initial: seconds to wait after the first failure.
        maximum: seconds to wait after many.
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
    """Counts of what happened so far.

    Attributes:
        lists: full lists that were completed.
        watches: watch requests that were sent.
        events: additions, changes and deletions in watches.
        failures: in all.
        problem: the last failure; empty after the next success.
    """

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0
    problem: str = ""

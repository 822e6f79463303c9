"""Who is told what a collection holds."""

from typing import NamedTuple, Protocol, TypeVar

from adapters.wire.kube import Metadata

SunkT = TypeVar("SunkT", contravariant=True)


class KubeObject(Protocol):
    """An object with its metadata."""

    @property
    def metadata(self) -> Metadata:
        """Name, namespace, uid, version."""
        ...


class Identity(NamedTuple):
    """Which object; a new one of the same name has another uid."""

    namespace: str
    name: str
    uid: str


class EventHandler(Protocol[SunkT]):
    """Who is told. Called in the event loop: must be quick, must not raise."""

    def on_update(self, thing: SunkT) -> None:
        """It is new, or not what it was."""
        ...

    def on_delete(self, what: Identity) -> None:
        """It is no more."""
        ...

    def on_unreadable(self, what: Identity, problem: str) -> None:
        """It is there, and nobody can read it."""
        ...

    def on_synced(self) -> None:
        """All that there was has been told; after every full sync."""
        ...

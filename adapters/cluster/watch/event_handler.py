"""Handles the objects of a collection, as client-go's ResourceEventHandler does."""

from typing import NamedTuple, Protocol, TypeVar

from adapters.wire.kube import Metadata, Unreadable

ObjectT = TypeVar("ObjectT", contravariant=True)


class KubeObject(Protocol):
    """An object with its metadata."""

    @property
    def metadata(self) -> Metadata:
        """Name, namespace, uid, version."""
        ...


class Identity(NamedTuple):
    """Identity of an object; an object made again under its name has another uid."""

    namespace: str
    name: str
    uid: str


class EventHandler(Protocol[ObjectT]):
    """Is called in the event loop: must be quick, must not raise."""

    def on_update(self, thing: ObjectT) -> None:
        """An object was added or changed."""
        ...

    def on_delete(self, what: Identity) -> None:
        """An object was deleted."""
        ...

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """An object was added or changed and cannot be decoded."""
        ...

    def on_synced(self) -> None:
        """A full list was handled; called after each of them."""
        ...

"""Turns lists and watch events into calls of a handler, each change once. No I/O.

It remembers identities and versions only; the objects are the handler's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from adapters.cluster.api.error import ClusterError, read
from adapters.wire.api import IdentifiedObject, ObjectIdentity
from adapters.wire.decode.decoder import UnreadableError
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.kube import Metadata, Unreadable

HandledT = TypeVar("HandledT", contravariant=True)


class KubeObject(Protocol):
    """An object with its metadata."""

    @property
    def metadata(self) -> Metadata:
        """Name, namespace, uid, version."""


class Identity(NamedTuple):
    """Identity of an object; an object made again under its name has another uid."""

    namespace: str
    name: str
    uid: str


class EventHandler(Protocol[HandledT]):
    """Is called in the event loop: must be quick, must not raise."""

    def on_update(self, thing: HandledT) -> None:
        """Take an object that was added or changed."""

    def on_delete(self, what: Identity) -> None:
        """Take an object that was deleted."""

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """Take an object that was added or changed and cannot be decoded."""

    def on_synced(self) -> None:
        """Take the end of a full list; called after each of them."""


ObjectT = TypeVar("ObjectT", bound=KubeObject)

DecodedT = TypeVar("DecodedT", bound=KubeObject, covariant=True)


class ObjectDecoder(Protocol[DecodedT]):
    """Decodes one object, as ``Decoder`` does."""

    def decode(self, raw: msgspec.Raw, /) -> DecodedT:
        """Return the object.

        Raises:
            UnreadableError: it cannot be decoded.
        """


Key = tuple[str, str]
"""Namespace and name."""

ReportUnreadable = Callable[[Unreadable, str], None]
"""Called with an object that cannot be decoded, and why."""

LARGEST = 1 << 24
"""Bytes. An object has at most 1.5 MiB in etcd, and six times as much with all of it escaped."""

_IDENTIFIED = PartialDecoder(IdentifiedObject)


@dataclass(eq=False, slots=True)
class ObjectTracker(Generic[ObjectT]):
    """The objects that the handler knows.

    A full list is bracketed by ``begin_list`` and ``end_list``; between them objects may also
    change by watch events, as in a streaming list.

    Attributes:
        listing: whether a full list is going on.
        unreadable: those of the objects that cannot be decoded, and why; each is reported.
    """

    _decoder: ObjectDecoder[ObjectT]
    _handler: EventHandler[ObjectT]
    _report: ReportUnreadable | None = None
    listing: bool = False
    unreadable: dict[Key, str] = field(default_factory=dict)
    _versions: dict[Key, tuple[str, str]] = field(default_factory=dict)
    _listed: set[Key] = field(default_factory=set)

    def __len__(self) -> int:
        """How many objects there are."""
        return len(self._versions)

    def begin_list(self) -> None:
        """Begin a full list; one that did not end is dropped."""
        self.listing = True
        self._listed = set()

    def end_list(self) -> None:
        """End the full list: what it does not have was deleted."""
        for key in [key for key in self._versions if key not in self._listed]:
            self._delete(key)
        self.listing = False
        self._listed = set()

    def upsert(self, raw: msgspec.Raw) -> str:
        """Hand an object to the handler, unless it has this version; return its resourceVersion.

        Raises:
            ClusterError: the object has no name.
        """
        problem, thing = "", None
        metadata: Metadata | ObjectIdentity
        try:
            if len(memoryview(raw)) > LARGEST:
                raise UnreadableError(f"longer than {LARGEST} bytes")  # noqa: TRY301
            thing = self._decoder.decode(raw)
            metadata = thing.metadata
        except UnreadableError as error:
            problem, metadata = str(error), read(_IDENTIFIED, raw).metadata
        if not metadata.name:
            raise ClusterError(0, "Garbage", "an object without a name")
        key = (metadata.namespace, metadata.name)
        version = (metadata.uid, metadata.resource_version)
        if self.listing:
            self._listed.add(key)
        earlier = self._versions.get(key)
        if earlier == version:
            return metadata.resource_version
        if earlier is not None and earlier[0] != metadata.uid:
            self._handler.on_delete(Identity(*key, earlier[0]))
        self._versions[key] = version
        if thing is None:
            self.unreadable[key] = problem
            what = Unreadable(*key, metadata.uid, raw)
            if self._report is not None:
                self._report(what, problem)
            self._handler.on_unreadable(what, problem)
        else:
            self.unreadable.pop(key, None)
            self._handler.on_update(thing)
        return metadata.resource_version

    def delete(self, raw: msgspec.Raw) -> str:
        """Hand a deletion to the handler, if it has the object; as ``upsert`` else."""
        metadata = read(_IDENTIFIED, raw).metadata
        key = (metadata.namespace, metadata.name)
        self._listed.discard(key)
        if key in self._versions:
            self._delete(key)
        return metadata.resource_version

    def _delete(self, key: Key) -> None:
        uid, _ = self._versions.pop(key)
        self.unreadable.pop(key, None)
        self._handler.on_delete(Identity(*key, uid))

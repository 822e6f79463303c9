"""What was told of a collection, so that only what is new is told. No I/O.

Only identities and versions are remembered here; the objects are the sink's.
"""

from typing import Generic, TypeVar

import msgspec

from adapters.cluster.api.error import ClusterError, read
from adapters.cluster.watch.event_handler import EventHandler, Identity, KubeObject
from adapters.wire.api import TypeMeta

ThingT = TypeVar("ThingT", bound=KubeObject)

Key = tuple[str, str]
Seen = set[Key]
"""Namespaces and names that a full sync has found so far."""

HEAD: msgspec.json.Decoder[TypeMeta] = msgspec.json.Decoder(TypeMeta)


class ObjectTracker(Generic[ThingT]):
    """The objects of a collection that the sink knows of."""

    def __init__(self, kind: type[ThingT], sink: EventHandler[ThingT]) -> None:
        """None yet.

        Args:
            kind: what objects are read as.
            sink: who is told.
        """
        self._decoder: msgspec.json.Decoder[ThingT] = msgspec.json.Decoder(kind)
        self._sink = sink
        self._facts: dict[Key, tuple[str, str]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._facts)

    def upsert(self, raw: msgspec.Raw, sync: Seen | None) -> str:
        """Tell the sink of an object, unless it knows this version of it.

        Args:
            raw: the object in JSON.
            sync: is told that it was seen, where a full sync is going on.

        Returns:
            The object's resourceVersion.

        Raises:
            ClusterError: not even its metadata can be read, or it has no name.
        """
        problem, thing = "", None
        try:
            thing = self._decoder.decode(raw)
            metadata = thing.metadata
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem, metadata = str(error), read(HEAD, raw).metadata
        if not metadata.name:
            raise ClusterError(0, "Garbage", "an object without a name")
        key = (metadata.namespace, metadata.name)
        fact = (metadata.uid, metadata.resource_version)
        if sync is not None:
            sync.add(key)
        earlier = self._facts.get(key)
        if earlier == fact:
            return metadata.resource_version
        if earlier is not None and earlier[0] != metadata.uid:
            self._sink.on_delete(Identity(*key, earlier[0]))
        self._facts[key] = fact
        if thing is None:
            self._sink.on_unreadable(Identity(*key, metadata.uid), problem)
        else:
            self._sink.on_update(thing)
        return metadata.resource_version

    def delete(self, raw: msgspec.Raw, sync: Seen | None) -> str:
        """Tell the sink that an object is gone, if it knew of it; arguments as in ``tell``."""
        metadata = read(HEAD, raw).metadata
        key = (metadata.namespace, metadata.name)
        if sync is not None:
            sync.discard(key)
        if key in self._facts:
            self._forget(key)
        return metadata.resource_version

    def replace(self, sync: Seen) -> None:
        """Tell the sink that everything is gone which a full sync has not seen."""
        for key in [key for key in self._facts if key not in sync]:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        uid, _ = self._facts.pop(key)
        self._sink.on_delete(Identity(*key, uid))

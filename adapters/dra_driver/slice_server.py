"""The few requests to the API server about this node's ResourceSlices."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from adapters.agent.apiserver.api import ApiError, send
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.apiserver.list_watch import Listed, list_and_watch
from adapters.agent.log import log_event
from adapters.dialects.dra import DRIVER
from adapters.dra_driver.devices import Json
from adapters.wire.api import IdentifiedObject, ObjectIdentity
from adapters.wire.decode.decoder import Decoder, UnreadableError

COLLECTION = "/apis/resource.k8s.io/v1/resourceslices"

_NOT_FOUND = 404


class _Slice(msgspec.Struct, frozen=True):
    metadata: ObjectIdentity
    spec: dict[str, Any]


_SLICE, _IDENTIFIED = Decoder(_Slice), Decoder(IdentifiedObject)


class UnsupportedClusterError(RuntimeError):
    """The cluster lacks something without which cards would be allocated twice."""


@dataclass(frozen=True, slots=True)
class StoredSlice:
    """A slice as the API server has it.

    Attributes:
        name: of the slice.
        version: its resourceVersion.
        spec: empty where it cannot be decoded; then it is another one than any that is desired.
    """

    name: str
    version: str
    spec: Json


@dataclass(frozen=True, slots=True)
class SliceChange:
    """A slice that was added, changed or deleted."""

    slice: StoredSlice
    deleted: bool


@dataclass(frozen=True, slots=True)
class SliceServer:
    """The API server, for one node.

    Attributes:
        credentials: of the driver.
        node: its name.
    """

    credentials: AgentCredentials
    node: str

    async def changes(self) -> AsyncGenerator[tuple[StoredSlice, ...] | SliceChange, None]:
        """All slices of the node, then each change; all again after each failure.

        Raises:
            UnsupportedClusterError: the API server does not know the API.
        """
        selector = quote(f"spec.driver={DRIVER},spec.nodeName={self.node}", safe="")
        path = f"{COLLECTION}?fieldSelector={selector}"
        async with aclosing(list_and_watch(self.credentials, path, _disconnected)) as found:
            async for each in found:
                if isinstance(each, Listed):
                    yield tuple(filter(None, map(_watched, each.objects)))
                elif (changed := _watched(each.object)) is not None:
                    yield SliceChange(changed, each.deleted)

    async def node_uid(self) -> str:
        """The uid of the node's object.

        Raises:
            OSError: the API server did not answer, or has no such node.
            UnreadableError: the answer cannot be decoded.
        """
        found = await self._send("GET", f"/api/v1/nodes/{quote(self.node, safe='')}")
        return _IDENTIFIED.decode(found).metadata.uid

    async def create(self, item: Json) -> StoredSlice:
        """Create a slice; what the server stored.

        Raises:
            OSError: it was rejected.
            UnreadableError: the answer cannot be decoded.
        """
        return _stored(await self._send("POST", COLLECTION, item))

    async def replace(self, item: Json) -> StoredSlice:
        """Replace a slice of the version that the item states; what the server stored.

        Raises:
            OSError: it was rejected.
            UnreadableError: the answer cannot be decoded.
        """
        return _stored(await self._send("PUT", _path(item["metadata"]["name"]), item))

    async def delete(self, name: str) -> None:
        """Delete a slice, if it exists.

        Raises:
            OSError: the request was rejected.
        """
        try:
            await self._send("DELETE", _path(name))
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise

    async def _send(self, method: str, path: str, body: Json | None = None) -> bytes:
        data = b"" if body is None else msgspec.json.encode(body)
        return await send(self.credentials, method, path, data)


def _disconnected(error: Exception) -> None:
    if isinstance(error, ApiError) and error.status == _NOT_FOUND:
        raise UnsupportedClusterError(
            "the API server does not serve resource.k8s.io/v1 ResourceSlices: dra.driver needs"
            " Kubernetes 1.36 or later"
        ) from error
    log_event("resource_slices.disconnected", reason=str(error) or repr(error))


def _watched(text: msgspec.Raw) -> StoredSlice | None:
    """A slice of which at least the identity can be decoded; None for another one."""
    try:
        return _stored(text)
    except UnreadableError as error:
        log_event("resource_slice.unreadable", reason=str(error))
    try:
        metadata = _IDENTIFIED.decode(text).metadata
    except UnreadableError:
        return None
    return StoredSlice(metadata.name, metadata.resource_version, {})


def _stored(text: msgspec.Raw | bytes) -> StoredSlice:
    found = _SLICE.decode(text)
    return StoredSlice(found.metadata.name, found.metadata.resource_version, found.spec)


def _path(name: str) -> str:
    return f"{COLLECTION}/{quote(name, safe='')}"

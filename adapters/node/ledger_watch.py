"""The node's record in the cluster: one object, followed.

A list and then a watch, both of the one object with the node's name, so that the agent's permission
can be for it alone. Source: Kubernetes API concepts, "Efficient detection of changes".
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from adapters.node.credentials import Credentials
from adapters.node.grants import LedgerGrants
from adapters.node.journal import tell
from adapters.wire.ledger import LedgerRecordError, decode

COLLECTION = "/apis/dragoman.dev/v1alpha1/nodeledgers"

SHORTEST, LONGEST = 0.2, 10.0
"""Seconds between two attempts."""

SILENCE = 150.0
"""Seconds without a word after which a connection counts as lost; bookmarks come every minute."""

_SESSION = 290
_LARGEST = 16 << 20


class _Version(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct, frozen=True):
    metadata: _Version = _Version()
    spec: msgspec.Raw = msgspec.Raw(b"null")


class _List(msgspec.Struct, frozen=True):
    metadata: _Version
    items: tuple[_Object, ...]


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class WatchError(OSError):
    """The API server does not answer as it should."""


_FAILURES = (OSError, EOFError, ValueError, asyncio.LimitOverrunError, msgspec.MsgspecError)


@dataclass(slots=True)
class LedgerWatch:
    """Brings the node's record to the grants.

    As long as there is no answer, what is known stays known. A record that cannot be read, or is
    deleted, is no record: then nobody gets a share.

    Attributes:
        credentials: of the agent.
        node: its name.
        grants: that get the record.
    """

    credentials: Credentials
    node: str
    grants: LedgerGrants

    async def run(self) -> None:
        """Follow until cancelled."""
        wait = SHORTEST
        while True:
            try:
                version = await self._list()
                wait = SHORTEST
                while True:
                    version = await self._watch(version)
            except _FAILURES as error:
                tell("ledger.lost", reason=str(error) or type(error).__name__)
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311
            wait = min(wait * 2, LONGEST)

    async def _list(self) -> str:
        async with aclosing(self._lines("")) as lines:
            text = b"".join([line async for line in lines])
        found = msgspec.json.decode(text, type=_List)
        if found.items:
            self._take(found.items[0])
        else:
            self.grants.forget()
        return found.metadata.resource_version

    async def _watch(self, version: str) -> str:
        """Take what changes; the version to go on from when the server ends the watch."""
        words = f"&watch=1&allowWatchBookmarks=true&timeoutSeconds={_SESSION}"
        async with aclosing(self._lines(f"{words}&resourceVersion={quote(version)}")) as lines:
            async for line in lines:
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "ERROR":
                    raise WatchError(f"the watch ended: {bytes(event.object)[:200]!r}")
                thing = msgspec.json.decode(event.object, type=_Object)
                version = thing.metadata.resource_version or version
                if event.type in ("ADDED", "MODIFIED"):
                    self._take(thing)
                elif event.type == "DELETED":
                    self.grants.forget()
        return version

    def _take(self, thing: _Object) -> None:
        try:
            self.grants.replace(decode(thing.spec))
        except LedgerRecordError as error:
            tell("ledger.unread", reason=str(error))
            self.grants.forget()

    async def _lines(self, words: str) -> AsyncGenerator[bytes, None]:
        """The lines of an answer, as they come."""
        who = self.credentials
        async with asyncio.timeout(SILENCE):
            reader, writer = await asyncio.open_connection(
                who.host, who.port, ssl=who.context, limit=_LARGEST
            )
        try:
            path = f"{COLLECTION}?fieldSelector=metadata.name%3D{quote(self.node)}{words}"
            head = f"GET {path} HTTP/1.1\r\n{who.headers()}Accept: application/json\r\n\r\n"
            writer.write(head.encode())
            rest = b""
            async with aclosing(_body(reader)) as pieces:
                async for piece in pieces:
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        if line:
                            yield line
                    if len(rest) > _LARGEST:
                        raise WatchError(f"a line of more than {_LARGEST} bytes")
            if rest:
                yield rest
        finally:
            writer.close()


async def _body(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    """The pieces of a body, each as soon as it is there."""
    async with asyncio.timeout(SILENCE):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = head[0].split(" ", 2)
    headers = {
        name.strip().lower(): value.strip().lower()
        for name, _, value in (line.partition(":") for line in head[1:])
    }
    if status[1:2] != ["200"]:
        raise WatchError(f"the API server answers {' '.join(status[1:])}")
    if headers.get("transfer-encoding") != "chunked":
        size = min(int(headers.get("content-length", "0")), _LARGEST)
        async with asyncio.timeout(SILENCE):
            whole = await reader.readexactly(size)
        yield whole
        return
    while True:
        async with asyncio.timeout(SILENCE):
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if size > _LARGEST:
                raise WatchError(f"a piece of {size} bytes")
            piece = (await reader.readexactly(size + 2))[:size]
        if not size:
            return
        yield piece

"""The node's record in the cluster: one object, followed.

A list and then a watch, both of the one object with the node's name, so that the agent's permission
can be for it alone. Source: Kubernetes API concepts, "Efficient detection of changes".
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from adapters.node.apiserver.api import MAX_ANSWER, pieces
from adapters.node.apiserver.credentials import AgentCredentials
from adapters.node.grants import LedgerGrants
from adapters.node.log import log_event
from adapters.wire.ledger import LedgerRecordError, decode

COLLECTION = "/apis/dragoman.dev/v1alpha1/nodeledgers"

MIN_RETRY_DELAY, MAX_RETRY_DELAY = 0.2, 10.0
"""Seconds between two attempts."""

_SESSION = 290


class _Version(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct, frozen=True):
    metadata: _Version = _Version()
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw()


class _List(msgspec.Struct, frozen=True):
    metadata: _Version
    items: tuple[_Object, ...]


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class WatchError(OSError):
    """The API server does not answer as it should."""


FAILURES = (OSError, EOFError, ValueError, asyncio.LimitOverrunError, msgspec.MsgspecError)


StatusHandler = Callable[[msgspec.Raw | None], None]
"""Told the status of the record whenever it may have changed; None where there is no record."""


def _ignore(_: msgspec.Raw | None) -> None:
    """Nobody wants to know."""


@dataclass(slots=True)
class LedgerWatch:
    """Brings the node's record to the grants.

    As long as there is no answer, what is known stays known. A record that cannot be read, or is
    deleted, is no record: then nobody gets a share.

    Attributes:
        credentials: of the agent.
        node: its name.
        grants: that get the record.
        seen: told its status.
    """

    credentials: AgentCredentials
    node: str
    grants: LedgerGrants
    on_status: StatusHandler = _ignore

    async def run(self) -> None:
        """Follow until cancelled."""
        wait = MIN_RETRY_DELAY
        while True:
            try:
                version = await self._list()
                wait = MIN_RETRY_DELAY
                while True:
                    version = await self._watch(version)
            except FAILURES as error:
                log_event("ledger_watch.disconnected", reason=str(error) or type(error).__name__)
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311
            wait = min(wait * 2, MAX_RETRY_DELAY)

    async def _list(self) -> str:
        async with aclosing(self._lines("")) as lines:
            text = b"".join([line async for line in lines])
        found = msgspec.json.decode(text, type=_List)
        if found.items:
            self._take(found.items[0])
        else:
            self._lose()
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
                    self._lose()
        return version

    def _lose(self) -> None:
        self.grants.clear()
        self.on_status(None)

    def _take(self, thing: _Object) -> None:
        self.on_status(thing.status)
        try:
            self.grants.replace(decode(thing.spec))
        except LedgerRecordError as error:
            log_event("ledger.invalid", reason=str(error))
            self.grants.clear()

    async def _lines(self, words: str) -> AsyncGenerator[bytes, None]:
        """The lines of an answer, as they come."""
        path = f"{COLLECTION}?fieldSelector=metadata.name%3D{quote(self.node)}{words}"
        rest = b""
        async with aclosing(pieces(self.credentials, "GET", path)) as answer:
            async for piece in answer:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line:
                        yield line
                if len(rest) > MAX_ANSWER:
                    raise WatchError(f"a line of more than {MAX_ANSWER} bytes")
        if rest:
            yield rest

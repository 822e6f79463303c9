"""Watches the node's ledger in the cluster.

It lists and then watches the one object with the node's name, so that the agent's permission can be
for only that object. Source: Kubernetes API concepts, "Efficient detection of changes".
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from adapters.agent.apiserver.api import lines
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.grants import LedgerGrants
from adapters.agent.log import log_event
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.records.ledger import LedgerRecordError, decode

COLLECTION = "/apis/dragoman.dev/v1alpha1/nodeledgers"

MIN_RETRY_DELAY, MAX_RETRY_DELAY = 0.2, 10.0
"""Seconds between two attempts."""

_WATCH_SECONDS = 290


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


_LIST, _EVENT, _OBJECT = Decoder(_List), Decoder(_Event), Decoder(_Object)


class WatchError(OSError):
    """The watch failed, or its events are invalid."""


FAILURES = (OSError, UnreadableError)
"""What a request to the API server can raise; each is logged and retried."""


StatusHandler = Callable[[msgspec.Raw | None], None]
"""Called with the ledger's status whenever it may have changed; None where there is no ledger."""


def _ignore(_: msgspec.Raw | None) -> None:
    """The default: no handler."""


@dataclass(slots=True)
class LedgerWatch:
    """Supplies the grants with the node's ledger.

    While the API server does not answer, the latest ledger counts. Where the ledger is deleted or
    invalid, no container gets a share.

    Attributes:
        credentials: of the agent.
        node: its name.
        grants: where each new state of the ledger goes.
        on_status: called with the ledger's status.
    """

    credentials: AgentCredentials
    node: str
    grants: LedgerGrants
    on_status: StatusHandler = _ignore

    async def run(self) -> None:
        """List, and watch from there, until cancelled; list again after each failure."""
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
        async with aclosing(self._lines("")) as answer:
            text = b"".join([line async for line in answer])
        found = _LIST.decode(text)
        if found.items:
            self._replace(found.items[0])
        else:
            self._delete()
        return found.metadata.resource_version

    async def _watch(self, version: str) -> str:
        """Apply changes until the server ends the watch; return the version for the next watch."""
        options = f"&watch=1&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}"
        async with aclosing(self._lines(f"{options}&resourceVersion={quote(version)}")) as answer:
            async for line in answer:
                event = _EVENT.decode(line)
                if event.type == "ERROR":
                    text = bytes(event.object)[:200].decode(errors="replace")
                    raise WatchError(f"the API server ended the watch of the ledger: {text}")
                ledger = _OBJECT.decode(event.object)
                version = ledger.metadata.resource_version or version
                if event.type in ("ADDED", "MODIFIED"):
                    self._replace(ledger)
                elif event.type == "DELETED":
                    self._delete()
        return version

    def _delete(self) -> None:
        self.grants.clear()
        self.on_status(None)

    def _replace(self, ledger: _Object) -> None:
        self.on_status(ledger.status)
        try:
            self.grants.replace(decode(ledger.spec))
        except LedgerRecordError as error:
            log_event("ledger.invalid", reason=str(error))
            self.grants.clear()

    def _lines(self, options: str) -> AsyncGenerator[bytes, None]:
        path = f"{COLLECTION}?fieldSelector=metadata.name%3D{quote(self.node)}{options}"
        return lines(self.credentials, path)

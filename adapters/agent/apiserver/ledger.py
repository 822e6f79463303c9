"""Follows the node's ledger: in the cluster, or in a file that another program replaces.

The watch selects the one object with the node's name, so that the agent's permission can be for
that object alone. Source: Kubernetes API concepts, "Efficient detection of changes". The service's
reflector does more, and needs libraries that would double the agent's memory.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import msgspec

from adapters.agent.apiserver.api import lines
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.agent.grants import LedgerGrants
from adapters.agent.log import log_event
from adapters.wire.api import WatchEvent
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.records.ledger import LedgerRecordError, decode

COLLECTION = "/apis/dragoman.dev/v1alpha1/nodeledgers"

MIN_RETRY_DELAY, MAX_RETRY_DELAY = 0.2, 10.0
"""Seconds between two attempts; each failure doubles the wait."""

FAILURES = (OSError, UnreadableError)
"""What a request to the API server can raise; each is logged and retried."""

INTERVAL = 0.1
"""Seconds between two checks of a file."""

_OPTIONS = "&watch=1&allowWatchBookmarks=true&timeoutSeconds=290"


class _Version(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct, frozen=True):
    metadata: _Version = _Version()


class _List(msgspec.Struct, frozen=True):
    metadata: _Version
    items: tuple[msgspec.Raw, ...] | None = None


class _Ledger(msgspec.Struct, frozen=True):
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw()


_LIST, _EVENT, _OBJECT = Decoder(_List), Decoder(WatchEvent), Decoder(_Object)
_LEDGER = Decoder(_Ledger)


class WatchError(OSError):
    """The server ended the watch with an error."""


StatusHandler = Callable[[msgspec.Raw | None], None]
"""Called with the ledger's status whenever it may have changed; None where there is no ledger."""


@dataclass(slots=True)
class LedgerWatch:
    """Supplies the grants with the node's ledger.

    While the API server does not answer, the latest ledger counts. Where the ledger is deleted or
    invalid, no container gets a share.
    """

    credentials: AgentCredentials
    node: str
    grants: LedgerGrants
    on_status: StatusHandler = lambda _: None

    async def run(self) -> None:
        """List, and watch from there, until cancelled; list again after each failure."""
        path = f"{COLLECTION}?fieldSelector=metadata.name%3D{quote(self.node)}"
        wait = MIN_RETRY_DELAY
        while True:
            try:
                async with aclosing(lines(self.credentials, path)) as answer:
                    found = _LIST.decode(b"".join([line async for line in answer]))
                wait = MIN_RETRY_DELAY
                self._replace(found.items[0] if found.items else None)
                version = found.metadata.resource_version
                while True:
                    selected = f"{path}{_OPTIONS}&resourceVersion={quote(version)}"
                    async with aclosing(lines(self.credentials, selected)) as answer:
                        async for line in answer:
                            event = _EVENT.decode(line)
                            if event.type == "ERROR":
                                text = bytes(event.object)[:200].decode(errors="replace")
                                problem = f"the API server ended the watch of {path}: {text}"
                                raise WatchError(problem)
                            with suppress(UnreadableError):
                                metadata = _OBJECT.decode(event.object).metadata
                                version = metadata.resource_version or version
                            if event.type != "BOOKMARK":
                                self._replace(None if event.type == "DELETED" else event.object)
            except FAILURES as error:
                log_event("ledger_watch.disconnected", reason=str(error) or type(error).__name__)
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311
            wait = min(wait * 2, MAX_RETRY_DELAY)

    def _replace(self, text: msgspec.Raw | None) -> None:
        """Take the ledger as it is now; None where there is none."""
        if text is None:
            self.grants.clear()
            self.on_status(None)
            return
        try:
            ledger = _LEDGER.decode(text)
            self.on_status(ledger.status)
            self.grants.replace(decode(ledger.spec))
        except (UnreadableError, LedgerRecordError) as error:
            log_event("ledger.invalid", reason=str(error))
            self.grants.clear()


@dataclass(slots=True)
class LedgerFile:
    """Supplies the grants with the ledger in a file.

    A file that is deleted or invalid changes nothing: what was granted stays granted.

    Its format is that of ``adapters.wire.records.ledger``.
    """

    path: Path
    grants: LedgerGrants
    _seen: tuple[int, int, int] | None = None

    def look(self) -> bool:
        """Read the file if it has changed; whether the grants got a newer ledger."""
        try:
            status = self.path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen == self._seen:
                return False
            self._seen = seen
            self.grants.replace(decode(self.path.read_bytes()))
        except FileNotFoundError:
            return False
        except (OSError, LedgerRecordError) as error:
            log_event("ledger.invalid", reason=str(error), file=self.path)
            return False
        return True

    async def run(self) -> None:
        """Check the file every ``INTERVAL`` until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(INTERVAL)

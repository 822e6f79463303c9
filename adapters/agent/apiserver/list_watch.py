"""Lists the objects of a path and follows their changes, for the agent and the driver.

Source: Kubernetes API concepts, "Efficient detection of changes". The service's reflector does
more, and needs libraries that would double the agent's memory.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from adapters.agent.apiserver.api import lines
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.wire.api import WatchEvent
from adapters.wire.decode.decoder import Decoder, UnreadableError

MIN_RETRY_DELAY, MAX_RETRY_DELAY = 0.2, 10.0
"""Seconds between two attempts; each failure doubles the wait."""

FAILURES = (OSError, UnreadableError)
"""What a request to the API server can raise; each is logged and retried."""

_WATCH_SECONDS = 290


class _Version(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct, frozen=True):
    metadata: _Version = _Version()


class _List(msgspec.Struct, frozen=True):
    metadata: _Version
    items: tuple[msgspec.Raw, ...] | None = None


_LIST, _EVENT, _OBJECT = Decoder(_List), Decoder(WatchEvent), Decoder(_Object)


class WatchError(OSError):
    """The server ended the watch with an error."""


class Listed(NamedTuple):
    """All objects that there are, each still encoded."""

    objects: tuple[msgspec.Raw, ...]


class Changed(NamedTuple):
    """An object that was added, changed or deleted, still encoded."""

    object: msgspec.Raw
    deleted: bool


async def list_and_watch(
    credentials: AgentCredentials, path: str, on_failure: Callable[[Exception], None]
) -> AsyncGenerator[Listed | Changed, None]:
    """List the objects and yield each change from there on; list again after each failure.

    The caller decodes the objects, so that one which it cannot read does not hide the others.

    Args:
        credentials: of the agent or the driver.
        path: of the collection, with a field selector as its query.
        on_failure: called with each failure before the next attempt; what it raises ends this.
    """
    wait = MIN_RETRY_DELAY
    while True:
        try:
            async with aclosing(lines(credentials, path)) as answer:
                found = _LIST.decode(b"".join([line async for line in answer]))
            wait = MIN_RETRY_DELAY
            yield Listed(found.items or ())
            version = found.metadata.resource_version
            while True:
                async with aclosing(_watch(credentials, path, version)) as events:
                    async for event in events:
                        version = _version(event.object) or version
                        if event.type != "BOOKMARK":
                            yield Changed(event.object, event.type == "DELETED")
        except FAILURES as error:
            on_failure(error)
        await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311
        wait = min(wait * 2, MAX_RETRY_DELAY)


async def _watch(
    credentials: AgentCredentials, path: str, version: str
) -> AsyncGenerator[WatchEvent, None]:
    """The events from a version on, until the server ends the watch."""
    options = f"&watch=1&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}"
    selected = f"{path}{options}&resourceVersion={quote(version)}"
    async with aclosing(lines(credentials, selected)) as answer:
        async for line in answer:
            event = _EVENT.decode(line)
            if event.type == "ERROR":
                text = bytes(event.object)[:200].decode(errors="replace")
                raise WatchError(f"the API server ended the watch of {path}: {text}")
            yield event


def _version(thing: msgspec.Raw) -> str:
    """The version of an object; empty where it cannot be decoded."""
    try:
        return _OBJECT.decode(thing).metadata.resource_version
    except UnreadableError:
        return ""

"""Requests to the API server: bytes in, bytes out, repeated where that is safe."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec
from yarl import URL

from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.api.error import (
    GONE,
    NOT_FOUND,
    SERVER_ERROR,
    TOO_MANY,
    UNANSWERED,
    UNAUTHORIZED,
    ClusterError,
    read,
)
from adapters.cluster.api.paths import Selection
from adapters.cluster.api.transport import Query, Timeouts, Transport, delay
from adapters.wire.api import Page
from adapters.wire.decode.partial_decoder import PartialDecoder

ObjectT = TypeVar("ObjectT")

_JSON = "application/json"
_MERGE = "application/merge-patch+json"
_METADATA = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{_JSON}"
"""Asks for the metadata of what was written. Source: k8s.io/apiserver 0.37
pkg/endpoints/handlers/response.go, ``transformResponseObject``."""

_LENIENT = {"fieldValidation": "Ignore"}
"""What no schema knows is dropped without a warning, which is not read here. By default the API
server decodes a body strictly, to warn about it, and accepts the same bodies. Source:
k8s.io/apiserver 0.37 pkg/endpoints/handlers/rest.go, ``fieldValidation``, and update.go.
"""

_LONGEST_PAUSE = 5.0


class KubeClient:
    """The API server, for one event loop; an asynchronous context manager.

    Every method raises ``ClusterError``. What is safe to do twice (everything but ``create``) is
    repeated after 429, 5xx and broken connections; ``create`` is repeated only where the server
    has not acted: after 429, or where there was no connection.
    """

    def __init__(self, credentials: KubeCredentials, patience: Timeouts | None = None) -> None:
        self.patience = patience or Timeouts()
        self._credentials = credentials
        self._transport = Transport(credentials, self.patience)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests in progress fail."""
        await self._transport.close()

    async def get(self, path: str, query: Query | None = None) -> bytes:
        """Read an object, or a page of a list."""
        return await self._call("GET", path, query)

    async def find(self, path: str, query: Query | None = None) -> bytes | None:
        """Read an object; None where there is none."""
        try:
            return await self.get(path, query)
        except ClusterError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def create(
        self,
        path: str,
        body: object,
        query: Query | None = None,
        *,
        metadata_only: bool = False,
        repeat_refused: bool = True,
    ) -> bytes:
        """Post an object to its collection, or to a subresource.

        With ``metadata_only`` the answer may leave out all of the object but its metadata; with
        ``repeat_refused`` it is repeated after 429.
        """
        return await self._call(
            "POST", path, query, body, metadata_only=metadata_only, repeat_refused=repeat_refused
        )

    async def replace(
        self,
        path: str,
        body: object,
        query: Query | None = None,
        *,
        metadata_only: bool = False,
    ) -> bytes:
        """Put an object in the place of another; with its resourceVersion this is a swap.

        Arguments as of ``create``.
        """
        return await self._call("PUT", path, query, body, metadata_only=metadata_only)

    async def patch(self, path: str, body: object) -> bytes:
        """Change a part of an object by a merge patch."""
        return await self._call("PATCH", path, None, body)

    async def delete(self, path: str, body: object = None) -> bytes:
        """Delete; the body is a ``DeleteOptions``, with preconditions for instance."""
        return await self._call("DELETE", path, None, body)

    def stream(
        self, path: str, query: Query, idle: float | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a response that goes on, as that of a watch; never repeated.

        After ``idle`` seconds without data the connection counts as dead.
        """
        return self._transport.stream(path, query, idle or self.patience.idle)

    async def renew(self) -> None:
        """Read the credentials again."""
        await self._credentials.renew()

    async def _call(
        self,
        verb: str,
        path: str,
        query: Query | None = None,
        body: object = None,
        *,
        metadata_only: bool = False,
        repeat_refused: bool = True,
    ) -> bytes:
        if verb in {"POST", "PUT", "PATCH"}:
            query = {**(query or {}), **_LENIENT}
        headers = {"Accept": _METADATA if metadata_only else _JSON}
        if body is not None:
            body = body if isinstance(body, bytes) else msgspec.json.encode(body)
            headers["Content-Type"] = _MERGE if verb == "PATCH" else _JSON
        deadline = time.monotonic() + self.patience.total
        failures = 0
        while True:
            left = deadline - time.monotonic()
            try:
                return await self._transport.request(verb, path, query, body, headers, left)
            except ClusterError as error:
                failures += 1
                wait = max(error.retry_after or 0.0, delay(failures, most=_LONGEST_PAUSE))
                lost = error.status == UNANSWERED or error.status >= SERVER_ERROR
                if error.status == UNAUTHORIZED and failures == 1:
                    await self.renew()
                    wait = 0.0
                elif failures >= self.patience.attempts or not (
                    error.reason == "Unreachable"
                    or (error.status == TOO_MANY and repeat_refused)
                    or (verb != "POST" and lost)
                ):
                    raise
                if time.monotonic() + wait >= deadline:
                    raise
            await asyncio.sleep(wait)


PAGE = 500
"""Objects in a page; 500 pods are about 4 MiB."""

# Attempts at a list, and how much larger the pages of the next one are.
_LISTS = 3
_GROWTH = 4

_PAGE = PartialDecoder(Page)


async def list_all(
    client: KubeClient,
    selection: Selection,
    kind: type[ObjectT],
    *,
    page: int = PAGE,
    listed: Callable[[int], None] | None = None,
) -> list[ObjectT]:
    """Return all objects of a selection, in the server's order.

    A server keeps the snapshot of a list for about five minutes. When it is gone, the list begins
    again with larger pages. Of an ``optional`` kind that the server does not know there are none.
    ``listed`` is called after each page with the number of objects so far.

    Raises:
        ClusterError: the server did not answer, rejects the request, or sends an object that
            cannot be decoded (``Garbage``).
    """
    decoder, attempts, token = PartialDecoder(kind), 1, ""
    found: list[ObjectT] = []
    while True:
        query = {**selection.query, "limit": str(page)} | ({"continue": token} if token else {})
        try:
            answer = read(_PAGE, await client.get(selection.path, query))
        except ClusterError as error:
            if error.status == NOT_FOUND and selection.optional:
                return []
            if error.status != GONE or attempts == _LISTS:
                raise
            attempts, found, token, page = attempts + 1, [], "", page * _GROWTH
            continue
        found += [read(decoder, item) for item in answer.items or ()]
        if listed is not None:
            listed(len(found))
        token = answer.metadata.token
        if not token:
            return found


MAX_BODY = 4 << 20
"""Bytes of an answer of ``PlainReader``."""

_CHUNK = 64 << 10


class PlainReader:
    """Connections are opened when first needed in the running loop, and closed after each answer.

    Attributes:
        patience: seconds for one request with its answer.
    """

    def __init__(self, patience: float = 2.0) -> None:
        self.patience = patience
        self._session: aiohttp.ClientSession | None = None

    async def get(self, host: str, port: int, path: str) -> bytes:
        """Return the body of an answer; the host is an IP address, and the path begins with ``/``.

        Raises:
            OSError: no answer in time, another status than 200, or a body above ``MAX_BODY``.
        """
        address = URL.build(scheme="http", host=host, port=port, path=path)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity", "User-Agent": "dragoman"},
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=self.patience),
            )
        try:
            async with self._session.get(address, allow_redirects=False) as response:
                if response.status != HTTPStatus.OK:
                    raise OSError(f"{address}: status {response.status}")
                body = bytearray()
                async for part in response.content.iter_chunked(_CHUNK):
                    body += part
                    if len(body) > MAX_BODY:
                        raise OSError(f"{address}: more than {MAX_BODY} bytes")
                return bytes(body)
        except aiohttp.ClientError as error:
            raise OSError(f"{address}: {error}") from error

    async def close(self) -> None:
        """Close every connection; requests in progress fail."""
        if self._session is not None:
            await self._session.close()
            self._session = None

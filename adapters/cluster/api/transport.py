"""HTTP requests to the API server by aiohttp, with its errors as ``ClusterError``."""

import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from random import SystemRandom
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.api.error import ClusterError, refused

Query = Mapping[str, str]

# The kernel detects a peer that vanished after 15 + 3 * 5 s, and drops unsent bytes after 30 s. Not
# every system has all of these options.
_KEEPALIVE = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 15),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 30_000),
)


# Each watch holds one; many concurrent Bindings share the others.
_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait, in seconds, and how often to try.

    Attributes:
        connect: until TCP and TLS are set up.
        read: until the next bytes of an answer.
        total: for one request with all its attempts.
        attempts: how often a request is sent, 1 or more; no time.
        idle: until the next bytes of a watch, which has a bookmark about every minute.
    """

    connect: float = 3.0
    read: float = 10.0
    total: float = 30.0
    attempts: int = 6
    idle: float = 100.0


class Transport:
    """Connections to the API server, opened when first needed in the running loop."""

    def __init__(self, credentials: KubeCredentials, patience: Timeouts) -> None:
        self._credentials = credentials
        self._patience = patience
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection; requests in progress fail."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        verb: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: Mapping[str, str],
        left: float,
    ) -> bytes:
        """Send a request once, for at most ``left`` seconds; its path is below the server's."""
        limits = aiohttp.ClientTimeout(
            total=max(left, 0.001),
            sock_connect=self._patience.connect,
            sock_read=self._patience.read,
        )
        async with self._exchange(verb, path, query, limits, headers, body) as response:
            return await response.read()

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, idle: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a response by chunks; it fails after ``idle`` seconds without data."""
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=self._patience.connect, sock_read=idle
        )
        async with self._exchange(
            "GET", path, query, limits, {"Accept": "application/json"}, None
        ) as response:
            yield response.content.iter_any()

    @asynccontextmanager
    async def _exchange(
        self,
        verb: str,
        path: str,
        query: Query | None,
        limits: aiohttp.ClientTimeout,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        target = f"{self._credentials.server}{path}"
        address = URL(f"{target}?{urlencode(query)}" if query else target, encoded=True)
        authorization = await self._credentials.authorization()
        if authorization is not None:
            headers = {**headers, "Authorization": authorization}
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(socket_factory=_socket, limit=_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                # Without compression: for a list of 20,000 pods it costs both sides more than the
                # network between them.
                headers={"Accept-Encoding": "identity", "User-Agent": "dragoman"},
            )
        with _translated(f"{verb} {path}"):
            async with self._session.request(
                verb,
                address,
                data=body,
                headers=headers,
                timeout=limits,
                allow_redirects=False,
                ssl=self._credentials.context or True,
                server_hostname=self._credentials.name,
                proxy=self._credentials.proxy,
            ) as response:
                if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                    raise refused(
                        response.status,
                        response.reason or "",
                        await response.read(),
                        response.headers.get("Retry-After"),
                    )
                connection = response.connection
                try:
                    yield response
                except BaseException:
                    # It was not read to its end. An orderly end of TLS waits for the peer, which
                    # may take long.
                    if connection is not None and connection.transport is not None:
                        connection.transport.abort()
                    raise


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        place, lost = f"{error.host}:{error.port}", error.os_error
        # The system's words; asyncio has its own for a refused connection, with Python's values.
        number = lost.errno or 0
        why = os.strerror(number) if number > 0 else lost.strerror or str(lost)
        raise ClusterError(0, "Unreachable", f"{what}: {place}: {why}") from error
    except aiohttp.ConnectionTimeoutError as error:
        raise ClusterError(0, "Unreachable", f"{what}: {_text(error)}") from error
    except TimeoutError as error:
        raise ClusterError(0, "Silent", f"{what}: {_text(error)}", uncertain=True) from error
    except aiohttp.ClientResponseError as error:
        raise ClusterError(0, "Garbage", f"{what}: {_text(error)}", uncertain=True) from error
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error, ClusterError):
            raise
        raise ClusterError(0, "Broken", f"{what}: {_text(error)}", uncertain=True) from error


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.settimeout(0)
    for level, name, value in _KEEPALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(level, option, value)
    return made


_DICE = SystemRandom()
_DOUBLINGS = 16


def delay(failures: int, *, first: float = 0.2, most: float = 30.0) -> float:
    """Seconds to wait after failures in a row: doubled by each, capped, half of them by chance.

    Args:
        failures: in a row, 1 or more; 0 counts as 1.
        first: seconds after the first failure, before chance takes up to half of it away.
        most: the cap in seconds.
    """
    whole = min(most, first * 2.0 ** min(max(failures, 1) - 1, _DOUBLINGS))
    return whole * _DICE.uniform(0.5, 1.0)


def jitter(seconds: float) -> float:
    """About that many seconds, up to half more, so that many clients do not act at once."""
    return seconds * _DICE.uniform(1.0, 1.5)

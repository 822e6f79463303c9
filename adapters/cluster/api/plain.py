"""GET requests in the clear to addresses inside the cluster, which are trusted with nothing.

No credentials, no proxy, no redirect; answers are bounded in time and size.
"""

from http import HTTPStatus

import aiohttp
from yarl import URL

MAX_BODY = 4 << 20
"""Bytes of an answer."""

_CHUNK = 64 << 10


class PlainReader:
    """Connections are opened when first needed in the running loop, and closed after each answer.

    Attributes:
        patience: seconds for one request with its answer.
    """

    def __init__(self, patience: float = 2.0) -> None:
        """Open no connection yet."""
        self.patience = patience
        self._session: aiohttp.ClientSession | None = None

    async def get(self, host: str, port: int, path: str) -> bytes:
        """Return the body of an answer.

        Args:
            host: an IP address.
            port: the TCP port.
            path: begins with ``/``.

        Raises:
            OSError: no answer in time, another status than 200, or a body above ``MAX_BODY``.
        """
        address = URL.build(scheme="http", host=host, port=port, path=path)
        try:
            async with self._opened().get(address, allow_redirects=False) as response:
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

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity", "User-Agent": "dragoman"},
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=self.patience),
            )
        return self._session

"""The port: uvicorn with a raw ASGI application, one process, one loop."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from adapters.sidecar import settings
from adapters.sidecar.certificates.tls_context import CertificateFiles, ServingCertificate
from adapters.sidecar.web.app import App

IDLE = 120
"""Seconds for which a connection is kept for the next call. Schedulers reuse theirs."""

LAST = 10
"""Seconds that calls in progress are given when the service ends."""


class WebServer(uvicorn.Server):
    """A server that leaves signals to us, and says when it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the composition root ends what stands around the server too."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self._started()


def listener(listen: str) -> socket.socket:
    """A socket on ``HOST:PORT``.

    Raises:
        OSError: it is taken, or there is no such address.
    """
    host, port = settings.address(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise OSError(f"listen: {listen}: {error.strerror}") from error
    return made


def address(made: socket.socket, certificate: ServingCertificate | None) -> str:
    """Where a socket answers, as a URL."""
    host, port = made.getsockname()[:2]
    scheme = "https" if certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def server(
    app: App, certificate: ServingCertificate | None, started: Callable[[], None]
) -> WebServer:
    """A server for an application.

    Args:
        app: the application.
        certificate: for TLS; None for none.
        started: called when it answers.
    """
    config = uvicorn.Config(
        app,
        http="httptools",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=LAST,
        backlog=2048,
        ssl_context_factory=(lambda *_: certificate.context) if certificate else None,
    )
    return WebServer(config, started)


async def renew(certificate: CertificateFiles, every: float, failed: Callable[[str], None]) -> None:
    """Look for a new certificate, for ever.

    Args:
        certificate: of the server.
        every: seconds between two looks.
        failed: told when the files cannot be used; the earlier certificate stays.
    """
    told = ""
    while True:
        await asyncio.sleep(every)
        try:
            certificate.renew()
            told = ""
        except ValueError as error:
            if str(error) != told:
                told = str(error)
                failed(told)

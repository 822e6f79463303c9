"""Asks the scheduling service about one namespace, as a user who may read no other."""

import asyncio
import ssl
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit

from adapters.cli.input.cluster import PATIENCE, context_of
from adapters.cli.input.origin import Origin
from adapters.cli.input.source import InputError
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials, load
from adapters.cluster.api.error import UNAUTHORIZED, ClusterError, read
from adapters.wire.decode.decoder import Decoder

T = TypeVar("T")

TENANT = "/api/tenant/"

OPTION = "--service"


def ask(url: str, origin: Origin, question: str, kind: type[T], **query: str) -> T:
    """Return the service's answer to a question about the namespace of the query.

    The user's token is sent only where the service asks for one, and never in the clear to another
    machine.

    Raises:
        InputError: the address cannot be used, there is no token, or the service rejects it or
            does not answer.
    """
    server, path = _server(url)
    secure = ssl.create_default_context() if server.startswith("https:") else None

    async def get(token: str | None) -> bytes:
        credentials = KubeCredentials(server, secure, _token=token)
        async with KubeClient(credentials, PATIENCE) as client:
            return await client.get(f"{path}{TENANT}{question}", query)

    async def work() -> bytes:
        try:
            return await get(None)
        except ClusterError as error:
            if error.status != UNAUTHORIZED:
                raise
        context = context_of(origin.kubeconfig, origin.context)
        token = await load(context.source).authorization()
        if token is None:
            problem = "needs a token, and the user of the context has a certificate"
            raise InputError(f"context {context.name}", f"{url} {problem}")
        return await get(token)

    try:
        return read(Decoder(kind), asyncio.run(work()))
    except ClusterError as error:
        text = error.message.removeprefix('{"error":"').removesuffix('"}')
        raise InputError(url, f"{error.status or error.reason}: {text}") from error


def _server(url: str) -> tuple[str, str]:
    """Return the server of an address, and its path without a slash at the end."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise InputError(OPTION, f"{url!r}: {error}") from error
    is_plain = parts.scheme == "http" and _is_own(host)
    if not (host and (is_plain or parts.scheme == "https")) or "@" in parts.netloc:
        valid = "https://HOST, or http:// to this machine, because a token may be sent"
        raise InputError(OPTION, f"{url!r}: must be {valid}")
    if parts.query or parts.fragment:
        raise InputError(OPTION, f"{url!r}: must have no query")
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


def _is_own(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

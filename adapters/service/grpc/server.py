"""The gRPC port: a unix socket, or a port; health and reflection with it."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from adapters.dialects.dialect import DialectError
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import BindError, NodeLocked, NotReady
from adapters.service.decide.service import Service, UnknownPod
from adapters.service.grpc import dragoman_pb2 as pb
from adapters.service.grpc import dragoman_pb2_grpc as pb_grpc
from adapters.service.grpc.calls import Calls, ElsewhereError, NothingFitsError, StateError
from adapters.service.settings.sections import GrpcTls
from adapters.service.settings.settings import UNIX, SettingsError, is_local
from adapters.wire.body import BodyError

MESSAGE_SECONDS = 10.0
"""Seconds in which the message of a call arrives."""

RESPONSE_SECONDS = 30.0
"""Seconds in which a client reads a message."""

ARRIVING = 64
"""Calls whose messages arrive at a time, of 4 MiB each; the oldest one gives way to a new one."""

STREAMS = 64
"""Streams at a time, so that calls have room beside them."""

Context = grpc.aio.ServicerContext
Handler = Any
"""A ``grpc.RpcMethodHandler``, which has no type for its functions."""


SERVICE = "dragoman.v1alpha1.Dragoman"
"""The service name in health checks and reflection."""

POLL = 0.2
"""Seconds between two checks whether the service is ready."""

SHUTDOWN_GRACE = 2.0
"""Seconds that calls in progress may take when the service stops."""

CALLS = 256
"""Calls at a time, the streams of WatchLedger included."""

IDLE_MS = 300_000
"""Milliseconds after which a connection without a call is closed."""

LONGEST = 2000
"""Characters of an error, which may repeat a name; a client reads 8 KiB of metadata at most."""

LIMITS = (
    ("grpc.max_connection_idle_ms", IDLE_MS),
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 4 << 20),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.absolute_max_metadata_size", 64 << 10),
    ("grpc.max_concurrent_streams", CALLS),
    ("grpc.max_allowed_incoming_connections", 256),
    ("grpc.server_handshake_timeout_ms", 5_000),
)
"""Source: grpc/include/grpc/impl/channel_arg_names.h."""

Failed = Callable[[str, Exception], str]
"""Logs an unexpected error of a call; returns the number of the log entry."""

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (NotReady, grpc.StatusCode.UNAVAILABLE),
    (UnknownPod, grpc.StatusCode.NOT_FOUND),
    (DialectError, grpc.StatusCode.INVALID_ARGUMENT),
    (BodyError, grpc.StatusCode.INVALID_ARGUMENT),
    (NothingFitsError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (StateError, grpc.StatusCode.FAILED_PRECONDITION),
    (ElsewhereError, grpc.StatusCode.ALREADY_EXISTS),
    (LedgerContended, grpc.StatusCode.ABORTED),
    (NodeLocked, grpc.StatusCode.ABORTED),
    (OSError, grpc.StatusCode.UNAVAILABLE),
)


@dataclass(eq=False)
class CallLimits(grpc.aio.ServerInterceptor):
    """Reads messages and writes responses in the place of grpc; what a client sees is the same.

    grpc's own handlers wait for the message of a call, and for the reader of an answer, without
    end, and each such call is one of those that the server answers at a time.
    """

    message_seconds: float = MESSAGE_SECONDS
    response_seconds: float = RESPONSE_SECONDS
    _arriving: dict[asyncio.Timeout, None] = field(default_factory=dict)  # the oldest first
    _streams: int = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the handler of a call, with limits."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None

        async def call(_: object, context: "Context[Any, Any]") -> None:
            if handler.response_streaming:
                async with self._stream(context):
                    request = await self._message(handler, context)
                    responses = handler.unary_stream(request, context)
                    if isinstance(responses, Awaitable):  # the health service writes them itself
                        await responses
                        return
                    async for response in responses:
                        await self._write(response, context)
                return
            request = await self._message(handler, context)
            response = await handler.unary_unary(request, context)
            await self._write(response, context)

        async def exchange(requests: object, context: "Context[Any, Any]") -> None:
            async with self._stream(context):
                async for response in handler.stream_stream(requests, context):
                    await self._write(response, context)

        write = handler.response_serializer
        if handler.request_streaming:
            read = handler.request_deserializer
            return grpc.stream_stream_rpc_method_handler(exchange, read, write)
        return grpc.stream_stream_rpc_method_handler(call, None, write)

    async def _message(self, handler: Handler, context: "Context[Any, Any]") -> Any:
        """Return a message; the call ends here where it does not arrive or is malformed."""
        if len(self._arriving) >= ARRIVING:
            oldest = next(iter(self._arriving))
            del self._arriving[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        limit = asyncio.timeout(self.message_seconds)
        try:
            async with limit:
                self._arriving[limit] = None
                content: Any = await context.read()
        except TimeoutError:
            text = "the message did not arrive in time"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)
        finally:
            self._arriving.pop(limit, None)
        if content is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
        try:
            return handler.request_deserializer(content)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message cannot be read")

    async def _write(self, response: Any, context: "Context[Any, Any]") -> None:
        """Write a message; the call ends here where the client does not read."""
        try:
            async with asyncio.timeout(self.response_seconds):
                await context.write(response)
        except TimeoutError:
            text = "the response was not read in time"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)

    @asynccontextmanager
    async def _stream(self, context: "Context[Any, Any]") -> AsyncIterator[None]:
        """Count a stream; the call ends here where there are too many."""
        if self._streams >= STREAMS:
            text = f"{STREAMS} streams are open, the limit; try again"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


def servicer(calls: Calls, failed: Failed) -> object:
    """Return what answers calls; every error becomes a status code with a sentence, never a yes."""

    async def abort(call: str, error: Exception, context: "Context[Any, Any]") -> NoReturn:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
        if isinstance(error, BindError):
            missing = error.status == HTTPStatus.NOT_FOUND
            code = grpc.StatusCode.NOT_FOUND if missing else grpc.StatusCode.ABORTED
            if not error.definite:
                code = grpc.StatusCode.UNAVAILABLE
        if code is None:
            number = failed(f"{SERVICE}/{call}", error)
            text = f"unexpected error; it is in the log with decision {number}"
            await context.abort(grpc.StatusCode.INTERNAL, text)
        await context.abort(code, str(error)[:LONGEST])

    def unary(
        name: str, call: Callable[[RequestT], Awaitable[ResponseT]]
    ) -> Callable[[RequestT, "Context[Any, Any]"], Awaitable[ResponseT]]:
        async def answer(request: RequestT, context: "Context[Any, Any]") -> ResponseT:
            try:
                return await call(request)
            except Exception as error:
                await abort(name, error, context)

        return answer

    async def watch(
        request: pb.WatchLedgerRequest, context: "Context[Any, Any]"
    ) -> AsyncIterator[pb.LedgerChange]:
        try:
            async for change in calls.watch_ledger(request):
                yield change
        except Exception as error:
            await abort("WatchLedger", error, context)

    return SimpleNamespace(
        Allocate=unary("Allocate", calls.allocate),
        Release=unary("Release", calls.release),
        Explain=unary("Explain", calls.explain),
        ListCards=unary("ListCards", calls.list_cards),
        WatchLedger=watch,
    )


class GrpcServer:
    """One port."""

    def __init__(
        self,
        service: Service,
        listen: str,
        failed: Failed,
        credentials: grpc.ServerCredentials | None = None,
        limits: CallLimits | None = None,
    ) -> None:
        """Bind ``unix:PATH`` or ``HOST:PORT``; without credentials a host must be loopback.

        Raises:
            OSError: the address is in use, cannot be bound, or is a path that is no socket.
        """
        self._service = service
        self._path = Path(listen.removeprefix(UNIX)) if listen.startswith(UNIX) else None
        self._health = HealthServicer()
        self._server = grpc.aio.server(
            interceptors=(limits or CallLimits(),), options=LIMITS, maximum_concurrent_rpcs=CALLS
        )
        pb_grpc.add_DragomanServicer_to_server(  # type: ignore[no-untyped-call]
            servicer(Calls(service), failed), self._server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (
                SERVICE,
                health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
                reflection.SERVICE_NAME,
            ),
            self._server,
        )
        path = self._path
        if path is not None and path.exists():
            if not path.is_socket():
                raise OSError(f"grpc: unix:{path}: exists already, and is no socket")
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                try:
                    probe.connect(str(path))
                except OSError:  # it was left behind
                    path.unlink(missing_ok=True)
                else:
                    raise OSError(f"grpc: unix:{path}: another service listens there")
        if path is None and credentials is None and not is_local(listen):
            raise OSError(f"grpc: {listen}: must be a loopback address, or grpcTls must be set")
        earlier = os.umask(0o177)  # only the owner may connect
        try:
            where = listen if path is None else f"{UNIX}{path.absolute()}"
            self.port: int = (
                self._server.add_insecure_port(where)
                if credentials is None
                else self._server.add_secure_port(where, credentials)
            )
        except RuntimeError as error:
            raise OSError(f"grpc: {listen}: cannot listen: {error}") from error
        finally:
            os.umask(earlier)

    async def start(self) -> None:
        """Begin to serve; health is NOT_SERVING until the service is ready."""
        await self._set_health(ready=False)
        await self._server.start()

    async def run(self) -> NoReturn:
        """Update the health until cancelled."""
        ready = False
        while True:
            now = not self._service.readiness.awaited
            if now != ready:
                ready = now
                await self._set_health(ready=ready)
            await asyncio.sleep(POLL)

    async def stop(self) -> None:
        """Let calls in progress end, and close the port."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(SHUTDOWN_GRACE)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    async def _set_health(self, *, ready: bool) -> None:
        status = health_pb2.HealthCheckResponse
        for name in ("", SERVICE):
            await self._health.set(name, status.SERVING if ready else status.NOT_SERVING)


def default_socket(environment: Mapping[str, str]) -> Path:
    """Return the default path of the socket; its directory is created.

    Source: XDG Base Directory Specification 0.8, XDG_RUNTIME_DIR; for daemons, Filesystem
    Hierarchy Standard 3.0, section 3.15.

    Raises:
        OSError: the directory cannot be created.
    """
    folder = Path(environment.get("XDG_RUNTIME_DIR") or "/run") / "dragoman"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / "grpc.sock"


def credentials(tls: GrpcTls, unusable: Callable[[str], None]) -> grpc.ServerCredentials:
    """Return credentials that check their files at every connection.

    ``unusable`` is called with why changed files cannot be used; the earlier ones stay.

    Raises:
        SettingsError: the files cannot be used.
    """
    files = _Files(tls, unusable)
    return grpc.dynamic_ssl_server_credentials(
        files.latest, files.now, require_client_authentication=True
    )


class _Files:
    """The three files.

    Attributes:
        latest: their last usable content.
    """

    def __init__(self, tls: GrpcTls, unusable: Callable[[str], None]) -> None:
        self._tls = tls
        self._unusable = unusable
        self._seen = self._stamp()
        self.latest = self._read()

    def now(self) -> grpc.ServerCertificateConfiguration:
        """Return the content of the files, or their last usable content."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self.latest = self._read()
            except SettingsError as error:
                self._unusable(str(error))
        return self.latest

    def _read(self) -> grpc.ServerCertificateConfiguration:
        tls = self._tls
        probe = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            probe.load_cert_chain(tls.certificate, tls.key)
        except OSError as error:
            raise SettingsError(f"grpcTls: the certificate cannot be read: {error}") from error
        try:
            probe.load_verify_locations(tls.client_authorities)
        except OSError as error:
            raise SettingsError(f"grpcTls.clientAuthorities: {error}") from error
        return grpc.ssl_server_certificate_configuration(
            [(tls.key.read_bytes(), tls.certificate.read_bytes())],
            root_certificates=tls.client_authorities.read_bytes(),
        )

    def _stamp(self) -> object:
        """Return what changes with the files; None while one of them is missing."""
        paths = (self._tls.certificate, self._tls.key, self._tls.client_authorities)
        try:
            stats = [path.stat() for path in paths]
        except OSError:
            return None
        return [(each.st_mtime_ns, each.st_ino, each.st_size) for each in stats]

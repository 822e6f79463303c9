"""The gRPC port: a unix socket, or a port; health and reflection with it."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from adapters.dialects.dialect import DialectError
from adapters.sidecar.decide.ledger_writer import LedgerContended
from adapters.sidecar.decide.ports import BindError, NodeLocked
from adapters.sidecar.decide.readiness import NotReady
from adapters.sidecar.decide.service import Service, UnknownPod
from adapters.sidecar.grpc import dragoman_pb2 as pb
from adapters.sidecar.grpc import dragoman_pb2_grpc as pb_grpc
from adapters.sidecar.grpc.calls import Calls, ElsewhereError, NothingFitsError, StateError
from adapters.sidecar.settings import UNIX, is_local
from adapters.wire.body import BodyError

SERVICE = "dragoman.v1alpha1.Dragoman"
"""The name under which health and reflection know it."""

POLL = 0.2
"""Seconds between two looks at whether the service is ready."""

LAST = 2.0
"""Seconds that calls in progress are given when the service ends."""

Failed = Callable[[str, Exception], str]
"""Told the call and an error that nobody foresaw; gives the number under which it is logged."""

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
Context = grpc.aio.ServicerContext

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


class Servicer(pb_grpc.DragomanServicer):
    """Answers calls; an error becomes a status code and a sentence, and never a yes."""

    def __init__(self, calls: Calls, failed: Failed) -> None:
        self._calls = calls
        self._failed = failed

    async def Allocate(  # noqa: N802 - as in the proto file
        self, request: pb.AllocateRequest, context: "Context[object, object]"
    ) -> pb.AllocateResponse:
        """Give a pod its cards."""
        return await self._answer(self._calls.allocate, request, context)

    async def Release(  # noqa: N802
        self, request: pb.ReleaseRequest, context: "Context[object, object]"
    ) -> pb.ReleaseResponse:
        """Take back what was given."""
        return await self._answer(self._calls.release, request, context)

    async def Explain(  # noqa: N802
        self, request: pb.ExplainRequest, context: "Context[object, object]"
    ) -> pb.ExplainResponse:
        """Where a pod fits."""
        return await self._answer(self._calls.explain, request, context)

    async def ListCards(  # noqa: N802
        self, request: pb.ListCardsRequest, context: "Context[object, object]"
    ) -> pb.ListCardsResponse:
        """Cards, page by page."""
        return await self._answer(self._calls.list_cards, request, context)

    async def WatchLedger(  # noqa: N802
        self, request: pb.WatchLedgerRequest, context: "Context[object, object]"
    ) -> AsyncIterator[pb.LedgerChange]:
        """Every node as it is, then each that changes."""
        try:
            async for change in self._calls.watch_ledger(request):
                yield change
        except Exception as error:
            await self._abort("WatchLedger", error, context)

    async def _answer(
        self,
        call: Callable[[RequestT], Awaitable[ResponseT]],
        request: RequestT,
        context: "Context[object, object]",
    ) -> ResponseT:
        try:
            return await call(request)
        except Exception as error:
            await self._abort(type(request).__name__.removesuffix("Request"), error, context)

    async def _abort(
        self, call: str, error: Exception, context: "Context[object, object]"
    ) -> NoReturn:
        code = _code(error)
        if code is None:
            number = self._failed(f"{SERVICE}/{call}", error)
            told = f"an error that nobody foresaw; the log tells it under {number}"
            await context.abort(grpc.StatusCode.INTERNAL, told)
        await context.abort(code, str(error))


def _code(error: Exception) -> grpc.StatusCode | None:
    if isinstance(error, BindError):
        return _binding(error)
    return next((code for kind, code in _CODES if isinstance(error, kind)), None)


def _binding(error: BindError) -> grpc.StatusCode:
    if not error.definite:
        return grpc.StatusCode.UNAVAILABLE
    return grpc.StatusCode.NOT_FOUND if error.status == 404 else grpc.StatusCode.ABORTED


class GrpcServer:
    """One port."""

    def __init__(
        self,
        service: Service,
        listen: str,
        failed: Failed,
        proof: grpc.ServerCredentials | None = None,
    ) -> None:
        """Take the port.

        Args:
            service: that answers.
            listen: ``unix:PATH`` or ``HOST:PORT``.
            failed: told of errors that nobody foresaw.
            proof: of who we are and who asks; where it is missing, a host must be this machine's.

        Raises:
            OSError: it is taken, or cannot be had.
        """
        self._service = service
        self._path = Path(listen.removeprefix(UNIX)) if listen.startswith(UNIX) else None
        self._health = HealthServicer()
        self._server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        pb_grpc.add_DragomanServicer_to_server(  # type: ignore[no-untyped-call]
            Servicer(Calls(service), failed), self._server
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
        self.port = self._listen(listen, proof)

    async def start(self) -> None:
        """Begin to answer; health says no until the service is ready."""
        await self._tell(ready=False)
        await self._server.start()

    async def run(self) -> NoReturn:
        """Keep the health up to date."""
        ready = False
        while True:
            now = not self._service.readiness.awaited
            if now != ready:
                ready = now
                await self._tell(ready=ready)
            await asyncio.sleep(POLL)

    async def stop(self) -> None:
        """Let calls in progress end, and give the port back."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(LAST)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    async def _tell(self, *, ready: bool) -> None:
        status = health_pb2.HealthCheckResponse
        for name in ("", SERVICE):
            await self._health.set(name, status.SERVING if ready else status.NOT_SERVING)

    def _listen(self, listen: str, proof: grpc.ServerCredentials | None) -> int:
        if self._path is not None:
            _check_free(self._path)
        elif proof is None and not is_local(listen):
            raise OSError(f"grpc: {listen}: must be a loopback address, or have grpcTls")
        earlier = os.umask(0o177)  # the socket is its owner's
        try:
            where = listen if self._path is None else f"{UNIX}{self._path.absolute()}"
            port = (
                self._server.add_insecure_port(where)
                if proof is None
                else self._server.add_secure_port(where, proof)
            )
        except RuntimeError as error:
            raise OSError(f"grpc: {listen}: cannot be listened on: {error}") from error
        finally:
            os.umask(earlier)
        return port


def _check_free(path: Path) -> None:
    """See that no other service answers on a socket; one that is left over is taken.

    Raises:
        OSError: another one does, or something else is there.
    """
    if not path.exists():
        return
    if not path.is_socket():
        raise OSError(f"grpc: unix:{path}: is there already, and is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise OSError(f"grpc: unix:{path}: another service answers there")


def default_socket(environment: Mapping[str, str]) -> Path:
    """Where the socket is if nothing is said, in a directory that is made for it.

    Source: XDG Base Directory Specification 0.8, XDG_RUNTIME_DIR; for daemons, Filesystem
    Hierarchy Standard 3.0, section 3.15.

    Raises:
        OSError: the directory cannot be made.
    """
    folder = Path(environment.get("XDG_RUNTIME_DIR") or "/run") / "dragoman"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / "grpc.sock"

"""One connection to the runtime: what it says, and what is answered. No socket and no clock.

Bytes go in; bytes that must be sent and events come out. Only the creation of a container is left
to the caller: it answers with ``adjusted`` or ``failed``, once. Rules of the runtime
(containerd/nri pkg/adaptation/plugin.go):

* it may call before it has answered the registration;
* a Synchronize in pieces wants ``more`` echoed, and nothing else in that answer;
* an unknown method must be answered with "unimplemented";
* whoever answers too late, or on another stream, is cut off, and the container starts untouched.
"""

from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct

from adapters.node.nri import messages, mux, ttrpc
from adapters.node.nri.model import (
    PLUGIN_SERVICE,
    RUNTIME_SERVICE,
    Adjustment,
    NriContainer,
    NriEvent,
    NriEventMask,
    PodSandbox,
    RuntimeInfo,
)
from adapters.node.nri.protobuf import ProtobufError

EVENTS = NriEventMask.CREATE_CONTAINER | NriEventMask.REMOVE_CONTAINER

REGISTRATION = 15_000_000_000
"""Nanoseconds to wait for a registration: the runtime serves one plugin after the other."""

MANY = 100_000
"""Containers and pods of one node that are more than a node can have."""

_REGISTER_STREAM = 1

_NOTHING_TO_DO = frozenset(
    {
        "PostCreateContainer",
        "PostStartContainer",
        "PostUpdateContainer",
        "PostUpdatePodSandbox",
        "RemovePodSandbox",
        "RunPodSandbox",
        "Shutdown",
        "StartContainer",
        "StopContainer",
        "StopPodSandbox",
        "UpdateContainer",
        "UpdatePodSandbox",
    }
)


class Stage(Enum):
    """How far the connection has come."""

    NEW = "new"
    REGISTERING = "registering"
    CONFIGURED = "configured"
    ACTIVE = "active"
    """From here on the runtime asks for every container."""


class RegistrationRejected(Struct, frozen=True):
    """The runtime does not want this plugin."""

    problem: str


class Configured(Struct, frozen=True):
    """The runtime has told who it is."""

    runtime: RuntimeInfo


class Synchronized(Struct, frozen=True):
    """The plugin is active; this is what ran before.

    Attributes:
        timeout: nanoseconds within which the answer had to be sent; 0 where it was not said.
    """

    pods: tuple[PodSandbox, ...]
    containers: tuple[NriContainer, ...]
    timeout: int = 0


class Creating(Struct, frozen=True):
    """A container is to be created; the answer goes to ``stream``.

    Attributes:
        timeout: nanoseconds after which the runtime gives up; 0 where it does not say.
    """

    stream: int
    pod: PodSandbox
    container: NriContainer
    timeout: int = 0


class Removed(Struct, frozen=True):
    """A container is gone."""

    pod: PodSandbox
    container: NriContainer


Happening = RegistrationRejected | Configured | Synchronized | Creating | Removed


class FeedResult(Struct, frozen=True):
    """What came of some bytes.

    Attributes:
        send: to be sent now.
        happened: in order.
    """

    send: bytes = b""
    happened: tuple[Happening, ...] = ()


@dataclass(slots=True)
class Session:
    """The plugin's side of one connection.

    Attributes:
        name: of the plugin.
        index: two digits; plugins are asked in ascending order.
        stage: how far it has come.
    """

    name: str
    index: str
    stage: Stage = Stage.NEW
    _mux: mux.Mux = field(default_factory=mux.Mux)
    _calls: ttrpc.MessageReader = field(default_factory=ttrpc.MessageReader)
    _answers: ttrpc.MessageReader = field(default_factory=ttrpc.MessageReader)
    _pods: list[PodSandbox] = field(default_factory=list[PodSandbox])
    _containers: list[NriContainer] = field(default_factory=list[NriContainer])
    _open: set[int] = field(default_factory=set[int])

    def register(self) -> bytes:
        """The first bytes to send."""
        self.stage = Stage.REGISTERING
        request = ttrpc.RpcRequest(
            RUNTIME_SERVICE,
            "RegisterPlugin",
            messages.register(self.name, self.index),
            REGISTRATION,
        )
        data = ttrpc.encode_request(request)
        sent = ttrpc.RpcMessage(_REGISTER_STREAM, ttrpc.REQUEST, data)
        return mux.frames(mux.RUNTIME, ttrpc.encode(sent))

    def feed(self, data: bytes) -> FeedResult:
        """Take what has arrived.

        Raises:
            MuxError: it is no frame; the connection must be closed.
            TtrpcError: it is no message; the connection must be closed.
        """
        out: list[bytes] = []
        happened: list[Happening] = []
        for frame in self._mux.feed(data):
            if frame.connection == mux.PLUGIN:
                for message in self._calls.feed(frame.payload):
                    if message.kind == ttrpc.REQUEST:
                        self._called(message, out, happened)
            elif frame.connection == mux.RUNTIME:
                for message in self._answers.feed(frame.payload):
                    if message.kind == ttrpc.RESPONSE and message.stream == _REGISTER_STREAM:
                        happened += _registered(message.data)
        return FeedResult(b"".join(out), tuple(happened))

    def adjusted(self, stream: int, adjustment: Adjustment) -> bytes:
        """The answer to ``Creating``; nothing where it was answered already.

        An adjustment that is too large for the runtime is answered as an error.
        """
        payload = messages.created(adjustment)
        if len(payload) > ttrpc.LARGEST_SENT // 2:
            return self.failed(stream, ttrpc.INTERNAL, "the adjustment is too large")
        return self._close(stream, ttrpc.RpcResponse(payload))

    def failed(self, stream: int, code: int, problem: str) -> bytes:
        """The answer to ``Creating`` that keeps the container from starting."""
        return self._close(stream, ttrpc.RpcResponse(code=code, message=problem))

    def _close(self, stream: int, response: ttrpc.RpcResponse) -> bytes:
        if stream not in self._open:
            return b""
        self._open.discard(stream)
        return _answer(stream, response)

    def _called(
        self, message: ttrpc.RpcMessage, out: list[bytes], happened: list[Happening]
    ) -> None:
        try:
            request = ttrpc.decode_request(message.data)
            found = self._call(message.stream, request)
        except ProtobufError as error:
            out.append(
                _answer(
                    message.stream,
                    ttrpc.RpcResponse(code=ttrpc.INVALID_ARGUMENT, message=str(error)),
                )
            )
            return
        except _UnknownError as error:
            response = ttrpc.RpcResponse(code=ttrpc.UNIMPLEMENTED, message=f"there is no {error}")
            out.append(_answer(message.stream, response))
            return
        if isinstance(found, Creating):
            self._open.add(message.stream)
            happened.append(found)
            return
        payload, told = found
        out.append(_answer(message.stream, ttrpc.RpcResponse(payload)))
        happened += told

    def _call(
        self, stream: int, request: ttrpc.RpcRequest
    ) -> Creating | tuple[bytes, tuple[Happening, ...]]:
        if request.service != PLUGIN_SERVICE:
            raise _UnknownError(request.service)
        match request.method:
            case "CreateContainer":
                pod, container = messages.subject(request.payload)
                return Creating(stream, pod, container, request.timeout)
            case "Configure":
                self.stage = Stage.CONFIGURED
                runtime = messages.configured(request.payload)
                return messages.subscribe(EVENTS), (Configured(runtime),)
            case "Synchronize":
                return self._synchronize(request)
            case "StateChange":
                event, pod, container = messages.state_change(request.payload)
                gone = event == NriEvent.REMOVE_CONTAINER
                return b"", ((Removed(pod, container),) if gone else ())
            case "RemoveContainer":
                return b"", (Removed(*messages.subject(request.payload)),)
            case method if method in _NOTHING_TO_DO:
                return b"", ()
            case method:
                raise _UnknownError(method)

    def _synchronize(self, request: ttrpc.RpcRequest) -> tuple[bytes, tuple[Happening, ...]]:
        pods, containers, more = messages.synchronize(request.payload)
        self._pods += pods
        self._containers += containers
        if len(self._pods) + len(self._containers) > MANY:
            raise ProtobufError(f"more than {MANY} pods and containers")
        if more:
            return messages.synchronized(more=True), ()
        told = Synchronized(tuple(self._pods), tuple(self._containers), request.timeout)
        self._pods, self._containers = [], []
        self.stage = Stage.ACTIVE
        return messages.synchronized(more=False), (told,)


class _UnknownError(LookupError):
    """A service or method that the plugin has not."""


def _registered(data: bytes) -> tuple[Happening, ...]:
    try:
        response = ttrpc.decode_response(data)
    except ProtobufError as error:
        return (RegistrationRejected(str(error)),)
    return (
        (RegistrationRejected(response.message or f"code {response.code}"),)
        if response.code
        else ()
    )


def _answer(stream: int, response: ttrpc.RpcResponse) -> bytes:
    data = ttrpc.encode_response(response)
    return mux.frames(mux.PLUGIN, ttrpc.encode(ttrpc.RpcMessage(stream, ttrpc.RESPONSE, data)))

"""The plugin's side of one NRI connection: bytes in, events and bytes to send out.

No socket and no clock. ``stage.py`` has the calls that are allowed, and when. Only CreateContainer
is answered later, by ``reply`` or ``reply_error``, exactly once. Rules of the runtime
(containerd/nri pkg/adaptation/plugin.go):

* a Synchronize in pieces expects ``more`` echoed, and nothing else in that answer;
* an unknown method must be answered with "unimplemented";
* a plugin that answers too late, or on another stream, is disconnected, and the container starts
  without an adjustment.
"""

from dataclasses import dataclass, field

from msgspec import Struct

from adapters.agent.nri import messages, mux, ttrpc
from adapters.agent.nri.model import (
    PLUGIN_SERVICE,
    RUNTIME_SERVICE,
    Adjustment,
    NriContainer,
    NriEvent,
    NriEventMask,
    PodSandbox,
    RuntimeInfo,
)
from adapters.agent.nri.protobuf import ProtobufError
from adapters.agent.nri.stage import CALLS, SYNCHRONIZED, OutOfOrderError, Stage, next_stage

EVENTS = NriEventMask.CREATE_CONTAINER | NriEventMask.STOP_CONTAINER | NriEventMask.REMOVE_CONTAINER

REGISTRATION_TIMEOUT = 15_000_000_000
"""Nanoseconds until a registration fails: the runtime registers one plugin after the other."""

MAX_PODS_AND_CONTAINERS = 100_000
"""A Synchronize with more pods and containers is rejected: no node has as many."""

_REGISTER_STREAM = 1


class RegistrationRejected(Struct, frozen=True):
    """The runtime rejected the registration of this plugin."""

    reason: str


class Configured(Struct, frozen=True):
    """The runtime has identified itself."""

    runtime: RuntimeInfo


class Synchronized(Struct, frozen=True):
    """The plugin is active; these pods and containers existed before.

    Attributes:
        timeout: nanoseconds within which the answer had to be sent; 0 where the runtime set none.
    """

    pods: tuple[PodSandbox, ...]
    containers: tuple[NriContainer, ...]
    timeout: int = 0


class Creating(Struct, frozen=True):
    """The runtime is creating a container and waits for the answer on ``stream``.

    Attributes:
        timeout: nanoseconds after which the runtime gives up; 0 where it set none.
    """

    stream: int
    pod: PodSandbox
    container: NriContainer
    timeout: int = 0


class Stopped(Struct, frozen=True):
    """A container's first process has ended, or the runtime undoes the container's creation.

    Undoing, the runtime gives only the container's id (containerd internal/cri/nri
    nri_api_linux.go, UndoCreateContainer).
    """

    pod: PodSandbox
    container: NriContainer


class Removed(Struct, frozen=True):
    """The runtime has removed a container."""

    pod: PodSandbox
    container: NriContainer


ContainerEvent = Synchronized | Creating | Stopped | Removed
"""What happens to containers."""

SessionEvent = RegistrationRejected | Configured | ContainerEvent


class FeedResult(Struct, frozen=True):
    """What the session made of some bytes.

    Attributes:
        send: bytes that the caller must send now.
        events: in the order in which they happened.
    """

    send: bytes = b""
    events: tuple[SessionEvent, ...] = ()


@dataclass(slots=True)
class Session:
    """The plugin's side of one connection.

    Attributes:
        name: of the plugin.
        index: two digits; the runtime calls plugins in ascending order.
        stage: how far the connection has come; only ``_advance`` sets it.
    """

    name: str
    index: str
    stage: Stage = Stage.NEW
    _mux: mux.Mux = field(default_factory=mux.Mux)
    _calls: ttrpc.MessageReader = field(default_factory=ttrpc.MessageReader)
    _answers: ttrpc.MessageReader = field(default_factory=ttrpc.MessageReader)
    _pods: list[PodSandbox] = field(default_factory=list[PodSandbox])
    _containers: list[NriContainer] = field(default_factory=list[NriContainer])
    _unanswered: set[int] = field(default_factory=set[int])

    def register(self) -> bytes:
        """Return the first bytes to send.

        Raises:
            OutOfOrderError: this connection is registered already.
        """
        self._advance("RegisterPlugin")
        request = ttrpc.RpcRequest(
            RUNTIME_SERVICE,
            "RegisterPlugin",
            messages.encode_register(self.name, self.index),
            REGISTRATION_TIMEOUT,
        )
        data = ttrpc.encode_request(request)
        sent = ttrpc.RpcMessage(_REGISTER_STREAM, ttrpc.REQUEST, data)
        return mux.frames(mux.RUNTIME, ttrpc.encode(sent))

    def feed(self, data: bytes) -> FeedResult:
        """Process the bytes that have arrived.

        Raises:
            MuxError: not a frame; the caller must close the connection.
            TtrpcError: not a message; the caller must close the connection.
        """
        out: list[bytes] = []
        events: list[SessionEvent] = []
        for frame in self._mux.feed(data):
            if frame.connection == mux.PLUGIN:
                for message in self._calls.feed(frame.payload):
                    if message.kind == ttrpc.REQUEST:
                        answer, happened = self._answer_call(message)
                        out.append(answer)
                        events += happened
            elif frame.connection == mux.RUNTIME:
                for message in self._answers.feed(frame.payload):
                    if message.kind == ttrpc.RESPONSE and message.stream == _REGISTER_STREAM:
                        try:
                            registered = ttrpc.decode_response(message.data)
                        except ProtobufError as error:
                            events.append(RegistrationRejected(str(error)))
                            continue
                        if registered.code:
                            reason = registered.message or f"code {registered.code}"
                            events.append(RegistrationRejected(reason))
        return FeedResult(b"".join(out), tuple(events))

    def reply(self, stream: int, adjustment: Adjustment) -> bytes:
        """Return the answer to ``Creating``; empty where the stream is answered already.

        An adjustment that is too large for the runtime is answered as an error.
        """
        payload = messages.encode_create_container_response(adjustment)
        if len(payload) > ttrpc.MAX_SENT // 2:
            return self.reply_error(stream, ttrpc.INTERNAL, "the adjustment is too large")
        return self._answer_once(stream, ttrpc.RpcResponse(payload))

    def reply_error(self, stream: int, code: int, problem: str) -> bytes:
        """Return the answer to ``Creating`` that keeps the container from starting."""
        return self._answer_once(stream, ttrpc.RpcResponse(code=code, message=problem))

    def _answer_once(self, stream: int, response: ttrpc.RpcResponse) -> bytes:
        if stream not in self._unanswered:
            return b""
        self._unanswered.discard(stream)
        return _answer(stream, response)

    def _answer_call(self, message: ttrpc.RpcMessage) -> tuple[bytes, tuple[SessionEvent, ...]]:
        """Return the answer to a call of the runtime, and what the call reports.

        ``Creating`` is answered later: its answer is empty here.
        """
        stream = message.stream
        try:
            found = self._call(stream, ttrpc.decode_request(message.data))
        except ProtobufError as error:
            return _error(stream, ttrpc.INVALID_ARGUMENT, str(error)), ()
        except _UnknownCallError as error:
            return _error(stream, ttrpc.UNIMPLEMENTED, f"not implemented: {error}"), ()
        except OutOfOrderError as error:
            return _error(stream, ttrpc.FAILED_PRECONDITION, str(error)), ()
        if isinstance(found, Creating):
            self._unanswered.add(stream)
            return b"", (found,)
        payload, happened = found
        return _answer(stream, ttrpc.RpcResponse(payload)), happened

    def _call(
        self, stream: int, request: ttrpc.RpcRequest
    ) -> Creating | tuple[bytes, tuple[SessionEvent, ...]]:
        if request.service != PLUGIN_SERVICE:
            raise _UnknownCallError(request.service)
        if request.method not in CALLS:
            raise _UnknownCallError(request.method)
        self._advance(request.method)
        match request.method:
            case "CreateContainer":
                pod, container = messages.decode_pod_and_container(request.payload)
                return Creating(stream, pod, container, request.timeout)
            case "Configure":
                runtime = messages.decode_configure(request.payload)
                return messages.encode_configure_response(EVENTS), (Configured(runtime),)
            case "Synchronize":
                return self._synchronize(request)
            case "StateChange":
                event, pod, container = messages.decode_state_change(request.payload)
                removed = event == NriEvent.REMOVE_CONTAINER
                return b"", ((Removed(pod, container),) if removed else ())
            case "StopContainer":
                return b"", (Stopped(*messages.decode_pod_and_container(request.payload)),)
            case "RemoveContainer":
                return b"", (Removed(*messages.decode_pod_and_container(request.payload)),)
            case _:
                return b"", ()

    def _synchronize(self, request: ttrpc.RpcRequest) -> tuple[bytes, tuple[SessionEvent, ...]]:
        pods, containers, more = messages.decode_synchronize(request.payload)
        self._pods += pods
        self._containers += containers
        if len(self._pods) + len(self._containers) > MAX_PODS_AND_CONTAINERS:
            raise ProtobufError(f"more than {MAX_PODS_AND_CONTAINERS} pods and containers")
        if more:
            return messages.encode_synchronize_response(more=True), ()
        event = Synchronized(tuple(self._pods), tuple(self._containers), request.timeout)
        self._pods, self._containers = [], []
        self._advance(SYNCHRONIZED)
        return messages.encode_synchronize_response(more=False), (event,)

    def _advance(self, call: str) -> None:
        self.stage = next_stage(self.stage, call)


class _UnknownCallError(LookupError):
    """A service or method that the plugin does not implement."""


def _error(stream: int, code: int, problem: str) -> bytes:
    return _answer(stream, ttrpc.RpcResponse(code=code, message=problem))


def _answer(stream: int, response: ttrpc.RpcResponse) -> bytes:
    data = ttrpc.encode_response(response)
    return mux.frames(mux.PLUGIN, ttrpc.encode(ttrpc.RpcMessage(stream, ttrpc.RESPONSE, data)))

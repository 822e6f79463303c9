"""The plugin's side of one NRI connection: bytes in, events and bytes to send out.

No socket and no clock. Only CreateContainer is answered later, by ``reply`` or ``reply_error``,
exactly once. Rules of the runtime (containerd/nri pkg/adaptation/plugin.go):

* a Synchronize in pieces expects ``more`` echoed, and nothing else in that answer;
* an unknown method must be answered with "unimplemented";
* a plugin that answers too late, or on another stream, is disconnected, and the container starts
  without an adjustment.
"""

from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct

from adapters.agent.nri import messages, model, ttrpc
from adapters.agent.nri.protobuf import ProtobufError

EVENTS = (
    model.NriEventMask.CREATE_CONTAINER
    | model.NriEventMask.STOP_CONTAINER
    | model.NriEventMask.REMOVE_CONTAINER
)

REGISTRATION_TIMEOUT = 15_000_000_000
"""Nanoseconds until a registration fails: the runtime registers one plugin after the other."""

MAX_PODS_AND_CONTAINERS = 100_000
"""A Synchronize with more pods and containers is rejected: no node has as many."""

_REGISTER_STREAM = 1


_IGNORED = frozenset(
    {
        "PostCreateContainer",
        "PostStartContainer",
        "PostUpdateContainer",
        "PostUpdatePodSandbox",
        "RemovePodSandbox",
        "RunPodSandbox",
        "StartContainer",
        "StopPodSandbox",
        "UpdateContainer",
        "UpdatePodSandbox",
    }
)
"""Calls about pods and containers that the plugin answers with nothing."""


class Stage(Enum):
    """How far the connection has come; the value completes "while the plugin is"."""

    NEW = "new"
    REGISTERING = "registering"
    CONFIGURED = "configured"
    SYNCHRONIZING = "synchronizing"
    ACTIVE = "active"
    """The runtime calls the plugin for every container."""


SYNCHRONIZED = "the last piece of Synchronize"

_ACTIVE_CALLS = _IGNORED | {"CreateContainer", "RemoveContainer", "StateChange", "StopContainer"}

_TRANSITIONS = {
    (Stage.NEW, "RegisterPlugin"): Stage.REGISTERING,
    (Stage.REGISTERING, "Configure"): Stage.CONFIGURED,
    (Stage.CONFIGURED, "Synchronize"): Stage.SYNCHRONIZING,
    (Stage.SYNCHRONIZING, "Synchronize"): Stage.SYNCHRONIZING,
    (Stage.SYNCHRONIZING, SYNCHRONIZED): Stage.ACTIVE,
    **{(Stage.ACTIVE, call): Stage.ACTIVE for call in _ACTIVE_CALLS},
    **{(stage, "Shutdown"): stage for stage in Stage},
}
"""The only calls that are allowed in a stage; any other is answered with an error.

The order is containerd's (containerd/nri pkg/adaptation/adaptation.go, acceptPluginConnections, and
plugin.go, start, configure and synchronize): it may call before it has answered the registration;
it configures a plugin once; it synchronizes it once, possibly in pieces; only then it adds the
plugin to those that it calls for pods and containers.
"""

CALLS = _ACTIVE_CALLS | {"Configure", "Synchronize", "Shutdown"}
"""What the runtime may call at all."""


class OutOfOrderError(RuntimeError):
    """A call that the runtime never makes in this stage."""


def next_stage(stage: Stage, call: str) -> Stage:
    """Return the stage after a call.

    Raises:
        OutOfOrderError: the call is not allowed in this stage.
    """
    following = _TRANSITIONS.get((stage, call))
    if following is None:
        raise OutOfOrderError(f"{call} is not allowed while the plugin is {stage.value}")
    return following


class RegistrationRejected(Struct, frozen=True):
    """The runtime rejected the registration of this plugin."""

    reason: str


class Configured(Struct, frozen=True):
    """The runtime has identified itself."""

    runtime: model.RuntimeInfo


class Synchronized(Struct, frozen=True):
    """The plugin is active; these pods and containers existed before.

    Attributes:
        timeout: nanoseconds within which the answer had to be sent; 0 where the runtime set none.
    """

    pods: tuple[model.PodSandbox, ...]
    containers: tuple[model.NriContainer, ...]
    timeout: int = 0


class Creating(Struct, frozen=True):
    """The runtime is creating a container and waits for the answer on ``stream``.

    Attributes:
        timeout: nanoseconds after which the runtime gives up; 0 where it set none.
    """

    stream: int
    pod: model.PodSandbox
    container: model.NriContainer
    timeout: int = 0


class Stopped(Struct, frozen=True):
    """A container's first process has ended, or the runtime undoes the container's creation.

    Undoing, the runtime gives only the container's id (containerd internal/cri/nri
    nri_api_linux.go, UndoCreateContainer).
    """

    pod: model.PodSandbox
    container: model.NriContainer


class Removed(Struct, frozen=True):
    """The runtime has removed a container."""

    pod: model.PodSandbox
    container: model.NriContainer


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
        index: two digits; the runtime calls plugins in ascending order.
        stage: how far the connection has come; only ``_advance`` sets it.
    """

    name: str
    index: str
    stage: Stage = Stage.NEW
    _mux: ttrpc.Mux = field(default_factory=ttrpc.Mux)
    _calls: ttrpc.MessageReader = field(default_factory=ttrpc.MessageReader)
    _answers: ttrpc.MessageReader = field(default_factory=ttrpc.MessageReader)
    _pods: list[model.PodSandbox] = field(default_factory=list[model.PodSandbox])
    _containers: list[model.NriContainer] = field(default_factory=list[model.NriContainer])
    _unanswered: set[int] = field(default_factory=set[int])

    def register(self) -> bytes:
        """Return the first bytes to send.

        Raises:
            OutOfOrderError: this connection is registered already.
        """
        self._advance("RegisterPlugin")
        request = ttrpc.RpcRequest(
            model.RUNTIME_SERVICE,
            "RegisterPlugin",
            messages.encode_register(self.name, self.index),
            REGISTRATION_TIMEOUT,
        )
        sent = ttrpc.RpcMessage(_REGISTER_STREAM, ttrpc.REQUEST, ttrpc.encode_request(request))
        return ttrpc.frames(ttrpc.RUNTIME, ttrpc.encode(sent))

    def feed(self, data: bytes) -> FeedResult:
        """Process the bytes that have arrived.

        Raises:
            MuxError: not a frame; the caller must close the connection.
            TtrpcError: not a message; the caller must close the connection.
        """
        out: list[bytes] = []
        events: list[SessionEvent] = []
        for frame in self._mux.feed(data):
            if frame.connection == ttrpc.PLUGIN:
                for message in self._calls.feed(frame.payload):
                    if message.kind == ttrpc.REQUEST:
                        answer, happened = self._answer_call(message)
                        out.append(answer)
                        events += happened
            elif frame.connection == ttrpc.RUNTIME:
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

    def reply(self, stream: int, adjustment: model.Adjustment) -> bytes:
        """Return the answer to ``Creating``; empty where the stream is answered already.

        An adjustment that is too large for the runtime is answered as an error.
        """
        payload = messages.encode_create_container_response(adjustment)
        if len(payload) > ttrpc.MAX_SENT // 2:
            return self.reply_error(stream, ttrpc.INTERNAL, "the adjustment is too large")
        return self._answer_once(stream, payload)

    def reply_error(self, stream: int, code: int, problem: str) -> bytes:
        """Return the answer to ``Creating`` that keeps the container from starting."""
        return self._answer_once(stream, b"", code, problem)

    def _answer_once(self, stream: int, payload: bytes, code: int = 0, problem: str = "") -> bytes:
        if stream not in self._unanswered:
            return b""
        self._unanswered.discard(stream)
        return _answer(stream, payload, code, problem)

    def _answer_call(self, message: ttrpc.RpcMessage) -> tuple[bytes, tuple[SessionEvent, ...]]:
        """Return a call's answer and event; empty for ``Creating``, which is answered later."""
        stream, answer = message.stream, b""
        event: SessionEvent | None = None
        try:
            request = ttrpc.decode_request(message.data)
            own = request.service == model.PLUGIN_SERVICE
            if not own or request.method not in CALLS:
                problem = f"not implemented: {request.method if own else request.service}"
                return _answer(stream, b"", ttrpc.UNIMPLEMENTED, problem), ()
            self._advance(request.method)
            match request.method:
                case "CreateContainer":
                    found = messages.decode_pod_and_container(request.payload)
                    self._unanswered.add(stream)
                    return b"", (Creating(stream, *found, request.timeout),)
                case "Configure":
                    event = Configured(messages.decode_configure(request.payload))
                    answer = messages.encode_configure_response(EVENTS)
                case "Synchronize":
                    pods, containers, more = messages.decode_synchronize(request.payload)
                    self._pods += pods
                    self._containers += containers
                    if len(self._pods) + len(self._containers) > MAX_PODS_AND_CONTAINERS:
                        problem = f"more than {MAX_PODS_AND_CONTAINERS} pods and containers"
                        return _answer(stream, b"", ttrpc.INVALID_ARGUMENT, problem), ()
                    answer = messages.encode_synchronize_response(more=more)
                    if not more:
                        self._advance(SYNCHRONIZED)
                        event = Synchronized(
                            tuple(self._pods), tuple(self._containers), request.timeout
                        )
                        self._pods, self._containers = [], []
                case "StateChange":
                    kind, pod, container = messages.decode_state_change(request.payload)
                    if kind == model.NriEvent.REMOVE_CONTAINER:
                        event = Removed(pod, container)
                case "StopContainer":
                    event = Stopped(*messages.decode_pod_and_container(request.payload))
                case "RemoveContainer":
                    event = Removed(*messages.decode_pod_and_container(request.payload))
                case _:
                    pass
        except ProtobufError as error:
            return _answer(stream, b"", ttrpc.INVALID_ARGUMENT, str(error)), ()
        except OutOfOrderError as error:
            return _answer(stream, b"", ttrpc.FAILED_PRECONDITION, str(error)), ()
        return _answer(stream, answer), () if event is None else (event,)

    def _advance(self, call: str) -> None:
        self.stage = next_stage(self.stage, call)


def _answer(stream: int, payload: bytes = b"", code: int = 0, message: str = "") -> bytes:
    data = ttrpc.encode_response(ttrpc.RpcResponse(payload, code, message))
    return ttrpc.frames(ttrpc.PLUGIN, ttrpc.encode(ttrpc.RpcMessage(stream, ttrpc.RESPONSE, data)))

"""ttrpc, containerd's small RPC protocol, on NRI's multiplexer: several streams on one socket.

A frame of the multiplexer is two big-endian 32-bit numbers, connection and length, then the
payload. Frame boundaries mean nothing: each connection is a stream of bytes. Source: containerd/nri
pkg/net/multiplex/mux.go. A message of ttrpc is length and stream (big-endian, 32 bits each), kind
and flags (a byte each), then the data. Source: containerd/ttrpc PROTOCOL.md, request.proto,
channel.go.
"""

from msgspec import Struct

from adapters.agent.nri.protobuf import integer, latest, message, signed, string, text

_NUMBER = 4
"""Bytes of the length field: an unsigned big-endian number."""


class FrameSplitter:
    """Cuts a stream into frames, however the stream arrives."""

    __slots__ = ("_at", "_buffer", "_error", "_header", "_limit", "_what")

    def __init__(self, header: int, at: int, limit: int, what: str, error: type[Exception]) -> None:
        """Start with an empty buffer.

        Args:
            header: size of the header in bytes.
            at: offset of the length field in the header.
            limit: the largest payload that is accepted, in bytes.
            what: a frame's name for the error.
            error: raised for a larger frame.
        """
        self._buffer = bytearray()
        self._header, self._at, self._limit = header, at, limit
        self._what, self._error = what, error

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are complete now, in order, headers included.

        Raises:
            Exception: the ``error``, where a header announces more than the limit.
        """
        buffer = self._buffer
        buffer += data
        found: list[bytes] = []
        place = 0
        while len(buffer) - place >= self._header:
            length = place + self._at
            size = int.from_bytes(buffer[length : length + _NUMBER])
            if size > self._limit:
                raise self._error(f"{self._what} of {size} bytes; the limit is {self._limit}")
            end = place + self._header + size
            if end > len(buffer):
                break
            found.append(bytes(buffer[place:end]))
            place = end
        del buffer[:place]
        return found


PLUGIN = 1
"""The connection on which the runtime calls the plugin."""

RUNTIME = 2
"""The connection on which the plugin calls the runtime."""

MAX_FIRST_FRAME = 4096
"""The peer reads through a buffer of this size and fails if the first frame is larger."""

MAX_FRAME = 32 << 20
"""Bytes of the largest frame that is accepted; containerd 1.7 sends up to 16 MiB."""

_FRAME_HEADER = 8


class MuxError(ValueError):
    """The runtime sent an invalid frame; the connection cannot be used any more."""


class Frame(Struct, frozen=True):
    """A part of one connection's stream."""

    connection: int
    payload: bytes


class Mux:
    """Cuts the socket's bytes into frames."""

    __slots__ = ("_splitter",)

    def __init__(self) -> None:
        self._splitter = FrameSplitter(_FRAME_HEADER, 4, MAX_FRAME, "a frame", MuxError)

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete now, in order.

        Raises:
            MuxError: a frame announces more than ``MAX_FRAME``.
        """
        return [
            Frame(int.from_bytes(each[:4]), each[_FRAME_HEADER:])
            for each in self._splitter.feed(data)
        ]


def frames(connection: int, message: bytes) -> bytes:
    """Return a message in at most two frames, a small one first: the peer's queue holds no more."""
    head, rest = message[:MAX_FIRST_FRAME], message[MAX_FIRST_FRAME:]
    return _frame(connection, head) + (_frame(connection, rest) if rest else b"")


def _frame(connection: int, payload: bytes) -> bytes:
    return connection.to_bytes(4) + len(payload).to_bytes(4) + payload


REQUEST, RESPONSE = 1, 2
"""Kinds of message; NRI never uses 3, stream data."""

MAX_SENT = 4 << 20
"""Bytes of data that the peer accepts in one message."""

MAX_RECEIVED = 32 << 20
"""Bytes of data that the agent accepts; containerd 1.7 sends more than it would accept itself."""

UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
FAILED_PRECONDITION = 9
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
"""gRPC's status codes, as far as the agent uses them; 0 is success."""

_HEADER = 10


class TtrpcError(ValueError):
    """The runtime sent an invalid message; the connection cannot be used any more."""


class RpcMessage(Struct, frozen=True):
    """A request, a response, or a message of another kind.

    Attributes:
        stream: odd, ascending; the response carries that of its request.
        kind: ``REQUEST``, ``RESPONSE`` or another number.
        data: the encoded ``RpcRequest`` or ``RpcResponse``.
    """

    stream: int
    kind: int
    data: bytes


class RpcRequest(Struct, frozen=True):
    """A call.

    Attributes:
        timeout: nanoseconds after which the caller gives up; 0 where it set none.
    """

    service: str
    method: str
    payload: bytes = b""
    timeout: int = 0


class RpcResponse(Struct, frozen=True):
    """An answer.

    Attributes:
        code: 0 for success.
        message: what is wrong, where the code is not 0.
    """

    payload: bytes = b""
    code: int = 0
    message: str = ""


class MessageReader:
    """Cuts one connection's stream into messages."""

    __slots__ = ("_splitter",)

    def __init__(self) -> None:
        self._splitter = FrameSplitter(_HEADER, 0, MAX_RECEIVED, "a message", TtrpcError)

    def feed(self, data: bytes) -> list[RpcMessage]:
        """Return the messages that are complete now, in order.

        Raises:
            TtrpcError: a message announces more than ``MAX_RECEIVED``.
        """
        return [
            RpcMessage(int.from_bytes(each[4:8]), each[8], each[_HEADER:])
            for each in self._splitter.feed(data)
        ]


def encode(sent: RpcMessage) -> bytes:
    """Encode a message as bytes of the stream."""
    return len(sent.data).to_bytes(4) + sent.stream.to_bytes(4) + bytes((sent.kind, 0)) + sent.data


def encode_request(request: RpcRequest) -> bytes:
    """Encode a call as a message's data."""
    return (
        text(1, request.service)
        + text(2, request.method)
        + (message(3, request.payload) if request.payload else b"")
        + integer(4, request.timeout)
    )


def decode_request(data: bytes) -> RpcRequest:
    """Decode the call in a message's data.

    Raises:
        ProtobufError: the data is no such message.
    """
    texts, numbers = latest(data)
    service, method = string(texts.get(1, b"")), string(texts.get(2, b""))
    return RpcRequest(service, method, texts.get(3, b""), max(signed(numbers.get(4, 0)), 0))


def encode_response(response: RpcResponse) -> bytes:
    """Encode an answer as a message's data."""
    status = integer(1, response.code) + text(2, response.message)
    return (message(1, status) if status else b"") + (
        message(2, response.payload) if response.payload else b""
    )


def decode_response(data: bytes) -> RpcResponse:
    """Decode the answer in a message's data.

    Raises:
        ProtobufError: the data is no such message.
    """
    texts, _ = latest(data)
    status, numbers = latest(texts.get(1, b""))
    return RpcResponse(texts.get(2, b""), signed(numbers.get(1, 0)), string(status.get(2, b"")))

"""ttrpc, containerd's small RPC protocol: messages, and the requests and responses in them.

A message is length and stream (big-endian, 32 bits each), kind and flags (a byte each), then the
data. Source: containerd/ttrpc PROTOCOL.md, request.proto, channel.go.
"""

from msgspec import Struct

from adapters.agent.nri.mux import FrameSplitter
from adapters.agent.nri.protobuf import fields, integer, message, nested, signed, string, text

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
        service: full name.
        method: its name.
        payload: the encoded argument.
        timeout: nanoseconds after which the caller gives up; 0 where it set none.
    """

    service: str
    method: str
    payload: bytes = b""
    timeout: int = 0


class RpcResponse(Struct, frozen=True):
    """An answer.

    Attributes:
        payload: the encoded result.
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
            TtrpcError: a message announces more than ``LIMIT``.
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
    service = method = payload = b""
    timeout = 0
    for number, value in fields(data):
        match number, value:
            case 1, bytes():
                service = value
            case 2, bytes():
                method = value
            case 3, bytes():
                payload = value
            case 4, int():
                timeout = signed(value)
            case _:
                pass
    return RpcRequest(string(service), string(method), payload, max(timeout, 0))


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
    payload, code, problem = b"", 0, ""
    for number, value in nested(data):
        if number == 1:
            code, problem = _status(value)
        elif number == 2:
            payload = value
    return RpcResponse(payload, code, problem)


def _status(data: bytes) -> tuple[int, str]:
    code, problem = 0, ""
    for number, value in fields(data):
        match number, value:
            case 1, int():
                code = signed(value)
            case 2, bytes():
                problem = string(value)
            case _:
                pass
    return code, problem

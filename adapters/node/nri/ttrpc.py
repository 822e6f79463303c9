"""containerd's small RPC: messages, and the envelopes of calls and answers.

A message is length and stream (big-endian, 32 bits each), a kind and flags (a byte each), and the
data. Source: containerd/ttrpc PROTOCOL.md, request.proto, channel.go.
"""

from msgspec import Struct

from adapters.node.nri.framing import Chunks
from adapters.node.nri.protobuf import fields, integer, message, nested, signed, string, text

REQUEST, RESPONSE = 1, 2
"""Kinds of message; 3, a piece of a stream, is never used by NRI."""

LARGEST_SENT = 4 << 20
"""Bytes of data that the peer takes in one message."""

LIMIT = 32 << 20
"""Bytes of data that are taken; containerd 1.7 itself sends more than it would take."""

UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = (
    2,
    3,
    4,
    12,
    13,
    14,
)
"""The codes of gRPC, as far as they are used here; 0 is success."""

_HEADER = 10


class TtrpcError(ValueError):
    """The runtime sent what is no message; the connection is of no more use."""


class RpcMessage(Struct, frozen=True):
    """A request, a response, or something of another kind.

    Attributes:
        stream: odd, ascending; the response carries that of its request.
        kind: ``REQUEST``, ``RESPONSE`` or another number.
        data: the envelope.
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
        timeout: nanoseconds after which the caller gives up; 0 where it does not say.
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
    """Finds the messages in one connection's stream."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces = Chunks(_HEADER, 0, LIMIT, "a message", TtrpcError)

    def feed(self, data: bytes) -> list[RpcMessage]:
        """The messages that are complete now, in order.

        Raises:
            TtrpcError: a message announces more than ``LIMIT``.
        """
        return [
            RpcMessage(int.from_bytes(piece[4:8]), piece[8], piece[_HEADER:])
            for piece in self._pieces.feed(data)
        ]


def encode(sent: RpcMessage) -> bytes:
    """A message as it stands on the stream."""
    return len(sent.data).to_bytes(4) + sent.stream.to_bytes(4) + bytes((sent.kind, 0)) + sent.data


def encode_request(request: RpcRequest) -> bytes:
    """The envelope of a call."""
    return (
        text(1, request.service)
        + text(2, request.method)
        + (message(3, request.payload) if request.payload else b"")
        + integer(4, request.timeout)
    )


def decode_request(data: bytes) -> RpcRequest:
    """The call in an envelope.

    Raises:
        ProtobufError: it is none.
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
    """The envelope of an answer."""
    status = integer(1, response.code) + text(2, response.message)
    return (message(1, status) if status else b"") + (
        message(2, response.payload) if response.payload else b""
    )


def decode_response(data: bytes) -> RpcResponse:
    """The answer in an envelope.

    Raises:
        ProtobufError: it is none.
    """
    payload, code, told = b"", 0, ""
    for number, value in nested(data):
        if number == 1:
            code, told = _status(value)
        elif number == 2:
            payload = value
    return RpcResponse(payload, code, told)


def _status(data: bytes) -> tuple[int, str]:
    code, told = 0, ""
    for number, value in fields(data):
        match number, value:
            case 1, int():
                code = signed(value)
            case 2, bytes():
                told = string(value)
            case _:
                pass
    return code, told

"""Several byte streams on one socket: NRI's multiplexer below ttrpc.

A frame is two big-endian 32-bit numbers, connection and length, then the payload. Frame boundaries
mean nothing: each connection is a stream of bytes. Source: containerd/nri pkg/net/multiplex/mux.go.
"""

from msgspec import Struct

from adapters.agent.nri.framing import FrameSplitter

PLUGIN = 1
"""The connection on which the runtime calls the plugin."""

RUNTIME = 2
"""The connection on which the plugin calls the runtime."""

MAX_FIRST_FRAME = 4096
"""The peer reads through a buffer of this size and fails if the first frame is larger."""

MAX_FRAME = 32 << 20
"""Bytes of the largest frame that is accepted; containerd 1.7 sends up to 16 MiB."""

_HEADER = 8


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
        self._splitter = FrameSplitter(_HEADER, 4, MAX_FRAME, "a frame", MuxError)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now, in order.

        Raises:
            MuxError: a frame announces more than ``LIMIT``.
        """
        return [
            Frame(int.from_bytes(each[:4]), each[_HEADER:]) for each in self._splitter.feed(data)
        ]


def frames(connection: int, message: bytes) -> bytes:
    """One ttrpc message in at most two frames: a small first one, then all the rest.

    The peer's queue overflows with more frames.
    """
    head, rest = message[:MAX_FIRST_FRAME], message[MAX_FIRST_FRAME:]
    return _frame(connection, head) + (_frame(connection, rest) if rest else b"")


def _frame(connection: int, payload: bytes) -> bytes:
    return connection.to_bytes(4) + len(payload).to_bytes(4) + payload

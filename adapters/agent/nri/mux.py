"""Several byte streams on one socket: NRI's multiplexer below ttrpc.

A frame is two big-endian 32-bit numbers, connection and length, then the payload. Frame boundaries
mean nothing: each connection is a stream of bytes. Source: containerd/nri pkg/net/multiplex/mux.go.
The frames of ttrpc are cut by the same ``FrameSplitter``.
"""

from msgspec import Struct

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
        """Return the frames that are complete now, in order.

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

"""Several byte streams on one socket, as NRI lays ttrpc on it.

A frame is two big-endian 32-bit numbers, connection and length, and the payload. Ends of payloads
mean nothing: each connection is a stream of bytes. Source: containerd/nri pkg/net/multiplex/mux.go.
"""

from msgspec import Struct

from adapters.node.nri.framing import Chunks

PLUGIN = 1
"""The connection on which the runtime calls the plugin."""

RUNTIME = 2
"""The connection on which the plugin calls the runtime."""

FIRST = 4096
"""The peer reads through a buffer of this size and fails if the first frame is larger."""

LIMIT = 32 << 20
"""Bytes of the largest frame that is taken; containerd 1.7 sends up to 16 MiB."""

_HEADER = 8


class MuxError(ValueError):
    """The runtime sent what is no frame; the connection is of no more use."""


class Frame(Struct, frozen=True):
    """A piece of one connection's stream."""

    connection: int
    payload: bytes


class Mux:
    """Finds the frames in what arrives."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces = Chunks(_HEADER, 4, LIMIT, "a frame", MuxError)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now, in order.

        Raises:
            MuxError: a frame announces more than ``LIMIT``.
        """
        return [
            Frame(int.from_bytes(piece[:4]), piece[_HEADER:]) for piece in self._pieces.feed(data)
        ]


def frames(connection: int, message: bytes) -> bytes:
    """One ttrpc message as the peer can take it: the first frame small, all the rest in a second.

    More frames would overflow the peer's queue.
    """
    head, rest = message[:FIRST], message[FIRST:]
    return _frame(connection, head) + (_frame(connection, rest) if rest else b"")


def _frame(connection: int, payload: bytes) -> bytes:
    return connection.to_bytes(4) + len(payload).to_bytes(4) + payload

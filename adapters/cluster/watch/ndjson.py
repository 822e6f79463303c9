"""Splits the chunks of a watch response into lines. No I/O.

aiohttp's own iteration over lines fails beyond 128 KiB of buffered data; objects may be larger, and
kopf splits lines itself for the same reason.
"""

_NEWLINE = b"\n"

# An object is at most 1.5 MiB in etcd, and a watch line is one object in JSON.
LONGEST = 1 << 26


class LineError(ValueError):
    """A line is longer than any object can be."""


class LineSplitter:
    """Splits a stream of bytes; a line without its newline waits for more.

    Attributes:
        waiting: bytes of the unfinished line.
    """

    __slots__ = ("_parts", "waiting")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.waiting = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without newlines and empty lines.

        Raises:
            LineError: the unfinished line is longer than ``LONGEST``.
        """
        first, *rest = chunk.split(_NEWLINE)
        self._parts.append(first)
        self.waiting += len(first)
        if not rest:
            if self.waiting > LONGEST:
                raise LineError(f"a line of more than {LONGEST} bytes")
            return []
        *whole, last = rest
        lines = [b"".join(self._parts), *whole]
        self._parts = [last]
        self.waiting = len(last)
        return [line for line in lines if line.strip()]

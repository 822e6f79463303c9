"""Lines out of chunks, as a watch sends them. No I/O."""

_NEWLINE = b"\n"

# An object is at most 1.5 MiB in etcd, and a watch line is one object in JSON.
LONGEST = 1 << 26


class LineError(ValueError):
    """A line is longer than any object can be."""


class LineSplitter:
    """Splits a stream of bytes; what does not end in a newline waits for more.

    Attributes:
        waiting: bytes of the unfinished line.
    """

    __slots__ = ("_parts", "waiting")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.waiting = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their newlines; empty ones are left out.

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

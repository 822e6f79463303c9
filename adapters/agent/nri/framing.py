"""Frames in a stream of bytes: a header that holds the payload's length, then the payload."""

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
        """The frames that are complete now, in order, headers included.

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

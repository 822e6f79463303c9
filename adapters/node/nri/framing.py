"""Pieces in a stream of bytes, each behind a header that announces its length."""

_NUMBER = 4
"""Bytes of the length: an unsigned, big-endian number."""


class Chunks:
    """Finds the pieces in what arrives, wherever it was cut."""

    __slots__ = ("_at", "_buffer", "_error", "_header", "_limit", "_what")

    def __init__(self, header: int, at: int, limit: int, what: str, error: type[Exception]) -> None:
        """Nothing has arrived yet.

        Args:
            header: its bytes.
            at: where in it the length of what follows stands.
            limit: the largest length that is taken.
            what: a piece is, in words.
            error: raised for a larger one.
        """
        self._buffer = bytearray()
        self._header, self._at, self._limit = header, at, limit
        self._what, self._error = what, error

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces that are complete now, in order, with their headers.

        Raises:
            Exception: the ``error``, where a piece announces more than the limit.
        """
        buffer = self._buffer
        buffer += data
        found: list[bytes] = []
        place = 0
        while len(buffer) - place >= self._header:
            length = place + self._at
            size = int.from_bytes(buffer[length : length + _NUMBER])
            if size > self._limit:
                told = f"{self._what} of {size} bytes is announced; {self._limit} are too many"
                raise self._error(told)
            end = place + self._header + size
            if end > len(buffer):
                break
            found.append(bytes(buffer[place:end]))
            place = end
        del buffer[:place]
        return found

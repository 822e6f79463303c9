"""A file of JSON lines that stays below a size: a full one is renamed, and a new one begins."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from adapters.wire.records import recording

OLDER = ".1"
"""Suffix of the file that was full."""


class RecordingFile:
    """Two files at most. After an error nothing is written any more."""

    def __init__(self, path: Path, most: int, failed: Callable[[OSError], None]) -> None:
        """Replace the file.

        Args:
            path: of the file.
            most: bytes of a file, about.
            failed: called once when the file cannot be written.

        Raises:
            OSError: the file cannot be created.
        """
        self._path, self._most, self._failed = path, most, failed
        self._size = 0
        self._file: BinaryIO | None = path.open("wb")

    @property
    def is_open(self) -> bool:
        """Whether lines are still written."""
        return self._file is not None

    @property
    def is_full(self) -> bool:
        """Whether a new file should begin before the next decision."""
        return self.is_open and self._size > self._most

    def write(self, line: recording.Line) -> None:
        """Write a line, so that a process that dies now has written it."""
        if self._file is None:
            return
        text = recording.ENCODER.encode(line) + b"\n"
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            self._stop(error)
        self._size += len(text)

    def turn_over(self) -> None:
        """Rename the file, and begin an empty one."""
        self.close()
        try:
            self._path.replace(self._path.with_name(self._path.name + OLDER))
            self._file = self._path.open("wb")
        except OSError as error:
            self._stop(error)
        self._size = 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _stop(self, error: OSError) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()
        self._failed(error)

"""Reads the texts of files, folders and standard input."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

STDIN = "-"
"""The name of standard input."""

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
"""Files that are read from a folder."""

LARGEST = 1 << 30
"""Bytes of a file; a dump of 5,000 nodes and 50,000 pods has a third of them."""


@dataclass(frozen=True, slots=True)
class InputLocation:
    """A line of a file, counted from 1; 0 for an object that comes from no file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class InputError(ValueError):
    """Input that cannot be used.

    Attributes:
        location: file and line; only a name where no line applies.
        problem: what is wrong.
    """

    def __init__(self, location: InputLocation | str, problem: str) -> None:
        super().__init__(f"{location}: {problem}")
        self.location = location
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Source:
    """One text.

    Attributes:
        name: of the file, for people.
        text: its content.
        named: whether the user named the file itself, not only a folder around it.
    """

    name: str
    text: str
    named: bool


def sources(names: Sequence[str], stdin: BinaryIO) -> Iterator[Source]:
    """Read the texts of files, folders and ``-``, in order; of a folder, sorted by path.

    Raises:
        InputError: a file cannot be read, is not UTF-8 or larger than ``LARGEST``, or a folder has
            no manifests.
    """
    for name in names:
        if name == STDIN:
            yield Source("stdin", _text("stdin", content(stdin, "stdin")), named=True)
        elif Path(name).is_dir():
            files = sorted(
                path for path in Path(name).rglob("*") if path.suffix in SUFFIXES and path.is_file()
            )
            if not files:
                problem = f"no {', '.join(sorted(SUFFIXES))} file in this folder"
                raise InputError(str(Path(name)), problem)
            for path in files:
                yield Source(_name(path), _text(_name(path), _bytes(path)), named=False)
        else:
            yield Source(_name(name), _text(_name(name), _bytes(Path(name))), named=True)


def content(file: BinaryIO, name: str) -> bytes:
    """Return all bytes of an open file.

    Raises:
        InputError: it is larger than ``LARGEST``.
        OSError: it cannot be read.
    """
    found = file.read(LARGEST + 1)
    if len(found) > LARGEST:
        raise InputError(name, f"is larger than {mib(LARGEST)}, the most that a file may have")
    return found


def mib(size: int) -> str:
    """Return a size in MiB, for errors."""
    return f"{size >> 20:,} MiB"


def _name(path: Path | str) -> str:
    """Return the name of a file for people and JSON: bytes that are no UTF-8 are escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return content(file, str(path))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from error


def _text(name: str, found: bytes) -> str:
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = InputLocation(name, found.count(b"\n", 0, error.start) + 1)
        raise InputError(place, "is not UTF-8 text") from error

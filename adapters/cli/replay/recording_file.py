"""Reads the lines of a recording."""

from collections.abc import Callable, Iterator
from pathlib import Path

from adapters.cli.input.document import check_json
from adapters.cli.input.source import InputError, InputLocation, mib
from adapters.wire.decode.decoder import UnreadableError
from adapters.wire.records import recording

LONGEST = 64 << 20
"""Bytes of a line; the nodes of a decision among 5,000 have a hundredth of them."""


def lines(path: Path, warn: Callable[[str], None]) -> Iterator[recording.Line]:
    """The lines, in order. One that the service did not finish, at the end, is left out.

    Args:
        path: of the file.
        warn: called with a sentence where the end is left out.

    Raises:
        InputError: the file cannot be read or is no recording of this format, or a line
            exceeds a limit.
    """
    try:
        with path.open("rb") as file:
            for number, text in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
                if len(text) > LONGEST:
                    problem = f"the line is longer than {mib(LONGEST)}, the most that one may have"
                    raise InputError(InputLocation(str(path), number), problem)
                if not text.endswith(b"\n"):
                    warn(f"{path}:{number}: the line is not complete and is left out")
                    return
                yield _line(InputLocation(str(path), number), text, first=number == 1)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from error


def _line(place: InputLocation, text: bytes, *, first: bool) -> recording.Line:
    check_json(text, place)
    try:
        line = recording.DECODER.decode(text)
    except UnreadableError as error:
        problem = f"is no line of a recording, which decisions.record makes: {error}"
        raise InputError(place, problem) from error
    if first and not isinstance(line, recording.Began):
        raise InputError(place, "is not the first line of a recording; pass the whole file")
    if isinstance(line, recording.Began) and line.format not in recording.FORMATS:
        problem = f"has format {line.format}, made by Dragoman {line.version}"
        *others, last = map(str, recording.FORMATS)
        formats = f"{', '.join(others)} and {last}"
        raise InputError(place, f"{problem}; this program reads the formats {formats}")
    return line

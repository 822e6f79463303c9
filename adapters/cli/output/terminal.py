"""What a person sees: standard output as a page, lines beside it, and the progress of long work.

rich is imported where a stream is a terminal.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Self, TextIO, TypeVar

import typer

from adapters.cli.output.page import TextPage, unpainted
from adapters.wire.visible import visible, visible_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.status import Status

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds for which a person waits without being shown that something happens."""

LONG = 200
"""Pending pods from which on a terminal shows a progress bar."""

_FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables by which a user calls a pipe a terminal. Source: rich 14 console.py, is_terminal."""


def message(kind: str, text: object) -> None:
    """Write one line on standard error: a ``note``, a ``warning``, or ``dragoman`` for an error."""
    typer.echo(f"{kind}: {visible(str(text))}", err=True)


def first_names(names: Sequence[str], most: int = 5) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def write_file(text: str) -> None:
    """Write a changed file of the user: byte by byte to a program, visible on a terminal."""
    typer.echo(visible_lines(text) if sys.stdout.isatty() else text, nl=False)


def may_be_terminal(stream: TextIO) -> bool:
    """Return whether a stream may be a terminal, without an import of rich."""
    return stream.isatty() or any(map(os.environ.get, _FORCING))


def standard_output() -> tuple[TextPage, bool]:
    """Return standard output, and whether it is a terminal."""
    if may_be_terminal(sys.stdout):
        from rich.console import Console

        console = Console(highlight=False, emoji=False, markup=False)
        if console.is_terminal:
            return terminal_page(console), True
    encoding = (sys.stdout.encoding or "utf-8").lower()
    return TextPage(sys.stdout.write, ascii_only=not encoding.startswith("utf")), False


def standard_error() -> "Console | None":
    """Return standard error where it is a terminal."""
    if not may_be_terminal(sys.stderr):
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal else None


def terminal_page(console: "Console") -> TextPage:
    """Return a page of the width and the colors of a console."""
    from rich.text import Text

    @cache
    def codes(style: str) -> tuple[str, str]:
        with console.capture() as captured:
            console.print(Text("|", style=style), end="")
        before, _, after = captured.get().partition("|")
        return before, after

    def paint(text: str, style: str) -> str:
        if not style or not text:
            return text
        before, after = codes(style)
        return f"{before}{text}{after}"

    colored = console.color_system is not None and not console.no_color
    ascii_only = console.options.ascii_only
    return TextPage(
        console.file.write, console.width, paint if colored else unpainted, ascii_only=ascii_only
    )


@contextmanager
def delayed(display: "Progress | Status") -> Iterator[None]:
    """Show something after ``PATIENCE`` until the block ends; nothing where it ends before."""
    lock = threading.Lock()
    ended = started = False

    def start() -> None:
        nonlocal started
        with lock:
            if not ended:
                display.start()
                started = True

    timer = threading.Timer(PATIENCE, start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            ended = True
        if started:
            display.stop()


def progress(pods: Sequence[T], least: int = LONG, verb: str = "Placing") -> Iterable[T]:
    """Iterate over pods, or groups of them; a terminal shows a bar where there are many."""
    console = None if len(pods) < least else standard_error()
    if console is None:
        return pods
    from rich.progress import Progress

    def tracked() -> Iterator[T]:
        bar = Progress(console=console, transient=True)
        with delayed(bar):
            yield from bar.track(pods, description=f"{verb} pods")

    return tracked()


class StepDisplay:
    """Writes lines to standard output, notes to standard error; a context manager.

    A terminal shows below them, while the block runs, what is done now.
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        from rich.status import Status

        console = standard_error()
        self._status = None if console is None else Status("", console=console)

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def line(self, text: str) -> None:
        """Write something that has happened."""
        self._between(lambda: typer.echo(visible(text)))

    def note(self, text: str) -> None:
        """Write something that a person should know."""
        self._between(lambda: message("note", text))

    def now(self, text: str) -> None:
        """Show what is done now."""
        if self._status is not None:
            from rich.markup import escape

            self._status.update(escape(visible(text)))

    def _between(self, write: Callable[[], None]) -> None:
        if self._status is not None:
            self._status.stop()
        write()
        if self._status is not None:
            self._status.start()

"""Steps of work that goes on elsewhere: a line for each, and what is done now on a terminal."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from adapters.cli.output.message import message
from adapters.wire.visible import visible


class StepDisplay:
    """Writes lines to standard output, notes to standard error; a context manager.

    A terminal shows below them, while the block runs, what is done now.
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        console = Console(stderr=True)
        self._status = Status("", console=console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def line(self, text: str) -> None:
        """Something that has happened."""
        self._between(lambda: typer.echo(visible(text)))

    def note(self, text: str) -> None:
        """Something that a person should know."""
        self._between(lambda: message("note", text))

    def now(self, text: str) -> None:
        """What is done now."""
        if self._status is not None:
            self._status.update(escape(visible(text)))

    def _between(self, write: Callable[[], None]) -> None:
        if self._status is not None:
            self._status.stop()
        write()
        if self._status is not None:
            self._status.start()

"""The progress of reading files, on a terminal: a bar with the number of objects."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.cli.output.delayed import delayed
from adapters.cli.output.terminal import may_be_terminal
from adapters.wire.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

STEP = 100
"""Objects between two changes of the bar."""


WIDTH = 20
"""Columns of the bar itself."""

NAMES = 30
"""Columns of the files' names: the number of objects has room on 80."""


class ReadingBar:
    """A bar of ``rich``; ``adapters.cli.input.manifests.ReadingProgress``."""

    def __init__(self, bar: "Progress", task: "TaskID") -> None:
        self._bar = bar
        self._task = task
        self._total = self._read = 0

    def expect(self, objects: int) -> None:
        """More objects will be read."""
        self._total += objects
        self._bar.update(self._task, total=self._total)

    def advance(self) -> None:
        """One of them was read."""
        self._read += 1
        if self._read % STEP == 0 or self._read == self._total:
            self._bar.update(self._task, completed=self._read)


@contextmanager
def reading(files: Sequence[str]) -> Iterator[ReadingBar | None]:
    """A bar on standard error, of what takes long; None where that is no terminal."""
    if not may_be_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (MofNCompleteColumn(), BarColumn(WIDTH), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console, transient=True)
    names = ", ".join(Path(each).name or each for each in files)
    shown = names if len(names) <= NAMES else f"{names[: NAMES - 1]}…"
    with delayed(bar):
        yield ReadingBar(bar, bar.add_task(escape(visible(f"reading {shown}")), total=None))

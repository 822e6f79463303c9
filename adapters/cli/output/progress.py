"""The progress of a long run, on a terminal."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from adapters.cli.output.delayed import delayed
from adapters.cli.output.terminal import may_be_terminal

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

LONG = 200
"""Pending pods from which on a terminal shows a progress bar."""


def progress(pods: Sequence[T], least: int = LONG, verb: str = "Placing") -> Iterable[T]:
    """Iterate over pods, or groups of them; a terminal shows a bar where it takes long.

    Args:
        pods: in order.
        least: of fewer no bar is shown.
        verb: what is done with them.
    """
    if len(pods) < least or not may_be_terminal(sys.stderr):
        return pods
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        return pods
    return _tracked(pods, Progress(console=console, transient=True), f"{verb} pods")


def _tracked(pods: Sequence[T], bar: "Progress", description: str) -> Iterator[T]:
    with delayed(bar):
        yield from bar.track(pods, description=description)

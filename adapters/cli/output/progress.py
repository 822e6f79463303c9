"""The progress of a long run, on a terminal."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from adapters.cli.output.delayed import delayed
from adapters.cli.output.terminal import may_be_terminal
from adapters.wire.kube import Pod

if TYPE_CHECKING:
    from rich.progress import Progress

LONG = 200
"""Pending pods from which on a terminal shows a progress bar."""


def progress(pods: Sequence[Pod]) -> Iterable[Pod]:
    """Iterate over the pods; a terminal shows a bar where they are many and take long."""
    if len(pods) < LONG or not may_be_terminal(sys.stderr):
        return pods
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        return pods
    return _tracked(pods, Progress(console=console, transient=True))


def _tracked(pods: Sequence[Pod], bar: "Progress") -> Iterator[Pod]:
    with delayed(bar):
        yield from bar.track(pods, description="Placing pods")

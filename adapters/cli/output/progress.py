"""The progress of a long run, on a terminal."""

import sys
from collections.abc import Iterable, Sequence

from adapters.cli.output.terminal import may_be_terminal
from adapters.wire.kube import Pod

LONG = 200
"""Pending pods from which on a terminal shows a progress bar."""


def progress(pods: Sequence[Pod]) -> Iterable[Pod]:
    """Iterate over the pods; if they are many and standard error is a terminal, show a bar."""
    if len(pods) < LONG or not may_be_terminal(sys.stderr):
        return pods
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    if not console.is_terminal:
        return pods
    return track(pods, "Placing pods", console=console, transient=True)

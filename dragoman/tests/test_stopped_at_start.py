"""A program that is stopped while it starts ends, also as the first process of a container.

The kernel gives such a process no default action: a signal that it does not handle is ignored. Here
it is because the programs inherit that from the test.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

SECONDS = 20.0
"""A program that has not ended by then has missed the signal."""


@contextmanager
def ignoring(number: signal.Signals) -> Iterator[None]:
    """Let the programs that are started in a block ignore a signal until they handle it."""
    earlier = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, earlier)


@pytest.fixture
def unwritten(tmp_path: Path) -> Path:
    """A file that has no writer, so that a program that reads it does not start."""
    fifo = tmp_path / "dragoman.yaml"
    os.mkfifo(fifo)
    return fifo


@pytest.mark.parametrize(
    "words",
    [
        ("-m", "dragoman", "serve", "--store=memory", "-f"),
        ("-P", "-m", "dragoman.module", "adapters.agent"),
    ],
    ids=["service", "agent"],
)
def test_a_program_that_is_stopped_while_it_starts_ends(
    words: Sequence[str], unwritten: Path
) -> None:
    with ignoring(signal.SIGTERM):
        program = subprocess.Popen([sys.executable, *words, str(unwritten)])  # noqa: S603 - ourselves
    started = time.monotonic()

    while program.poll() is None and time.monotonic() < started + SECONDS:
        program.terminate()
        time.sleep(0.05)

    status = program.poll()
    program.kill()
    program.wait()
    assert status == -signal.SIGTERM

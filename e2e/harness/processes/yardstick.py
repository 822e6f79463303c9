"""How fast the machine is while something else is measured.

The host of a virtual machine has other guests: there the same work takes up to twice the processor
time from one minute to the next. A fixed piece of work that is repeated beside each round shows it,
so that rounds which lie minutes apart can be compared.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

STEPS = 60_000
"""Steps of the piece of work: about 10 ms."""

PAUSE = 0.4
"""Seconds between two pieces, so that they take a fortieth of one processor."""


@dataclass(slots=True)
class Yardstick:
    """A piece of work that was repeated.

    Attributes:
        seconds: processor time of one piece, the mean of all; 0 until the measurement has ended.
    """

    seconds: float = 0.0


@contextmanager
def yardstick() -> Iterator[Yardstick]:
    """Repeat the piece of work in a process of its own while the block runs."""
    found, first = Yardstick(), _piece()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([sys.executable, __file__], stdout=output)
        try:
            yield found
        finally:
            process.terminate()
            process.wait()
        output.seek(0)
        found.seconds = statistics.mean([first, *map(float, output.read().split())])


def _piece() -> float:
    """Do the work; its processor seconds."""
    begun = time.process_time()
    table = {}
    for step in range(STEPS):
        table[step & 4095] = step * step % 7
    return time.process_time() - begun


if __name__ == "__main__":
    while True:
        print(_piece(), flush=True)
        time.sleep(PAUSE)

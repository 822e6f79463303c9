"""Watches one run: when the test process is gone, removes what it left.

It is started by the run with a pipe as its standard input. The pipe ends when the test process
does, however that happens; a run that closed well has removed its folder by then.
"""

import sys
from pathlib import Path

from e2e.harness.processes.reaper import clean


def main() -> None:
    """Wait for the end of the test process."""
    sys.stdin.buffer.read()
    folder = Path(sys.argv[1])
    if folder.exists():
        clean(folder)


if __name__ == "__main__":
    main()

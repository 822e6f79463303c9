"""``dragoman node``: replaces this process by the agent, which needs none of the command."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def become_agent(config: Path) -> NoReturn:
    """Replace this process by ``python -m adapters.agent``; signals and exit status are its own.

    ``-P``: a folder ``dragoman`` in the current directory must not hide the package.
    """
    words = [sys.executable, "-P", "-m", "dragoman.module", "adapters.agent", str(config)]
    os.execv(sys.executable, words)  # noqa: S606  # no shell, and no word of the user is a program

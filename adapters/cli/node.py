"""``dragoman node``: this process becomes the agent, and drops what only the command needs."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def become_agent(config: Path) -> NoReturn:
    """Run ``python -m adapters.node`` in place of this process; its signals and its end stay.

    ``-P``: a folder ``adapters`` where the command is called from is not the package.
    """
    words = [sys.executable, "-P", "-m", "adapters.node", str(config)]
    os.execv(sys.executable, words)  # noqa: S606  # no shell, and nothing in it is a user's word

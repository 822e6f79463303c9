"""``python -m adapters.agent CONFIG``: the agent without the memory of the ``dragoman`` command."""

import asyncio
import sys
from pathlib import Path

from adapters.agent.apiserver.credentials import CredentialsError
from adapters.agent.config import ConfigError, read
from adapters.agent.main import run

BAD_INPUT = 2


def main(words: list[str]) -> int:
    """Run the agent, and return its exit status."""
    if len(words) != 1:
        sys.stderr.write("usage: python -m adapters.agent CONFIG\n")
        return BAD_INPUT
    try:
        config = read(Path(words[0]))
    except ConfigError as error:
        sys.stderr.write(f"dragoman: {error}\n")
        return BAD_INPUT
    try:
        asyncio.run(run(config))
    except (CredentialsError, OSError) as error:
        sys.stderr.write(f"dragoman: {error}\n")
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

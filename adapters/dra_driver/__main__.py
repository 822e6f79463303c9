"""``python -m adapters.dra_driver CONFIG``: the driver, with the agent's configuration."""

import asyncio
import sys
from pathlib import Path

from adapters.agent.apiserver.credentials import CredentialsError
from adapters.agent.config import ConfigError, read
from adapters.dra_driver.main import run
from adapters.dra_driver.slice_server import UnsupportedClusterError

BAD_INPUT = 2


def main(words: list[str]) -> int:
    """Run the driver, and return its exit status."""
    if len(words) != 1:
        sys.stderr.write("usage: python -m adapters.dra_driver CONFIG\n")
        return BAD_INPUT
    try:
        asyncio.run(run(read(Path(words[0]))))
    except (ConfigError, CredentialsError, UnsupportedClusterError, OSError) as error:
        sys.stderr.write(f"dragoman: {error}\n")
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

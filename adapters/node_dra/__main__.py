"""``python -m adapters.node_dra CONFIG``: the driver, with the agent's configuration."""

import asyncio
import sys
from pathlib import Path

from adapters.node.apiserver.credentials import CredentialsError
from adapters.node.config import ConfigError, read
from adapters.node_dra.main import run
from adapters.node_dra.slice_server import UnsupportedClusterError

BAD_INPUT = 2


def main(words: list[str]) -> int:
    """Run the driver, and return its exit status."""
    if len(words) != 1:
        sys.stderr.write("usage: python -m adapters.node_dra CONFIG\n")
        return BAD_INPUT
    try:
        asyncio.run(run(read(Path(words[0]))))
    except (ConfigError, CredentialsError, UnsupportedClusterError, OSError) as error:
        sys.stderr.write(f"dragoman: {error}\n")
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

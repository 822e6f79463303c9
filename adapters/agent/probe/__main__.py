"""``python -m adapters.agent.probe [--config FILE] [-o table|json]``: ``dragoman node probe``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from adapters.agent.config import AgentConfig, ConfigError, read
from adapters.agent.probe.probe import probe
from adapters.agent.probe.text import as_text

BAD_INPUT = 2


def main(words: Sequence[str]) -> int:
    """Probe this machine, print, and return the exit status."""
    parser = argparse.ArgumentParser(prog="dragoman node probe", description=__doc__)
    parser.add_argument("--config", metavar="FILE", help="the agent's; default: its defaults")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args(words)
    try:
        config = AgentConfig() if given.config is None else read(Path(given.config))
    except ConfigError as error:
        sys.stderr.write(f"dragoman: {error}\n")
        return BAD_INPUT
    found = probe(config)
    if given.output == "json":
        plain = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "NodeProbe"}
        fields = {**plain, **msgspec.to_builtins(found), "status": found.exit_status}
        text = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode() + "\n"
    else:
        text = as_text(found)
    sys.stdout.write(text)
    return found.exit_status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

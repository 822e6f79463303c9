"""Runs every check that needs a real card: ``make e2e-gpu``.

Ends with 3, and says why, on a machine without a card; make itself then ends with 2, as after every
command that fails, and prints ``Error 3``.
"""

import subprocess
import sys

import pytest

from adapters.agent.config import AgentConfig
from e2e.gpu.probe import NO_CARD, as_text, probe
from e2e.harness.processes.run import REPOSITORY

CHECKS = ("e2e/tests/gpu", "e2e/tests/node/test_hami_core.py")


def main() -> int:
    """Print what the agent reads here, then run the checks."""
    found = probe(AgentConfig())
    print(as_text(found), flush=True)
    if found.exit_status == NO_CARD:
        print(f"make e2e-gpu: no card: {found.cards.problem or 'the driver lists none'}")
        return NO_CARD
    words = [sys.executable, "-m", "pytest", "-rfEs", "--quiet", *CHECKS]
    checks = subprocess.run(words, cwd=REPOSITORY, check=False).returncode
    return 1 if found.differences or checks != pytest.ExitCode.OK else 0


if __name__ == "__main__":
    raise SystemExit(main())

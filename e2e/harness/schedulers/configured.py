"""The files of ``configs``, for a scheduler of a test: what ``dragoman configure`` makes of them.

The files are used as they are. The command's own options give the test's address, kubeconfig and
profile name; everything else that a scheduler reads is in the file.
"""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from e2e.harness.processes.run import REPOSITORY

CONFIGS = REPOSITORY / "configs"
COMMAND = (sys.executable, "-c", "from adapters.cli.main import main; main()", "configure")


def configured(scheduler: str, file: Path, *options: str) -> str:
    """What the scheduler reads: the configuration, out of its ConfigMap where it is in one.

    Args:
        scheduler: by the name of its program.
        file: the configuration to begin with.
        options: of ``dragoman configure``.

    Raises:
        subprocess.CalledProcessError: the command refuses the file or an option.
    """
    done = subprocess.run(
        [*COMMAND, scheduler, "-f", file, *options],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=60,
    )
    found = yaml.safe_load(done.stdout)
    if found.get("kind") != "ConfigMap":
        return done.stdout
    (text,) = found["data"].values()
    return str(text)

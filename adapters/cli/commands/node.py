"""``dragoman node``: starts the agent."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer


def node(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The node's configuration; see configs/node.yaml."),
    ] = None,
) -> None:
    """Run the node agent: containers get the granted devices of their pods, or do not start.

    Example: dragoman node --config configs/node.yaml

    Exit status: 0 after a signal, 2 bad configuration.
    """
    if config is None:
        raise typer.BadParameter("pass the node's configuration", param_hint="--config")
    # Replaces this process: the agent needs none of the command; signals and exit status are its
    # own. ``-P``: a folder ``dragoman`` in the current directory must not hide the package.
    program = [sys.executable, "-P", "-m", "dragoman.module", "adapters.agent", str(config)]
    os.execv(sys.executable, program)  # noqa: S606  # no shell, no word of the user is a program

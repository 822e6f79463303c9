"""``dragoman node``: starts the agent, or the probe of what it reads."""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class NodeTask(Enum):
    """What ``node`` does instead of running the agent."""

    PROBE = "probe"


class ProbeFormat(Enum):
    """The format of a probe."""

    TABLE = "table"
    JSON = "json"


def node(
    task: Annotated[
        NodeTask | None,
        typer.Argument(
            metavar="probe", help="Print what the agent reads here.", show_default=False
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The node's configuration; see configs/node.yaml."),
    ] = None,
    output: Annotated[
        ProbeFormat | None,
        typer.Option("-o", "--output", metavar="FORMAT", help="Of probe: table or json."),
    ] = None,
) -> None:
    """Run the node agent: containers get the granted devices of their pods, or do not start.

    With probe, it only prints what the agent reads of this machine beside what the driver's own
    tool says, and changes nothing.

    Example: dragoman node --config configs/node.yaml

    Exit status: 0 after a signal, 2 bad configuration; of probe 0, 1 agent and tool differ, 2 bad
    configuration, 3 there is no card.
    """
    if task is None and config is None:
        raise typer.BadParameter("pass the node's configuration", param_hint="--config")
    if task is None and output is not None:
        raise typer.BadParameter("is for probe", param_hint="-o")
    words = ["adapters.agent", str(config)]
    if task is NodeTask.PROBE:
        words = ["adapters.agent.probe", *([] if config is None else ["--config", str(config)])]
        words += [] if output is None else ["-o", output.value]
    # Replaces this process: the agent needs none of the command; signals and exit status are its
    # own. ``-P``: a folder ``dragoman`` in the current directory must not hide the package.
    program = [sys.executable, "-P", "-m", "dragoman.module", *words]
    os.execv(sys.executable, program)  # noqa: S606  # no shell, no word of the user is a program

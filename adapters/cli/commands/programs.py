"""``dragoman node``, ``mover``, ``serve`` and ``demo``: arguments of the programs that run on."""

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


def mover(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="DRAGOMAN_KUBECONFIG",
            help="Default: the account of the pod, else what kubectl reads.",
        ),
    ] = None,
    per_hour: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, envvar="DRAGOMAN_PERHOUR", help="Evictions in any hour, at most."
        ),
    ] = 20,
    per_namespace_per_hour: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            envvar="DRAGOMAN_PERNAMESPACEPERHOUR",
            help="The same, of the pods of one namespace.",
        ),
    ] = 5,
) -> None:
    """Run the mover: it evicts the pods that MovePlans name, one after the other, when ordered.

    The service orders each step, and checks that each pod came back. Without MovePlans, nothing
    happens.

    Example: dragoman mover --per-hour 10

    Exit status: 0 after a signal, 1 a task failed, 2 there are no credentials.
    """
    from adapters.cli.output.terminal import message
    from adapters.mover.main import MoverFailedError, MoverStartError, process_name, serve
    from adapters.mover.plans import MoverBounds, MoverSettings

    bounds = MoverBounds(per_hour, per_namespace_per_hour)
    try:
        serve(MoverSettings(process_name(), bounds), kubeconfig)
    except (MoverStartError, MoverFailedError) as error:
        message("dragoman mover", error)
        raise typer.Exit(1 if isinstance(error, MoverFailedError) else 2) from None


def serve(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings; see configs/sidecar.yaml.")
    ] = None,
    inventory: Annotated[
        list[str] | None,
        typer.Option(
            "--inventory",
            "-f",
            metavar="FILE",
            help="Objects of the kinds that schedule reads, to run without a cluster; repeatable.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="STORE", help="sqlite:PATH, memory or kubernetes; overrides FILE."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Port 0 selects a free one.")
    ] = None,
) -> None:
    """Serve schedulers: one ledger beside stock vc-scheduler, koord-scheduler and kube-scheduler.

    With -f the same service runs without a cluster, to be tried with curl.

    Example: dragoman serve -f cluster.yaml --store memory

    Exit status: 0 after a signal, 2 bad settings, or the port or the store cannot be opened.
    """
    from adapters.cli.serve import serve as run

    run(config, inventory or (), store, listen)


def demo(
    inventory: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="Nodes, and pods to schedule; default: an example."),
    ] = None,
    filename: Annotated[
        str | None, typer.Option("-f", "--filename", metavar="FILE", help="The same.")
    ] = None,
) -> None:
    """Start a service with a SQLite file, and call it as the schedulers do.

    Example: dragoman demo

    Exit status: 0, or 2 for bad input.
    """
    from adapters.cli.demo.command import demo as run

    run(inventory or filename)

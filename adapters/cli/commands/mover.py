"""``dragoman mover``: arguments and exit status."""

from pathlib import Path
from typing import Annotated

import typer

FAILED = 1
BAD_INPUT = 2


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
    from adapters.mover.decision import MoverBounds
    from adapters.mover.main import MoverFailedError, MoverStartError, process_name, serve
    from adapters.mover.mover import MoverSettings

    bounds = MoverBounds(per_hour, per_namespace_per_hour)
    try:
        serve(MoverSettings(process_name(), bounds), kubeconfig)
    except (MoverStartError, MoverFailedError) as error:
        message("dragoman mover", error)
        raise typer.Exit(FAILED if isinstance(error, MoverFailedError) else BAD_INPUT) from None

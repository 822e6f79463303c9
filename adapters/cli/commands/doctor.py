"""``dragoman doctor``: arguments and exit status."""

from enum import Enum
from typing import Annotated

import typer

from adapters.cli.commands.options import Context, Kubeconfig, bad_input


class DoctorFormat(Enum):
    """The format of the findings."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def doctor(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Annotated[
        DoctorFormat,
        typer.Option("-o", "--output", metavar="FORMAT", help="table, json or yaml."),
    ] = DoctorFormat.TABLE,
) -> None:
    """Find what keeps Dragoman from working in a cluster, and what to do about it.

    Reads the cluster and changes nothing: API server, service, schedulers, webhooks, certificates,
    permissions, agents, other injectors.

    Example: dragoman doctor --context production

    Exit status: 0 no findings, 1 warnings or errors, 2 bad input or no answer.
    """
    from adapters.cli.doctor.command import examine, exit_status, observe
    from adapters.cli.doctor.finding import as_plain, show
    from adapters.cli.input.cluster import call, context_of
    from adapters.cli.output.rows import as_json, as_yaml

    with bad_input():
        findings = examine(call(context_of(kubeconfig, context), observe))
    match output:
        case DoctorFormat.TABLE:
            from adapters.cli.output.terminal import standard_output

            page, _ = standard_output()
            show(findings, page)
        case DoctorFormat.JSON:
            typer.echo(as_json(as_plain(findings)), nl=False)
        case DoctorFormat.YAML:
            typer.echo(as_yaml(as_plain(findings)), nl=False)
    raise typer.Exit(exit_status(findings))

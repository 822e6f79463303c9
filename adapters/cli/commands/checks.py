"""``dragoman audit`` and ``doctor``: arguments and exit status."""

from dataclasses import replace
from enum import Enum
from time import sleep
from typing import Annotated

import typer

from adapters.cli.commands import options


class AuditFormat(Enum):
    """The format of the report."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def audit(
    filename: options.Files = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", metavar="NAME", help="Report findings of its pods only."),
    ] = None,
    all_namespaces: options.AllNamespaces = False,
    output: Annotated[
        AuditFormat,
        typer.Option("-o", "--output", metavar="FORMAT", help="table, wide, json, yaml."),
    ] = AuditFormat.TABLE,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="RULE", help="Leave out findings of a rule; repeatable."),
    ] = None,
    no_headers: Annotated[
        bool, typer.Option("--no-headers", help="Print the lines of findings only.")
    ] = False,
    no_agents: Annotated[
        bool, typer.Option("--no-agents", help="Do not ask the node agents about containers.")
    ] = False,
) -> None:
    """Find cards that are over-allocated, and records that are wrong.

    Reads nodes, Devices, pods and NodeLedgers of a cluster, or of a dump (-f), and changes nothing.
    Dragoman need not be installed there; its node agents, if there are any, are asked through the
    API server what containers got. What it finds in a cluster was there seconds later, too.

    Example: dragoman audit -o json > findings.json

    Exit status: 0 no findings, 1 findings, 2 bad input or no answer.
    """
    from adapters.cli.audit import audit as reports
    from adapters.cli.audit.finding import RULES
    from adapters.cli.fleet.fleet import Fleet, read_fleet
    from adapters.cli.input.origin import Origin
    from adapters.cli.output.terminal import message
    from adapters.dialects.dialect import Defaults

    for rule in ignore or ():
        if rule not in RULES:
            known = ", ".join(RULES)
            raise typer.BadParameter(f"{rule!r} is no rule; rules: {known}", param_hint="--ignore")
    origin = Origin(filename or (), kubeconfig, context)

    def look() -> tuple[reports.AuditReport, Fleet]:
        manifests = origin.read()
        fleet = read_fleet(manifests, Defaults())
        if not no_agents:
            fleet = replace(fleet, agents=origin.agents(fleet.pods.values()))
        return reports.audit(manifests, fleet, ignore or ()), fleet

    with options.bad_input():
        report, fleet = look()
        if report.findings and not filename:
            sleep(reports.AGAIN)
            report = reports.confirmed(look()[0], report)
    for text in fleet.without_cards():
        message("warning", text)
    if namespace is not None and not all_namespaces:
        report = reports.in_namespace(report, namespace)
    if output in (AuditFormat.TABLE, AuditFormat.WIDE):
        text = reports.as_table(report, headers=not no_headers, wide=output is AuditFormat.WIDE)
    else:
        text = options.document_text(output, reports.as_plain(report))
    typer.echo(text, nl=False)
    if report.findings:
        raise typer.Exit(1)


def doctor(
    filename: options.Files = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    output: Annotated[
        options.DocumentFormat,
        typer.Option("-o", "--output", metavar="FORMAT", help="table, json or yaml."),
    ] = options.DocumentFormat.TABLE,
    transition: Annotated[
        bool,
        typer.Option("--transition", help="What keeps each node from giving its cards by claims."),
    ] = False,
) -> None:
    """Find what keeps Dragoman from working in a cluster, and what to do about it.

    Reads the cluster and changes nothing: API server, service, schedulers, webhooks, certificates,
    permissions, agents, other injectors. With --transition, it reports of each node who advertises
    its cards, and what is in the way of ResourceClaims; of files too (-f).

    Example: dragoman doctor --context production

    Exit status: 0 no findings, 1 warnings or errors, 2 bad input or no answer.
    """
    from adapters.cli.doctor.command import examine, exit_status, observe
    from adapters.cli.doctor.finding import as_plain, show
    from adapters.cli.input.cluster import call, context_of

    is_table = output is options.DocumentFormat.TABLE
    if transition:
        from adapters.cli.doctor import transition as nodes
        from adapters.cli.fleet.fleet import read_fleet
        from adapters.cli.input.origin import Origin
        from adapters.dialects.dialect import Defaults

        with options.bad_input():
            manifests = Origin(filename or (), kubeconfig, context).read()
            seen = None if filename else call(context_of(kubeconfig, context), observe)
            config_maps = [each for each, _ in manifests.config_maps.values()]
            report = nodes.transition(read_fleet(manifests, Defaults()), config_maps, seen)
        text = nodes.as_table(report)
        if not is_table:
            text = options.document_text(output, nodes.as_plain(report))
        typer.echo(text, nl=False)
        raise typer.Exit(int(report.is_blocked))
    if filename:
        raise typer.BadParameter("goes with --transition only", param_hint="-f")
    with options.bad_input():
        findings = examine(call(context_of(kubeconfig, context), observe))
    if is_table:
        from adapters.cli.output.terminal import standard_output

        page, _ = standard_output()
        show(findings, page)
    else:
        typer.echo(options.document_text(output, as_plain(findings)), nl=False)
    raise typer.Exit(exit_status(findings))

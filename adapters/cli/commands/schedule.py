"""``dragoman schedule``: arguments, output and exit status."""

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from adapters.cli.commands.options import (
    AllNamespaces,
    OnlyNamespace,
    PolicyOption,
    bad_input,
    chosen_policy,
)

if TYPE_CHECKING:
    from adapters.cli.output.report import ReportPart
    from adapters.cli.schedule import Run

_Policy = Annotated[
    PolicyOption | None,
    typer.Option(
        metavar="POLICY",
        help="binpack or spread, for pods that set none; replaces the default of their dialect.",
    ),
]


class ReportFormat(Enum):
    """The format of the report."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


class Only(Enum):
    """A choice of pods by their result."""

    PLACED = "placed"
    REFUSED = "refused"
    BOUND = "bound"
    SKIPPED = "skipped"


def schedule(
    more: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="More files, as for -f.")
    ] = None,
    filename: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--filename", metavar="FILE", help="A file, a folder, or - for standard input."
        ),
    ] = None,
    namespace: OnlyNamespace = None,
    all_namespaces: AllNamespaces = False,
    output: Annotated[
        ReportFormat,
        typer.Option("-o", "--output", metavar="FORMAT", help="table, json, yaml, csv or name."),
    ] = ReportFormat.TABLE,
    node_policy: _Policy = None,
    device_policy: _Policy = None,
    topology_aware: Annotated[
        bool | None,
        typer.Option(
            "--topology-aware/--no-topology-aware",
            help="Whether links count in the choice of the node, for pods that do not set it.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Time for the annotations, RFC 3339 or Unix seconds; default: now."
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Report for placed pods too why they do not fit other nodes."
        ),
    ] = False,
    only: Annotated[
        list[Only] | None,
        typer.Option(
            metavar="RESULT",
            help="List only placed, refused, bound or skipped pods; repeatable.",
        ),
    ] = None,
    no_cards: Annotated[bool, typer.Option("--no-cards", help="Leave out the cards.")] = False,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print only totals and warnings.")
    ] = False,
) -> None:
    """Place pods on cards without a cluster.

    Reads Node, Pod, PodGroup, Device, ConfigMap, NodeLedger, ResourceClaim, ResourceSlice,
    DeviceTaintRule, ShareQuota, ResourceQuota and List objects, and workloads such as Deployments
    for the pods that they make. Bound pods keep their cards; the command places pending ones in the
    order of the input, those of a gang together. Counts cards, quotas of shares, cordons, taints,
    nodeSelector and required node affinity; not CPU, nor affinity to pods.

    Example: kubectl get nodes,pods -A -o json | dragoman schedule -f -

    Exit status: 0 all placed, 1 some not or a card is over-allocated, 2 bad input.
    """
    from adapters.cli.commands.options import parse_time
    from adapters.cli.input.origin import read_files
    from adapters.cli.output.report import SUMMARY, of_results
    from adapters.cli.output.terminal import progress
    from adapters.cli.schedule import Run, RunOptions
    from adapters.dialects.dialect import Defaults

    if summary and (output is not ReportFormat.TABLE or only or no_cards or namespace):
        raise typer.BadParameter("is for a whole table", param_hint="--summary")
    chosen = of_results(
        [each.value for each in only or ()],
        cards=not no_cards,
        namespace=None if all_namespaces else namespace,
    )
    part = SUMMARY if summary else chosen
    names = [*(filename or ()), *(more or ())]
    if not names:
        raise typer.BadParameter("pass at least one", param_hint="-f")
    defaults = Defaults(chosen_policy(node_policy), chosen_policy(device_policy), topology_aware)
    with bad_input():
        options = RunOptions(defaults, parse_time(at), explain, progress)
        # No name for the manifests: what the run does not need of them is freed.
        run = Run.of(read_files(names, workloads=True), options)
    _write(run, output, part)
    if not run.complete:
        raise typer.Exit(1)


def _write(run: "Run", output: ReportFormat, part: "ReportPart") -> None:
    from adapters.cli.output.terminal import message

    pods = filter(part.shows, run.place_all())
    cards = run.cards() if part.cards else ()
    workloads = (each.fields() for each in part.workloads(run.workloads.values()))
    match output:
        case ReportFormat.JSON:
            from adapters.cli.output.streamed_report import json_report

            _stream(json_report(pods, cards, workloads))
        case ReportFormat.YAML:
            from adapters.cli.output.streamed_report import yaml_report

            _stream(yaml_report(pods, cards, workloads))
        case ReportFormat.CSV | ReportFormat.NAME:
            from adapters.cli.output.report import pod_row
            from adapters.cli.output.rows import RowFormat, formatted

            rows = [*map(pod_row, pods)]
            typer.echo(formatted("", (), rows, RowFormat(output.value)), nl=False)
        case ReportFormat.TABLE:
            from adapters.cli.output.table import write_report
            from adapters.cli.output.terminal import standard_output

            page, is_terminal = standard_output()
            # Another program finds the warnings on standard error.
            write_report(
                run.place_all(),
                run.cards(),
                run.warnings if is_terminal else (),
                page,
                part=part,
                workloads=run.workloads.values(),
                over_allocated=bool(run.over_allocated),
            )
            if is_terminal:
                return
    for warning in run.warnings:
        message("warning", warning)


def _stream(pieces: Iterable[bytes]) -> None:
    out = typer.get_binary_stream("stdout")
    for piece in pieces:
        out.write(piece)
    out.flush()

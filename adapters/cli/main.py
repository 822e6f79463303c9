"""The command line: arguments, output and exit status."""

import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from adapters.cli.commands.audit import audit
from adapters.cli.commands.configure import configure
from adapters.cli.commands.doctor import doctor
from adapters.cli.commands.explain import explain
from adapters.cli.commands.help import ShellCommand
from adapters.cli.commands.listings import pending, top, who
from adapters.cli.commands.whatif import whatif
from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import InputError, sources
from adapters.cli.input.time_option import parse_time
from adapters.cli.node import become_agent
from adapters.cli.output.report import ScheduleReport, as_json, as_yaml
from adapters.cli.output.table import show_report
from adapters.cli.schedule import RunOptions, schedule
from adapters.dialects.dialect import Defaults, SchedulingPolicy
from adapters.wire.kube import Pod

SOME_NOT_PLACED = 1
BAD_INPUT = 2
"""Exit status; 0 where every pod that requests a share was placed."""

LONG = 200
"""Pending pods from which on a terminal shows a progress bar."""

UNLIMITED = 1 << 16
"""Columns of a line that never wraps."""

app = typer.Typer(
    name="dragoman",
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Output(Enum):
    """The format of the report."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def main() -> None:
    """Run the command; as a plugin of kubectl it has the plugin's name."""
    plugin = Path(sys.argv[0]).name == "kubectl-dragoman"
    app(prog_name="kubectl dragoman" if plugin else None)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dragoman {version('dragoman')}")
        raise typer.Exit


@app.callback()
def _dragoman(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """One ledger of every GPU share, for the schedulers of several dialects."""


@app.command("schedule", cls=ShellCommand)
def _schedule(
    more: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="More files, as for -f.")
    ] = None,
    filename: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--filename", metavar="FILE", help="A file, a folder, or - for standard input."
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="The format of the report.")
    ] = Output.TABLE,
    node_policy: Annotated[
        SchedulingPolicy | None,
        typer.Option(help="For pods that set none; replaces the default of their dialect."),
    ] = None,
    device_policy: Annotated[
        SchedulingPolicy | None,
        typer.Option(help="For pods that set none; replaces the default of their dialect."),
    ] = None,
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
) -> None:
    """Place pods on cards without a cluster.

    Reads Node, Pod, Device, ConfigMap and List objects. Bound pods keep their cards; the command
    places pending ones in the order of the input.

    Exit status: 0 all placed, 1 some not or a card is over-allocated, 2 bad input.
    """
    names = [*(filename or ()), *(more or ())]
    if not names:
        raise typer.BadParameter("pass at least one", param_hint="-f")
    try:
        found = manifests(sources(names, sys.stdin.buffer))
        defaults = Defaults(node_policy, device_policy, topology_aware)
        report = schedule(found, RunOptions(defaults, parse_time(at), explain, _progress))
    except InputError as error:
        typer.echo(f"dragoman: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    _print(report, output)
    if not report.complete:
        raise typer.Exit(SOME_NOT_PLACED)


@app.command("node", cls=ShellCommand)
def _node(
    config: Annotated[Path, typer.Option(help="The node's configuration, such as node.yaml.")],
) -> None:
    """Run the node agent: containers get the granted devices of their pods, or do not start.

    Exit status: 0 after a signal, 2 bad configuration.
    """
    become_agent(config)


@app.command("serve", cls=ShellCommand)
def _serve(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings; see configs/sidecar.yaml.")
    ] = None,
    inventory: Annotated[
        list[str] | None,
        typer.Option(
            "--inventory",
            "-f",
            metavar="FILE",
            help="Node, Device, Pod and ConfigMap objects, to run without a cluster; repeatable.",
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
    """
    from adapters.cli.serve import serve

    serve(config, inventory or (), store, listen)


@app.command("demo", cls=ShellCommand)
def _demo(
    inventory: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="Nodes, and pods to schedule; default: an example."),
    ] = None,
) -> None:
    """Start a service with a SQLite file, and call it as the schedulers do."""
    from adapters.cli.demo.command import demo

    demo(inventory)


app.command("configure", cls=ShellCommand)(configure)
app.command("audit", cls=ShellCommand)(audit)
app.command("doctor", cls=ShellCommand)(doctor)
app.command("explain", cls=ShellCommand)(explain)
app.command("top", cls=ShellCommand)(top)
app.command("who", cls=ShellCommand)(who)
app.command("pending", cls=ShellCommand)(pending)
app.command("whatif", cls=ShellCommand)(whatif)


def _progress(pods: Sequence[Pod]) -> Iterable[Pod]:
    console = Console(stderr=True)
    if len(pods) < LONG or not console.is_terminal:
        return pods
    return track(pods, "Placing pods", console=console, transient=True)


def _print(report: ScheduleReport, output: Output) -> None:
    match output:
        case Output.JSON:
            typer.echo(as_json(report), nl=False)
        case Output.YAML:
            typer.echo(as_yaml(report), nl=False)
        case Output.TABLE:
            console = Console(highlight=False, emoji=False, markup=False)
            if console.is_terminal:
                show_report(report, console)
                return
            typer.echo(_unwrapped(report), nl=False)
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _unwrapped(report: ScheduleReport) -> str:
    """The table for another program: lines have any length, and no blanks at their end."""
    console = Console(highlight=False, emoji=False, markup=False, width=UNLIMITED)
    with console.capture() as captured:
        show_report(report, console)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())

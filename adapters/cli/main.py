"""The command line: all commands by their signatures, which import no work."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from adapters.cli.commands.audit import audit
from adapters.cli.commands.configure import configure
from adapters.cli.commands.defrag import defrag
from adapters.cli.commands.doctor import doctor
from adapters.cli.commands.explain import explain
from adapters.cli.commands.help import ShellCommand
from adapters.cli.commands.listings import pending, top, who
from adapters.cli.commands.mover import mover
from adapters.cli.commands.node import node
from adapters.cli.commands.schedule import schedule
from adapters.cli.commands.translate import translate
from adapters.cli.commands.whatif import whatif

app = typer.Typer(
    name="dragoman",
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command; as a plugin of kubectl it has the plugin's name."""
    # typer converts arguments with pydantic, which else reads the metadata of every package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    plugin = Path(sys.argv[0]).name == "kubectl-dragoman"
    app(prog_name="kubectl dragoman" if plugin else None)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dragoman {version('dragoman')}")
        raise typer.Exit


@app.callback()
def _dragoman(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """One ledger of GPU shares, for the schedulers of several dialects."""


app.command("schedule", cls=ShellCommand)(schedule)


app.command(
    "node", cls=ShellCommand, short_help="Run the node agent, an NRI plugin of the runtime."
)(node)


@app.command("serve", cls=ShellCommand, short_help="Serve schedulers from one ledger a node.")
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
    from adapters.cli.serve import serve

    serve(config, inventory or (), store, listen)


app.command("mover", cls=ShellCommand, short_help="Evict the pods that MovePlans name, in order.")(
    mover
)


@app.command("demo", cls=ShellCommand, short_help="Start a service and call it as schedulers do.")
def _demo(
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
    from adapters.cli.demo.command import demo

    demo(inventory or filename)


app.command(
    "configure", cls=ShellCommand, short_help="Add Dragoman to a scheduler's own configuration."
)(configure)
app.command("audit", cls=ShellCommand)(audit)
app.command("doctor", cls=ShellCommand, short_help="Find what keeps Dragoman from working.")(doctor)
app.command("explain", cls=ShellCommand, short_help="Say why a pod is pending, or where it is.")(
    explain
)
app.command("top", cls=ShellCommand)(top)
app.command("who", cls=ShellCommand)(who)
app.command("pending", cls=ShellCommand, short_help="List pods that wait for cards, and why.")(
    pending
)
app.command("translate", cls=ShellCommand, short_help="Translate a manifest to another dialect.")(
    translate
)
app.command("whatif", cls=ShellCommand, short_help="Place waiting pods on a changed cluster.")(
    whatif
)
app.command("defrag", cls=ShellCommand, short_help="Plan which pods to move so that others fit.")(
    defrag
)

"""The command line: all commands by their signatures, which import no work."""

import io
import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import BadParameter, Context
from typer.core import TyperCommand

from adapters.cli.commands.checks import audit, doctor
from adapters.cli.commands.defrag import defrag
from adapters.cli.commands.explain import explain
from adapters.cli.commands.files import configure, translate
from adapters.cli.commands.listings import pending, top, whatif, who
from adapters.cli.commands.programs import demo, mover, node, serve
from adapters.cli.commands.schedule import schedule

_TYPE = re.compile(r"^(  \S.*?) <[^<>]+>(?=\s{2,}|$)", re.MULTILINE)
_BRACES = re.compile(r"\{([^{}]+)\}")
_OF_PYTHON = re.compile(r"^(?:Value|Assertion) error, |^Input should be ")


class ShellCommand(TyperCommand):
    """A command whose help names arguments only by their metavar."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the arguments; an error says nothing of the library that found it."""
        try:
            return super().make_context(*args, **options)
        except BadParameter as error:
            error.message = _OF_PYTHON.sub("", error.message)
            raise

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the arguments; the file of ``--execute`` may be left out, which typer cannot do."""
        after = dict(zip(args, [*args, "--"][1:], strict=True)).get("--execute", "")
        if after.startswith("-") and after != "-":
            args.insert(args.index("--execute") + 1, "")
        return super().parse_args(ctx, args)

    # typer.Context is the public name of the base class's parameter.
    def get_usage(self, ctx: Context) -> str:  # type: ignore[override]
        """Return the line of the usage, which errors show too."""
        return _BRACES.sub(r"\1", super().get_usage(ctx))

    def get_help(self, ctx: Context) -> str:  # type: ignore[override]
        """Return the help text."""
        usage, _, rest = super().get_help(ctx).partition("\n")
        return _BRACES.sub(r"\1", usage) + "\n" + _TYPE.sub(r"\1", rest)


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


for command, short_help in (
    (schedule, None),
    (node, "Run the node agent, an NRI plugin of the runtime."),
    (serve, "Serve schedulers from one ledger a node."),
    (mover, "Evict the pods that MovePlans name, in order."),
    (demo, "Start a service and call it as schedulers do."),
    (configure, "Add Dragoman to a scheduler's own configuration."),
    (audit, None),
    (doctor, "Find what keeps Dragoman from working."),
    (explain, "Say why a pod is pending, or where it is."),
    (top, None),
    (who, None),
    (pending, "List pods that wait for cards, and why."),
    (translate, "Translate a manifest to another dialect."),
    (whatif, "Place waiting pods on a changed cluster."),
    (defrag, "Plan which pods to move so that others fit."),
):
    app.command(command.__name__, cls=ShellCommand, short_help=short_help)(command)


def complete() -> None:
    """Answer kubectl, which completes ``kubectl dragoman`` by ``kubectl_complete-dragoman``.

    kubectl calls the program of this name with the words after ``kubectl dragoman``; the last one
    is to be completed. The answer has a word on each line; its last line is a sum of directives.
    Source: k8s.io/kubectl pkg/cmd/plugin/plugin_completion.go, spf13/cobra completions.go
    (ShellCompDirective).
    """
    sys.stdout.write(answer(sys.argv[1:]))


def answer(words: Sequence[str]) -> str:
    """Return the answer, by the protocol of bash; the last word is incomplete or empty."""
    *done, incomplete = words or ("",)
    os.environ["_DRAGOMAN_COMPLETE"] = "complete_bash"
    os.environ["COMP_WORDS"] = shlex.join(["dragoman", *done, *filter(None, (incomplete,))])
    os.environ["COMP_CWORD"] = str(len(done) + 1)
    found = io.StringIO()
    with redirect_stdout(found), suppress(SystemExit):
        app(prog_name="dragoman")
    lines = found.getvalue().split()
    # ShellCompDirectiveNoFileComp: offer no names of files; ShellCompDirectiveDefault: offer them.
    return "\n".join([*lines, ":4" if lines else ":0"]) + "\n"

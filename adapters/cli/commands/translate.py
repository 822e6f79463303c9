"""``dragoman translate``: arguments and exit status."""

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapters.cli.commands.options import bad_input
from adapters.cli.input.source import STDIN

if TYPE_CHECKING:
    from adapters.cli.input.source import Source

LOSS = 1
"""Exit status of ``--strict`` where the translation loses something."""


class TranslationFormat(Enum):
    """What standard output gets."""

    TEXT = "text"
    JSON = "json"


def translate(
    target: Annotated[
        str,
        typer.Option("--to", metavar="DIALECT", help="Such as volcano."),
    ],
    filename: Annotated[
        str, typer.Option("-f", "--filename", metavar="FILE", help="Or - for standard input.")
    ] = STDIN,
    card_memory: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Of each card of the cluster, such as 80Gi."),
    ] = None,
    card_vendor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of all cards of the cluster: nvidia, metax.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Print no manifest where something is lost.")
    ] = False,
    output: Annotated[
        TranslationFormat,
        typer.Option(
            "-o", "--output", metavar="FORMAT", help="text, or json: losses and manifest."
        ),
    ] = TranslationFormat.TEXT,
) -> None:
    """Translate pods and pod templates of a manifest to another dialect.

    Prints the manifest, and on standard error what the translation does not keep. Everything else
    of the manifest stays as it is.

    Example: dragoman translate --to koordinator --card-memory 80Gi -f deployment.yaml

    Exit status: 0 translated, 1 something is lost and --strict is set, 2 bad input.
    """
    from adapters.cli.output.terminal import write_file
    from adapters.cli.translate.translation import as_report, as_table, targets
    from adapters.cli.translate.translation import translate as translated
    from adapters.dialects.request_writer import CardFacts

    if target not in targets():
        raise typer.BadParameter(f"must be one of {', '.join(targets())}", param_hint="--to")
    with bad_input():
        cards = CardFacts(_memory(card_memory), _vendor(card_vendor))
        result = translated(_source(filename), target, cards)
    refused = strict and not result.exact
    match output:
        case TranslationFormat.JSON:
            typer.echo(as_report(result), nl=False)
        case TranslationFormat.TEXT:
            write_file("" if refused else result.text)
            typer.echo(as_table(result), err=True, nl=False)
    if refused:
        raise typer.Exit(LOSS)


def _memory(text: str | None) -> int | None:
    from adapters.cli.input.source import InputError
    from adapters.wire.quantity import QuantityError, parse_int

    if text is None:
        return None
    try:
        memory = parse_int(text)
    except QuantityError:
        memory = 0
    if memory < 1:
        raise InputError("--card-memory", f"{text!r}: must be an amount such as 80Gi")
    return memory


def _vendor(name: str | None) -> str | None:
    from adapters.cli.input.source import InputError
    from adapters.dialects import registry

    known = sorted({info.vendor for info in registry.DIALECTS if info.vendor})
    if name is not None and name not in known:
        raise InputError("--card-vendor", f"{name!r}: must be one of {', '.join(known)}")
    return name


def _source(name: str) -> "Source":
    from adapters.cli.input.source import InputError, sources

    if name == STDIN and sys.stdin.isatty():
        raise InputError("stdin", "is a terminal; give -f FILE or pipe a manifest in")
    if name != STDIN and Path(name).is_dir():
        raise InputError(name, "is a folder; give one file")
    (source,) = sources([name], sys.stdin.buffer)
    return source

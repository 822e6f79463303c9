"""What commands share: options, and the exit status of bad input."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from adapters.cli.input.source import Source
    from adapters.dialects.dialect import SchedulingPolicy

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config."),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Of the kubeconfig; default: its current one."),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "-n", "--namespace", metavar="NAME", help="Default: that of the context; of files, all."
    ),
]
OnlyNamespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", metavar="NAME", help="Its pods only; default: all."),
]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")]
ServiceUrl = Annotated[
    str | None,
    typer.Option(
        "--service", metavar="URL", help="Ask the scheduling service: for rights on one namespace."
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE",
        help="Read a file, a folder, or - for standard input in place of a cluster; repeatable.",
    ),
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DocumentFormat(Enum):
    """A table for people, or fields for programs."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def document_text(output: Enum, fields: object) -> str:
    """Return fields in the format that has the value ``json``, else in YAML."""
    from adapters.cli.output.rows import as_json, as_yaml

    return as_json(fields) if output.value == "json" else as_yaml(fields)


class PolicyOption(Enum):
    """The values of ``SchedulingPolicy``, for help texts, which need no dialect."""

    BINPACK = "binpack"
    SPREAD = "spread"


def chosen_policy(option: PolicyOption | None) -> "SchedulingPolicy | None":
    """Return the policy that an option names; None for none."""
    from adapters.dialects.dialect import SchedulingPolicy

    return None if option is None else SchedulingPolicy(option.value)


def parse_time(text: str | None) -> int:
    """Return nanoseconds since 1970, from RFC 3339 with a time zone or Unix seconds; now for None.

    Raises:
        typer.BadParameter: the text is neither.
    """
    if text is None:
        return time.time_ns()
    from core.durations import SECOND

    if text.isdigit() and text.isascii():
        return int(text) * SECOND
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise typer.BadParameter(
            f"{text!r} is not a time such as 2026-01-31T12:00:00Z or 1769860800", param_hint="--at"
        )
    return (parsed - EPOCH) // timedelta(microseconds=1) * 1000


def check_service(service: str | None, files: list[str] | None, *, all_namespaces: bool) -> None:
    """Check that what goes to the service is about one namespace.

    Raises:
        typer.BadParameter: it is about files, or about all namespaces.
    """
    if service is not None and (files or all_namespaces):
        option = "-f" if files else "-A"
        raise typer.BadParameter(f"does not go with {option}", param_hint="--service")


@contextmanager
def bad_input() -> Iterator[None]:
    """Print an ``InputError`` in one line and exit with status 2.

    ``InputError`` is imported here, so that help texts need no parser of manifests.
    """
    from adapters.cli.input.source import InputError

    try:
        yield
    except InputError as error:
        from adapters.cli.output.terminal import message

        message("dragoman", error)
        raise typer.Exit(2) from None


def one_source(name: str, remedy: str) -> "Source":
    """Return the text of a file, or of standard input (``-``); the remedy is for a terminal there.

    Raises:
        InputError: it is a folder or empty, cannot be read, or is not UTF-8; or standard input
            is a terminal.
    """
    from adapters.cli.input.source import STDIN, InputError, sources

    if name == STDIN and sys.stdin.isatty():
        raise InputError("stdin", f"is a terminal; {remedy}")
    if name != STDIN and Path(name).is_dir():
        raise InputError(name, "is a folder; give one file")
    (source,) = sources([name], sys.stdin.buffer)
    return source

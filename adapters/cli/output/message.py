"""What the command says beside its output, and the user's own files as output."""

import sys

import typer

from adapters.wire.visible import visible, visible_lines


def message(kind: str, text: object) -> None:
    """Write one line on standard error.

    Args:
        kind: ``note``, ``warning``, or ``dragoman`` for an error.
        text: a sentence, which may contain foreign text.
    """
    typer.echo(f"{kind}: {visible(str(text))}", err=True)


def write_file(text: str) -> None:
    """Write a changed file of the user: byte by byte to a program, visible on a terminal."""
    typer.echo(visible_lines(text) if sys.stdout.isatty() else text, nl=False)

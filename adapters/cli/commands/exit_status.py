"""The exit status for input that cannot be used."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

BAD_INPUT = 2


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
        raise typer.Exit(BAD_INPUT) from None

"""``dragoman man``: arguments and exit status."""

from pathlib import Path
from typing import Annotated

import typer

from adapters.cli.commands.exit_status import bad_input


def man(
    context: typer.Context,
    command: Annotated[
        str | None, typer.Argument(metavar="COMMAND", help="Default: the page of dragoman.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the pages of all commands here, as NAME.1."),
    ] = None,
) -> None:
    """Print a manual page, or write all of them to a folder.

    man reads a page from standard input: dragoman man top | man -l -

    Example: dragoman man --folder ~/.local/share/man/man1

    Exit status: 0 the page exists, 2 no such command, or the folder cannot be written.
    """
    from adapters.cli.input.source import InputError
    from adapters.cli.manual_pages import NAME, pages

    with bad_input():
        found = pages(context.find_root().command)
        if folder is None:
            page = found.get(f"{NAME}-{command}.1" if command else f"{NAME}.1")
            if page is None:
                known = ", ".join(name.removeprefix(f"{NAME}-")[:-2] for name in [*found][1:])
                raise InputError("man", f"no command {command!r}; commands: {known}")
            typer.echo(page, nl=False)
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, page in found.items():
                (folder / name).write_text(page)
        except OSError as error:
            raise InputError(str(folder), f"cannot be written: {error.strerror}") from error

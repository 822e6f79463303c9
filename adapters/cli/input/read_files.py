"""Reads the objects of files for a command, and says what of them it does not read."""

import sys
from collections.abc import Sequence

from adapters.cli.input.manifests import Manifests, manifests
from adapters.cli.input.reading import reading
from adapters.cli.input.source import sources
from adapters.cli.output.message import message


def read_files(names: Sequence[str], *, jobs: bool = False) -> Manifests:
    """Read all objects of files, folders and ``-``; a terminal shows the progress.

    A note on standard error counts the objects of kinds that are not read.

    Args:
        names: of the files.
        jobs: whether Jobs are read.

    Raises:
        InputError: the input cannot be read.
    """
    with reading(names) as shown:
        found = manifests(sources(names, sys.stdin.buffer), shown, jobs=jobs)
    if found.skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.skipped.items()))
        message("note", f"skipped objects of kinds that are not read: {kinds}")
    return found

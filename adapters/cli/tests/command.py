"""Runs the command on manifests."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from adapters.cli.main import app
from adapters.cli.tests.builders import Plain, stream


def command(*words: str | Path, things: tuple[Plain, ...] | list[Plain] = ()) -> Result:
    """Run a command; with objects, it reads them from standard input."""
    files = ["-f", "-"] if things else []
    return CliRunner().invoke(app, [*map(str, words), *files], input=stream(*things))


def as_plain(*words: str | Path, things: tuple[Plain, ...] | list[Plain] = ()) -> Plain:
    """The JSON that a command prints."""
    result = command(*words, "-o", "json", things=things)
    assert result.exit_code in (0, 1), result.output
    plain: Plain = json.loads(result.stdout)
    return plain

"""Help texts in the words of a shell: without Python's types."""

import re

from typer import Context
from typer.core import TyperCommand

_TYPE = re.compile(r"^(  \S.*?) <[^<>]+>(?=\s{2,}|$)", re.MULTILINE)
_BRACES = re.compile(r"\{([^{}]+)\}")


class ShellCommand(TyperCommand):
    """A command whose help names arguments by their metavar alone."""

    # typer.Context is the public name of the base class's parameter.
    def get_help(self, ctx: Context) -> str:  # type: ignore[override]
        """The help text."""
        usage, _, rest = super().get_help(ctx).partition("\n")
        return _BRACES.sub(r"\1", usage) + "\n" + _TYPE.sub(r"\1", rest)

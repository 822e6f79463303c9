"""Help and errors of arguments in the words of a shell: without Python's types."""

import re
from typing import Any

from typer import BadParameter, Context
from typer.core import TyperCommand

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

    # typer.Context is the public name of the base class's parameter.
    def get_usage(self, ctx: Context) -> str:  # type: ignore[override]
        """The line of the usage, which errors show too."""
        return _BRACES.sub(r"\1", super().get_usage(ctx))

    def get_help(self, ctx: Context) -> str:  # type: ignore[override]
        """The help text."""
        usage, _, rest = super().get_help(ctx).partition("\n")
        return _BRACES.sub(r"\1", usage) + "\n" + _TYPE.sub(r"\1", rest)

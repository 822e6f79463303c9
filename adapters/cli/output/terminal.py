"""Standard output as a page: a terminal, or another program."""

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TextIO

from adapters.cli.output.page import TextPage, unpainted

if TYPE_CHECKING:
    from rich.console import Console

_FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables by which a user calls a pipe a terminal. Source: rich 14 console.py, is_terminal."""


def may_be_terminal(stream: TextIO) -> bool:
    """Whether a stream may be a terminal; False where it is none, without an import of rich."""
    return stream.isatty() or any(map(os.environ.get, _FORCING))


def standard_output() -> tuple[TextPage, bool]:
    """Standard output, and whether it is a terminal."""
    if may_be_terminal(sys.stdout):
        from rich.console import Console

        console = Console(highlight=False, emoji=False, markup=False)
        if console.is_terminal:
            return terminal_page(console), True
    encoding = (sys.stdout.encoding or "utf-8").lower()
    return TextPage(sys.stdout.write, ascii_only=not encoding.startswith("utf")), False


def terminal_page(console: "Console") -> TextPage:
    """A page of the width and the colors of a console."""
    colored = console.color_system is not None and not console.no_color
    paint = _painter(console) if colored else unpainted
    return TextPage(console.file.write, console.width, paint, ascii_only=console.options.ascii_only)


def _painter(console: "Console") -> Callable[[str, str], str]:
    from rich.text import Text

    @cache
    def codes(style: str) -> tuple[str, str]:
        with console.capture() as captured:
            console.print(Text("|", style=style), end="")
        before, _, after = captured.get().partition("|")
        return before, after

    def paint(text: str, style: str) -> str:
        if not style or not text:
            return text
        before, after = codes(style)
        return f"{before}{text}{after}"

    return paint

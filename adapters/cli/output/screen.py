"""A text that takes a whole terminal, with keys, until it ends; then the terminal is as before."""

import os
import select
import shutil
import signal
import sys
import termios
import tty
from typing import Self

from adapters.wire.visible import visible

BEGIN, END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The other screen without a cursor, and back. Source: invisible-island.net/xterm/ctlseqs."""


class Screen:
    """The terminal of standard input and output: keys are read one by one and not shown."""

    def __enter__(self) -> Self:
        """Begin."""
        self._keys = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._keys)
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        tty.setcbreak(self._keys)
        self._write(BEGIN)
        return self

    def __exit__(self, *_: object) -> None:
        """End, also after an error."""
        self._write(END)
        termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def show(self, text: str, footer: list[str]) -> None:
        """Replace what is shown, cut to the terminal; the end of the footer is always seen."""
        width, height = shutil.get_terminal_size()
        footer = footer[-max(height // 2, 1) :]
        lines, room = text.splitlines(), max(height - len(footer) - 1, 1)
        if len(lines) > room:
            footer = [*footer[:-1], f"{len(lines) - room} more lines; {footer[-1]}"]
        shown = [*lines[:room], *footer]
        self._write("\x1b[H" + "".join(f"{visible(e)[:width]}\x1b[K\n" for e in shown) + "\x1b[J")

    def key(self, seconds: float) -> str:
        """Return the next key, or an empty text where none is pressed for some seconds."""
        ready, _, _ = select.select([self._keys], [], [], seconds)
        return os.read(self._keys, 1).decode(errors="replace") if ready else ""

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

"""Draw ``make demo`` as a picture: ``demo_svg.py FILE.svg``.

Runs the demo, reads its colours, and draws the text with rich. The picture names no font to
download, so that a page that shows it loads nothing from other hosts.
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 110
"""Columns of the terminal."""

COMMAND = Path(sys.executable).with_name("dragoman")
INVENTORY = "configs/examples/mixed.yaml"


def main(file: str) -> None:
    """Run the demo and write the picture."""
    environment = {
        **os.environ,
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "COLUMNS": str(WIDTH),
    }
    words = [str(COMMAND), "demo", INVENTORY]
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)  # noqa: S603
    # The port differs in each run; five digits keep the width.
    output = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:49595", done.stdout)
    console = Console(width=WIDTH, record=True, file=io.StringIO())
    console.print(Text.from_ansi(output.rstrip()), soft_wrap=False)
    picture = console.export_svg(title="make demo", unique_id="demo")
    Path(file).write_text(re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    main(sys.argv[1])

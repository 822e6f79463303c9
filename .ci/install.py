"""Install with pip and show how far it is: ``install.py PIP_OPTION...``.

pip itself prints hundreds of lines, or with ``--quiet`` none for minutes. On a terminal this is
one line that changes, elsewhere a line for every tenth package. What pip said appears if it fails.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

EVERY = 10
LATEST = 20
"""Lines of pip that are shown where it fails."""

_PINNED = re.compile(r"^[A-Za-z0-9][^\s;]*==", re.MULTILINE)
_SETTLED = re.compile(r"(?:Collecting|Ignoring|Requirement already satisfied:) ([\w.-]+)")


def main(options: Sequence[str]) -> int:
    """Install, and return pip's exit status."""
    files = [file for word, file in pairwise(options) if word == "-r"]
    total = sum(len(_PINNED.findall(Path(file).read_text())) for file in files)
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    pip = subprocess.Popen(  # noqa: S603
        [*command, "--progress-bar=off", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert pip.stdout is not None  # noqa: S101 - for mypy
    said = _follow(pip.stdout, total)
    if pip.wait():
        sys.stdout.writelines(said[-LATEST:])
    return pip.returncode


def _follow(lines: Iterable[str], total: int) -> list[str]:
    """Show progress; every line that pip wrote."""
    said: list[str] = []
    settled: set[str] = set()
    for line in lines:
        said.append(line)
        if found := _SETTLED.match(line):
            known = len(settled)
            settled.add(found[1])
            if len(settled) > known:
                _show(f"  {len(settled)} of {total} packages: {found[1]}", len(settled) % EVERY)
        elif line.startswith("Installing collected packages"):
            _show("  writing them", 0)
    if sys.stdout.isatty():
        sys.stdout.write("\r\033[K")
    return said


def _show(text: str, skipped: int) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\033[K{text}")
    elif not skipped:
        sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

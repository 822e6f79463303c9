"""The version: pyproject.toml has it, and every file that repeats it must agree.

    python .ci/release/version.py [--write | --print]

Prints what differs and ends with status 1; ``--write`` changes the files instead, ``--print``
prints the version.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHART = "charts/dragoman/Chart.yaml"

_IMAGE = r"dragoman/(?:service|node|\{name\}):"
_REPEATED = {
    "": rf"(?P<before>{_IMAGE})(?P<version>\d[\w.+-]*)",
    CHART: r"(?m)^(?P<before>(?:appVersion|version): )(?P<version>\S+)$",
    "README.md": r"(?P<before>^Version )(?P<version>\d[\w.+-]*\d)",
    "README.zh-CN.md": r"(?P<before>^版本 )(?P<version>\d[\w.+-]*\d)",
}
"""By file, "" for every file: how the version stands there."""

_NOT_READ = ("CHANGELOG.md", "requirements/", "e2e/testbed/")
_GOLDEN = ".golden."
"""Golden files have it from the chart: ``make golden``."""


def version(root: Path = ROOT) -> str:
    """The version of this checkout."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def differing(root: Path = ROOT, *, write: bool = False) -> Iterator[str]:
    """Each place that has another version, as ``FILE:LINE: VERSION``.

    Args:
        root: of a git repository.
        write: write the right version there.
    """
    wanted = version(root)
    for name in _files(root):
        patterns = [pattern for file, pattern in _REPEATED.items() if file in ("", name)]
        try:
            text = (root / name).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        for pattern in patterns:
            for found in re.finditer(pattern, text, re.MULTILINE):
                if found["version"] != wanted:
                    line = text.count("\n", 0, found.start()) + 1
                    yield f"{name}:{line}: {found['version']}"
            if write:
                text = re.sub(
                    pattern, lambda found: found["before"] + wanted, text, flags=re.MULTILINE
                )
        if write and text != (root / name).read_text():
            (root / name).write_text(text)


def _files(root: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    names = filter(None, listed.stdout.split("\0"))
    return [name for name in names if not name.startswith(_NOT_READ) and _GOLDEN not in name]


def main(*words: str) -> int:
    """Compare, write, or print."""
    if words == ("--print",):
        print(version())
        return 0
    write = words == ("--write",)
    found = list(differing(write=write))
    for place in found:
        print(place if not write else f"{place} -> {version()}")
    return int(bool(found) and not write)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

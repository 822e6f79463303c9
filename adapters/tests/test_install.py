"""How ``make`` installs: progress, and what pip said where it fails."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALLED = (
    "aiohttp", "hypothesis", "msgspec", "mypy", "numpy", "orjson", "psutil", "pydantic",
    "pytest", "rich", "ruff",
)  # fmt: skip


def install(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / ".ci" / "install.py"), "--no-index", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)  # noqa: S603


def test_it_shows_how_many_packages_are_settled(tmp_path: Path) -> None:
    pinned = [f"{name}=={version(name)}" for name in INSTALLED]
    file = tmp_path / "some.txt"
    file.write_text("\n".join(pinned) + "\n")

    done = install("--no-deps", "-r", str(file))

    assert (done.returncode, done.stdout) == (0, "  10 of 11 packages: rich\n")


def test_where_pip_fails_its_words_and_its_status_are_given(tmp_path: Path) -> None:
    file = tmp_path / "some.txt"
    file.write_text("no-such-package-at-all==1.0\n")

    done = install("-r", str(file))

    assert done.returncode == 1
    assert "No matching distribution found for no-such-package-at-all==1.0" in done.stdout

"""Build the commands of a Go module at its pinned version.

Nothing is written next to ``go.mod``: ``-mod=readonly`` fails when the pins do not suffice, and
``go.sum`` refuses any module whose content has changed.
"""

import os
import shutil
import subprocess
from pathlib import Path

from e2e.testbed.versions import GoComponent


class BuildError(RuntimeError):
    """A component could not be built; the message says which part and why."""


def go() -> str:
    """Path of the Go command.

    Raises:
        BuildError: there is none.
    """
    found = shutil.which("go")
    if found is None:
        raise BuildError("the Go command is not installed")
    return found


def build(component: GoComponent, command: str, target: Path) -> None:
    """Build one command of the component into a file.

    Raises:
        BuildError: with the last lines that the compiler wrote.
    """
    stamps = " ".join(f"-X {variable}={value}" for variable, value in component.stamp.items())
    words = [go(), "build", "-mod=readonly", "-trimpath", "-buildvcs=false"]
    words += ["-ldflags", f"-s -w {stamps}".rstrip()]
    if component.tags:
        words += ["-tags", ",".join(component.tags)]
    words += ["-o", str(target), component.commands[command]]
    # Without cgo the binaries are static and no C compiler is needed.
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on"}
    done = subprocess.run(
        words, cwd=component.folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if ": downloading " not in line]
        raise BuildError(f"{command}: " + "\n".join(lines[-8:]))


def copy_assets(component: GoComponent, target: Path) -> None:
    """Copy the component's assets, as they are in the module, into a folder."""
    if not component.assets:
        return
    words = [go(), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", component.module]
    done = subprocess.run(words, cwd=component.folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"assets: {done.stderr[-300:]}")
    source = Path(done.stdout.strip())
    for name, relative in component.assets.items():
        shutil.copytree(source / relative, target / name, copy_function=shutil.copyfile)
        for folder in (target / name, *(target / name).rglob("*/")):
            folder.chmod(0o755)  # the module cache is read-only, folders included


def modules(binary: Path) -> dict[str, str]:
    """Version of every module in a binary, by its own build information."""
    done = subprocess.run(
        [go(), "version", "-m", str(binary)], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[1]: row[2] for row in rows if len(row) > 2 and row[0] in {"mod", "dep"}}

"""Ask each binary what it is, and compare with what it should be."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.testbed.golang import BuildError, modules
from e2e.testbed.versions import ROOT, Component, GoComponent, RootComponent

# As long as a program may take to say its version.
PATIENCE = 30


def verify(component: Component, folder: Path) -> None:
    """Run every binary of a component.

    Raises:
        BuildError: one does not run, or is another version than it should be.
    """
    for name, relative in component.binaries.items():
        path = folder / relative
        words = (str(path), *component.ask.get(name, ("--version",)))
        if isinstance(component, RootComponent):
            words = ("chroot", str(folder / ROOT), relative.removeprefix(ROOT), *words[1:])
        said = _answer(words)
        if component.says not in said:
            raise BuildError(f"{name} should say {component.says!r} and says {said[:200]!r}")
        if isinstance(component, GoComponent):
            _compare_modules(component, path)


def _answer(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{words[0]} does not run: {error}") from error
    said = done.stdout + done.stderr
    if done.returncode:
        raise BuildError(f"{' '.join(words)} fails: {said[-300:]}")
    return said


def _compare_modules(component: GoComponent, path: Path) -> None:
    found = modules(path).get(component.module)
    if found != component.version:
        raise BuildError(f"{path.name} is built from {component.module} {found}")

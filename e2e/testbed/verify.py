"""Ask each binary what it is, and compare with what it should be."""

import subprocess
from pathlib import Path

from e2e.testbed.golang import BuildError, modules
from e2e.testbed.versions import Component, GoComponent

# As long as a program may take to say its version.
PATIENCE = 30


def verify(component: Component, folder: Path) -> None:
    """Run every binary of a component.

    Raises:
        BuildError: one does not run, or is another version than it should be.
    """
    for name, relative in component.binaries.items():
        path = folder / relative
        said = _answer(path, component.ask.get(name, ("--version",)))
        if component.says not in said:
            raise BuildError(f"{name} should say {component.says!r} and says {said[:200]!r}")
        if isinstance(component, GoComponent):
            _compare_modules(component, path)


def _answer(path: Path, question: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [path, *question], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{path.name} does not run: {error}") from error
    said = done.stdout + done.stderr
    if done.returncode:
        raise BuildError(f"{path.name} {' '.join(question)} fails: {said[-300:]}")
    return said


def _compare_modules(component: GoComponent, path: Path) -> None:
    found = modules(path).get(component.module)
    if found != component.version:
        raise BuildError(f"{path.name} is built from {component.module} {found}")

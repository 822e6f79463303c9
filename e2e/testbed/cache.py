"""Where built components are kept, and how one knows that they are still the right ones.

A component's place is named by a digest of everything that it is made from, so a changed version
is another place, and nothing stale is ever found. A place appears whole or not at all.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.testbed.versions import Component, GoComponent, components, of_bench_alone

# Raise it when the way of building changes what comes out.
RECIPE = 1


class NotBuiltError(FileNotFoundError):
    """A binary of the test bed is not in the cache: ``make testbed`` puts it there."""


def root() -> Path:
    """The cache folder: ``$DRAGOMAN_TESTBED``, or one below the user's cache folder."""
    given = os.environ.get("DRAGOMAN_TESTBED")
    return Path(given) if given else Path.home() / ".cache" / "dragoman" / "testbed"


def place(component: Component) -> Path:
    """Where this component is, or will be."""
    digest = hashlib.sha256(f"{RECIPE} {component!r}".encode())
    if isinstance(component, GoComponent):
        sources = sorted(component.folder.glob("*.go"))  # of the few commands that are ours
        for file in (component.folder / "go.mod", component.folder / "go.sum", *sources):
            digest.update(file.read_bytes())
    return root() / f"{component.name}-{digest.hexdigest()[:12]}"


def is_built(component: Component) -> bool:
    """Whether it is in the cache."""
    return (place(component) / "built.json").is_file()


def binary(component: str, name: str) -> Path:
    """Path of one binary.

    Raises:
        NotBuiltError: it is not in the cache.
    """
    return _folder(component) / components()[component].binaries[name]


def asset(component: str, name: str) -> Path:
    """Path of a folder that came with a component.

    Raises:
        NotBuiltError: it is not in the cache.
    """
    return _folder(component) / name


def _folder(name: str) -> Path:
    component = components()[name]
    if not is_built(component):
        command = "make testbed"
        if name in of_bench_alone():
            command = f"python3 -m e2e.testbed.build {name}"
        raise NotBuiltError(f"{name} is not built; {command} builds it")
    return place(component)


@contextmanager
def filling(component: Component, facts: dict[str, object]) -> Iterator[Path]:
    """A folder to fill; when the block ends well it becomes the component's place.

    Args:
        component: that is built in the block.
        facts: what to remember about the build; read when the block has ended.
    """
    root().mkdir(parents=True, exist_ok=True)
    target = place(component)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        (partial / "built.json").write_text(json.dumps(facts, indent=1) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def size(component: Component) -> int:
    """Bytes that it takes in the cache."""
    return sum(file.lstat().st_size for file in place(component).rglob("*") if file.is_file())

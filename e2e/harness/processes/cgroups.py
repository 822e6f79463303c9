"""Control groups of one run, in version 1 and 2: one group, at the top, named like the run."""

import time
from pathlib import Path


def name_of(folder: Path) -> str:
    """The group of the run with this folder."""
    return f"dragoman-e2e-{folder.name}"


def create(folder: Path) -> str:
    """Make the run's group in every hierarchy; its path as a kubelet wants it."""
    for mount in _mounts():
        (mount / name_of(folder)).mkdir(exist_ok=True)
    return f"/{name_of(folder)}"


def enter(folder: Path) -> list[Path]:
    """Make the run's groups so that processes can join them, and return their paths."""
    create(folder)
    groups = [mount / name_of(folder) for mount in _mounts()]
    for group in groups:
        for name in ("cpuset.cpus", "cpuset.mems"):
            file = group / name  # empty in a new group of version 1, and no process can join
            if file.exists() and not file.read_text().strip():
                file.write_text((group.parent / name).read_text())
    return groups


def remove(folder: Path, patience: float = 10) -> None:
    """Remove the run's group when its last process has gone.

    Raises:
        OSError: processes are still there after some seconds.
    """
    deadline = time.monotonic() + patience
    for mount in _mounts():
        top = mount / name_of(folder)
        while top.is_dir():
            try:
                _remove_tree(top)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def _remove_tree(top: Path) -> None:
    for group in (*sorted(top.rglob("*/"), reverse=True), top):
        group.rmdir()


def _mounts() -> tuple[Path, ...]:
    rows = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return tuple(Path(row[1]) for row in rows if row[2] in {"cgroup", "cgroup2"})

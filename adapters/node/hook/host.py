"""The node's own files: device nodes are looked at, folders are made, sources are checked."""

import os
import re
import stat
from itertools import chain
from pathlib import Path

from adapters.node.hook.plan import AdjustmentPlan
from adapters.node.nri.model import Adjustment, LinuxDevice

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 128 << 10
"""Bytes of the longest ``NAME=VALUE`` that a process can be given (Linux MAX_ARG_STRLEN)."""

_FOR_ALL = 0o666

DRIVERS = Path("/proc/devices")
_CAPABILITY = re.compile(r"/dev/nvidia-caps/nvidia-cap([0-9]{1,7})")


class HostError(OSError):
    """The node has not what the container was to get."""


def realize(plan: AdjustmentPlan) -> Adjustment:
    """Make what a plan needs, and check what it names.

    A mount without a source would be found out only when the container starts, and a device
    without its numbers too: both after the answer.

    Raises:
        HostError: something is not there, or cannot be used.
    """
    for name, value in plan.env.items():
        _check(name, value)
    for folder in plan.folders:
        _folder(folder)
    if plan.scratch_dirs is not None:
        _fresh(plan.scratch_dirs)
    made = {*plan.folders, plan.scratch_dirs}
    for mount in plan.mounts:
        if mount.source not in made and not _exists(mount.source):
            raise HostError(f"{mount.source} is not on this node")
    optional = filter(_exists, plan.optional_devices)
    devices = tuple(map(_device, chain(plan.devices, optional)))
    return Adjustment(plan.env, plan.mounts, devices, plan.cdi)


def discard(folder: str) -> None:
    """Remove a container's own folder, with the files in it."""
    path = Path(folder)
    if path.is_dir() and not path.is_symlink():
        for file in path.iterdir():
            if not file.is_dir() or file.is_symlink():
                file.unlink(missing_ok=True)
        path.rmdir()


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise HostError(f"{name!r} is no name of a variable")
    if "\0" in value or len(name) + len(value.encode()) + 2 > _LONGEST:
        raise HostError(f"the value of {name} cannot be a variable's")


# Of os and not of pathlib: this stands in the way of every container, and takes half of the time.


def _exists(path: str) -> bool:
    return os.access(path, os.F_OK)


def _device(path: str) -> LinuxDevice:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError as error:
        known = _capability(path)
        if known is not None:
            return known
        raise HostError(f"{path}: {error.strerror}") from error
    if not stat.S_ISCHR(found.st_mode):
        raise HostError(f"{path} is no character device")
    return LinuxDevice(path, "c", os.major(found.st_rdev), os.minor(found.st_rdev), _FOR_ALL)


def _capability(path: str) -> LinuxDevice | None:
    """A capability of NVIDIA's driver whose node nobody has made yet; None where it is none.

    The driver makes none for an instance that is new; its name has its minor number, and runtimes
    need no more. Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities".
    """
    name = _CAPABILITY.fullmatch(path)
    if name is None:
        return None
    try:
        lines = DRIVERS.read_text().splitlines()
    except OSError:
        return None
    majors = (line.split() for line in lines if line.endswith(" nvidia-caps"))
    major = next((int(words[0]) for words in majors if words[0].isdecimal()), None)
    return None if major is None else LinuxDevice(path, "c", major, int(name[1]), _FOR_ALL)


def _folder(folder: str) -> None:
    """Make a folder if it is not there."""
    try:
        if not os.path.isdir(folder):  # noqa: PTH112
            _make(folder)
    except OSError as error:
        raise HostError(f"{folder}: {error.strerror}") from error


def _fresh(folder: str) -> None:
    """An earlier container's bounds stand in its file, and the first writer's count."""
    try:
        try:
            _make(folder)
        except FileExistsError:
            _empty(Path(folder))
    except OSError as error:
        raise HostError(f"{folder}: {error.strerror}") from error


def _make(folder: str) -> None:
    try:
        os.mkdir(folder)  # noqa: PTH102
    except FileNotFoundError:
        os.makedirs(folder)  # noqa: PTH103
    os.chmod(folder, 0o777)  # noqa: PTH101, S103  # containers run as anybody


def _empty(folder: Path) -> None:
    """Remove an earlier container's files; what is no folder makes room for one."""
    if folder.is_symlink():
        folder.unlink()
        _make(str(folder))
    for file in [each for each in folder.iterdir() if each.name.endswith(".cache")]:
        file.unlink()

"""The node's files: checks device nodes and mount sources, creates folders."""

import os
import re
import stat
from itertools import chain
from pathlib import Path

from adapters.agent.injection.cache_dirs import create_empty, make
from adapters.agent.injection.plan import AdjustmentPlan
from adapters.agent.nri.model import Adjustment, LinuxDevice

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_VARIABLE = 128 << 10
"""Bytes of the longest ``NAME=VALUE`` that a process can get (Linux MAX_ARG_STRLEN)."""

_FOR_ALL = 0o666

PROC_DEVICES = Path("/proc/devices")
_CAPABILITY = re.compile(r"/dev/nvidia-caps/nvidia-cap([0-9]{1,7})")


class HostError(OSError):
    """The node lacks something that the container was to get."""


def realize(plan: AdjustmentPlan) -> Adjustment:
    """Create the folders of a plan, and check everything else that it names.

    The runtime would notice a missing mount source or device only when it starts the container,
    after the agent's answer.

    Raises:
        HostError: something does not exist, or is invalid.
    """
    for name, value in plan.env.items():
        _check(name, value)
    for folder in plan.shared_dirs:
        _folder(folder)
    if plan.scratch_dir is not None:
        _scratch(plan.scratch_dir)
    created = {*plan.shared_dirs, plan.scratch_dir}
    for mount in plan.mounts:
        if mount.source not in created and not _exists(mount.source):
            raise HostError(f"{mount.source} does not exist on this node")
    optional = filter(_exists, plan.optional_devices)
    devices = tuple(map(_device, chain(plan.devices, optional)))
    return Adjustment(plan.env, plan.mounts, devices, plan.cdi)


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise HostError(f"{name!r} is not a valid name of an environment variable")
    if "\0" in value or len(name) + len(value.encode()) + 2 > _MAX_VARIABLE:
        raise HostError(f"the value of {name} has a NUL byte or more than {_MAX_VARIABLE} bytes")


# os instead of pathlib: every container's creation waits for this, and os takes half of the time.


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
        raise HostError(f"{path} is not a character device")
    return LinuxDevice(path, "c", os.major(found.st_rdev), os.minor(found.st_rdev), _FOR_ALL)


def _capability(path: str) -> LinuxDevice | None:
    """The device of a capability of NVIDIA's driver that has no node; None for other paths.

    The driver creates no node for a new MIG instance. The node's name contains its minor number,
    and runtimes need no more. Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and
    Capabilities".
    """
    name = _CAPABILITY.fullmatch(path)
    if name is None:
        return None
    try:
        lines = PROC_DEVICES.read_text().splitlines()
    except OSError:
        return None
    majors = (line.split() for line in lines if line.endswith(" nvidia-caps"))
    major = next((int(words[0]) for words in majors if words[0].isdecimal()), None)
    return None if major is None else LinuxDevice(path, "c", major, int(name[1]), _FOR_ALL)


def _folder(folder: str) -> None:
    """Create a folder where it does not exist."""
    try:
        if not os.path.isdir(folder):  # noqa: PTH112
            make(folder)
    except OSError as error:
        raise HostError(f"{folder}: {error.strerror}") from error


def _scratch(folder: str) -> None:
    try:
        create_empty(folder)
    except OSError as error:
        raise HostError(f"{folder}: {error.strerror or error}") from error

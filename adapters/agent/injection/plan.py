"""What a container is to get, and the check that the node has it: device nodes, mounts, folders."""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from adapters.agent.injection.cache_dirs import create_empty, share
from adapters.agent.nri.model import Adjustment, LinuxDevice, Mount, NriContainer

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_VARIABLE = 128 << 10
"""Bytes of the longest ``NAME=VALUE`` that a process can get (Linux MAX_ARG_STRLEN)."""

_FOR_ALL = 0o666

PROC_DEVICES = Path("/proc/devices")
_CAPABILITY = re.compile(r"/dev/nvidia-caps/nvidia-cap([0-9]{1,7})")

_T = TypeVar("_T")


class RepeatedVariableError(ValueError):
    """A variable of the plan is in the container's environment more than once.

    The runtime replaces the first one and keeps the last (containerd/nri v0.12.5
    pkg/runtime-tools/generate/generate.go, AdjustEnv), so that a plugin cannot set it.
    """


class AdjustmentPlan(Struct, frozen=True):
    """An adjustment by names and paths.

    Attributes:
        env: values by name.
        devices: paths of device nodes that must exist.
        optional_devices: paths of device nodes that may exist.
        cdi: fully qualified names of CDI devices.
        shared_dirs: folders for the containers of every user, which may exist.
        scratch_dir: the container's own folder, which is new for each creation; None for none.
    """

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    optional_devices: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    shared_dirs: tuple[str, ...] = ()
    scratch_dir: str | None = None

    def merged_with(self, *others: "AdjustmentPlan") -> "AdjustmentPlan":
        """Unite the plans; where several set the same variable, the first one counts."""
        plans = self, *others
        env: dict[str, str] = {}
        for plan in reversed(plans):
            env |= plan.env
        return AdjustmentPlan(
            env,
            _union(plan.mounts for plan in plans),
            _union(plan.devices for plan in plans),
            _union(plan.optional_devices for plan in plans),
            _union(plan.cdi for plan in plans),
            _union(plan.shared_dirs for plan in plans),
            next((plan.scratch_dir for plan in plans if plan.scratch_dir), None),
        )

    def minus_present(self, container: NriContainer) -> "AdjustmentPlan":
        """Return the rest of the plan that the container does not have yet.

        The runtime rejects a container when two plugins set the same thing, even to the same value.
        So a second copy of this agent adds nothing.

        Raises:
            RepeatedVariableError: the runtime would keep another value than the plan's.
        """
        mounts, devices, optional, cdi = self.mounts, self.devices, self.optional_devices, self.cdi
        if mounts:
            mounted = {(mount.destination, mount.source) for mount in container.mounts}
            mounts = tuple(m for m in mounts if (m.destination, m.source) not in mounted)
        if container.devices:
            paths = {device.path for device in container.devices}
            devices = tuple(path for path in devices if path not in paths)
            optional = tuple(path for path in optional if path not in paths)
        if container.cdi:
            cdi = tuple(name for name in cdi if name not in container.cdi)
        names = tuple(f"{name}=" for name in self.env)
        present: dict[str, list[str]] = {}
        for line in container.env:
            if line.startswith(names):
                name, _, value = line.partition("=")
                present.setdefault(name, []).append(value)
        for name, values in present.items():
            if len(values) > 1 and values[-1] != self.env[name]:
                raise RepeatedVariableError(
                    f"{name} is set {len(values)} times, by the pod or by a device plugin too, and"
                    " the runtime would keep the last value: remove it from the container's env"
                )
        env = {
            name: value
            for name, value in self.env.items()
            if any(other != value for other in present.get(name, (None,)))
        }
        return AdjustmentPlan(
            env, mounts, devices, optional, cdi, self.shared_dirs, self.scratch_dir
        )


def _union(parts: Iterable[tuple[_T, ...]]) -> tuple[_T, ...]:
    """Return the union, in order."""
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


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
        if not _NAME.fullmatch(name):
            raise HostError(f"{name!r} is not a valid name of an environment variable")
        if "\0" in value or len(name) + len(value.encode()) + 2 > _MAX_VARIABLE:
            problem = f"has a NUL byte or more than {_MAX_VARIABLE} bytes"
            raise HostError(f"the value of {name} {problem}")
    for folder in plan.shared_dirs:
        try:
            share(folder)
        except OSError as error:
            raise HostError(f"{folder}: {error.strerror}") from error
    if plan.scratch_dir is not None:
        try:
            create_empty(plan.scratch_dir)
        except OSError as error:
            raise HostError(f"{plan.scratch_dir}: {error.strerror or error}") from error
    created = {*plan.shared_dirs, plan.scratch_dir}
    for mount in plan.mounts:
        if mount.source not in created and not _exists(mount.source):
            raise HostError(f"{mount.source} does not exist on this node")
    optional = filter(_exists, plan.optional_devices)
    devices = tuple(map(_device, chain(plan.devices, optional)))
    return Adjustment(plan.env, plan.mounts, devices, plan.cdi)


# os instead of pathlib: every container's creation waits for this, and os takes half of the time.


def _exists(path: str) -> bool:
    return os.access(path, os.F_OK)


def _device(path: str) -> LinuxDevice:
    """Return the device node of a path, which may be missing for a capability of NVIDIA's driver.

    The driver creates no node for a new MIG instance. The node's name contains its minor number,
    and runtimes need no more. Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and
    Capabilities".
    """
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError as error:
        if name := _CAPABILITY.fullmatch(path):
            with suppress(OSError):
                for line in PROC_DEVICES.read_text().splitlines():
                    major, _, driver = line.strip().partition(" ")
                    if major.isdecimal() and driver == "nvidia-caps":
                        return LinuxDevice(path, "c", int(major), int(name[1]), _FOR_ALL)
        raise HostError(f"{path}: {error.strerror}") from error
    if not stat.S_ISCHR(found.st_mode):
        raise HostError(f"{path} is not a character device")
    return LinuxDevice(path, "c", os.major(found.st_rdev), os.minor(found.st_rdev), _FOR_ALL)

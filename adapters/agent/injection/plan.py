"""What a container is to get, before the agent checks that the node has it."""

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct, field

from adapters.agent.nri.model import Mount, NriContainer

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
        shared_dirs: folders that the agent creates where they do not exist, writable for all.
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
        """The union of the plans; where several set the same variable, the first one counts."""
        env, mounts, devices, optional = self.env, self.mounts, self.devices, self.optional_devices
        cdi, folders, scratch = self.cdi, self.shared_dirs, self.scratch_dir
        for other in others:
            env = {**other.env, **env}
            mounts = _both(mounts, other.mounts)
            devices = _both(devices, other.devices)
            optional = _both(optional, other.optional_devices)
            cdi = _both(cdi, other.cdi)
            folders = _both(folders, other.shared_dirs)
            scratch = scratch or other.scratch_dir
        return AdjustmentPlan(env, mounts, devices, optional, cdi, folders, scratch)

    def minus_present(self, container: NriContainer) -> "AdjustmentPlan":
        """The rest of the plan that the container does not have yet.

        The runtime rejects a container when two plugins set the same thing, even to the same value.
        So a second copy of this agent adds nothing.

        Raises:
            RepeatedVariableError: the runtime would keep another value than the plan's.
        """
        mounts, devices, optional, cdi = self.mounts, self.devices, self.optional_devices, self.cdi
        if mounts:
            present = {(mount.destination, mount.source) for mount in container.mounts}
            mounts = tuple(m for m in mounts if (m.destination, m.source) not in present)
        if container.devices:
            paths = {device.path for device in container.devices}
            devices = tuple(path for path in devices if path not in paths)
            optional = tuple(path for path in optional if path not in paths)
        if container.cdi:
            cdi = tuple(name for name in cdi if name not in container.cdi)
        env = self._variables(container)
        return AdjustmentPlan(
            env, mounts, devices, optional, cdi, self.shared_dirs, self.scratch_dir
        )

    def _variables(self, container: NriContainer) -> Mapping[str, str]:
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
        return (
            {
                name: value
                for name, value in self.env.items()
                if any(other != value for other in present.get(name, (None,)))
            }
            if present
            else self.env
        )


def _both(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    """The union, in order."""
    return tuple(dict.fromkeys((*first, *second))) if first and second else first or second

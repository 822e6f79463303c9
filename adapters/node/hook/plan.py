"""What a container shall get, before anybody has looked whether the node has it."""

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct, field

from adapters.node.nri.model import Mount, NriContainer, names_and_values

_T = TypeVar("_T")


class AdjustmentPlan(Struct, frozen=True):
    """An adjustment in words.

    Attributes:
        env: by name.
        devices: paths of device nodes that must be there.
        optional_devices: paths of device nodes that may be there.
        cdi: fully qualified names.
        folders: to be made, for everybody to write to, if they are not there.
        fresh: the container's own folder, to be made anew.
    """

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    optional_devices: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    scratch_dirs: str | None = None

    def merged_with(self, *others: "AdjustmentPlan") -> "AdjustmentPlan":
        """All of them; of what several name, the first one's."""
        env, mounts, devices, optional = self.env, self.mounts, self.devices, self.optional_devices
        cdi, folders, fresh = self.cdi, self.folders, self.scratch_dirs
        for other in others:
            env = {**other.env, **env}
            mounts = _both(mounts, other.mounts)
            devices = _both(devices, other.devices)
            optional = _both(optional, other.optional_devices)
            cdi = _both(cdi, other.cdi)
            folders = _both(folders, other.folders)
            fresh = fresh or other.scratch_dirs
        return AdjustmentPlan(env, mounts, devices, optional, cdi, folders, fresh)

    def minus_present(self, container: NriContainer) -> "AdjustmentPlan":
        """What the container does not have yet.

        Naming again what another plugin has set would make the runtime refuse the container, also
        where both say the same: so a second copy of this agent finds nothing left to do.
        """
        mounts, devices, optional, cdi = self.mounts, self.devices, self.optional_devices, self.cdi
        if mounts:
            places = {(mount.destination, mount.source) for mount in container.mounts}
            mounts = tuple(m for m in mounts if (m.destination, m.source) not in places)
        if container.devices:
            paths = {device.path for device in container.devices}
            devices = tuple(path for path in devices if path not in paths)
            optional = tuple(path for path in optional if path not in paths)
        if container.cdi:
            cdi = tuple(name for name in cdi if name not in container.cdi)
        env = self._variables(container)
        return AdjustmentPlan(env, mounts, devices, optional, cdi, self.folders, self.scratch_dirs)

    def _variables(self, container: NriContainer) -> Mapping[str, str]:
        # A fresh container has none of them, and then its variables need not be taken apart.
        if self.env and not {f"{k}={v}" for k, v in self.env.items()}.isdisjoint(container.env):
            env = names_and_values(container.env)
            return {name: value for name, value in self.env.items() if env.get(name) != value}
        return self.env


def _both(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    """What either names, once."""
    return tuple(dict.fromkeys((*first, *second))) if first and second else first or second

"""What a container shall get, before anybody has looked whether the node has it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from adapters.node.nri import Container, Mount, names_and_values

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Plan:
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
    fresh: str | None = None

    def beside(self, other: "Plan") -> "Plan":
        """Both; of what both name, this one's."""
        return Plan(
            {**other.env, **self.env} if self.env else other.env,
            _both(self.mounts, other.mounts),
            _both(self.devices, other.devices),
            _both(self.optional_devices, other.optional_devices),
            _both(self.cdi, other.cdi),
            _both(self.folders, other.folders),
            self.fresh or other.fresh,
        )

    def missing(self, container: Container) -> "Plan":
        """What the container does not have yet.

        Naming again what another plugin has set would make the runtime refuse the container, also
        where both say the same: so a second copy of this agent finds nothing left to do.
        """
        mounts = {(mount.destination, mount.source) for mount in container.mounts}
        devices = {device.path for device in container.devices}
        return Plan(
            self._variables(container),
            tuple(m for m in self.mounts if (m.destination, m.source) not in mounts),
            tuple(path for path in self.devices if path not in devices),
            tuple(path for path in self.optional_devices if path not in devices),
            tuple(name for name in self.cdi if name not in container.cdi),
            self.folders,
            self.fresh,
        )

    def _variables(self, container: Container) -> Mapping[str, str]:
        # A fresh container has none of them, and then its variables need not be taken apart.
        if self.env and not {f"{k}={v}" for k, v in self.env.items()}.isdisjoint(container.env):
            env = names_and_values(container.env)
            return {name: value for name, value in self.env.items() if env.get(name) != value}
        return self.env


def _both(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    """What either names, once."""
    return tuple(dict.fromkeys((*first, *second))) if first and second else first or second

"""What a container shall get, before anybody has looked whether the node has it."""

from collections.abc import Iterable, Mapping
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
            {**other.env, **self.env},
            _once((*self.mounts, *other.mounts)),
            _once((*self.devices, *other.devices)),
            _once((*self.optional_devices, *other.optional_devices)),
            _once((*self.cdi, *other.cdi)),
            _once((*self.folders, *other.folders)),
            self.fresh or other.fresh,
        )

    def missing(self, container: Container) -> "Plan":
        """What the container does not have yet.

        Naming again what another plugin has set would make the runtime refuse the container, also
        where both say the same: so a second copy of this agent finds nothing left to do.
        """
        env = names_and_values(container.env)
        mounts = {(mount.destination, mount.source) for mount in container.mounts}
        devices = {device.path for device in container.devices}
        return Plan(
            {name: value for name, value in self.env.items() if env.get(name) != value},
            tuple(m for m in self.mounts if (m.destination, m.source) not in mounts),
            tuple(path for path in self.devices if path not in devices),
            tuple(path for path in self.optional_devices if path not in devices),
            tuple(name for name in self.cdi if name not in container.cdi),
            self.folders,
            self.fresh,
        )


def _once(things: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(things))

"""What NRI speaks of, as far as the agent reads or writes it.

Source: containerd/nri pkg/api/api.proto, where each of these has more fields.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum, IntFlag

from msgspec import Struct, field

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"


class NriEvent(IntEnum):
    """What a state change tells; of these only the one that is subscribed to."""

    REMOVE_CONTAINER = 11


class NriEventMask(IntFlag):
    """What a plugin subscribes to; an unknown bit is a refusal, and none at all means every one."""

    CREATE_CONTAINER = 0x8
    REMOVE_CONTAINER = 0x400


class ContainerState(IntEnum):
    """Of a container."""

    UNKNOWN = 0
    CREATED = 1
    PAUSED = 2
    RUNNING = 3
    STOPPED = 4


class Mount(Struct, frozen=True):
    """A mount of a container.

    Attributes:
        destination: inside.
        type: such as ``bind``.
        source: outside.
        options: such as ``ro``.
    """

    destination: str
    type: str
    source: str
    options: tuple[str, ...] = ()


class LinuxDevice(Struct, frozen=True):
    """A device node of a container.

    Attributes:
        path: inside.
        type: ``c`` or ``b``.
        major: of the device.
        minor: of the device.
        mode: permission bits of the node; None leaves them to the runtime.
    """

    path: str
    type: str
    major: int
    minor: int
    mode: int | None = None


class PodSandbox(Struct, frozen=True):
    """A pod, as the runtime knew it when its sandbox was made.

    Attributes:
        annotations: their names alone; what they say is nothing to go by.
    """

    id: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""
    annotations: frozenset[str] = frozenset()


class NriContainer(Struct, frozen=True):
    """A container, with what earlier plugins have added to it.

    Attributes:
        env: ``NAME=VALUE`` each, the image's included.
        cdi: fully qualified names of CDI devices.
    """

    id: str = ""
    pod: str = ""
    name: str = ""
    state: int = ContainerState.UNKNOWN
    env: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[LinuxDevice, ...] = ()
    cdi: tuple[str, ...] = ()


class RuntimeInfo(Struct, frozen=True):
    """Who the runtime is.

    Attributes:
        name: such as ``containerd``.
        version: as it writes it, with or without a leading ``v``.
        request_timeout: milliseconds that it waits for an answer; 0 where it does not say.
    """

    name: str = ""
    version: str = ""
    request_timeout: int = 0


class Adjustment(Struct, frozen=True):
    """What a container gets besides what its pod says.

    Attributes:
        env: by name.
        cdi: fully qualified names of CDI devices.
    """

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: tuple[Mount, ...] = ()
    devices: tuple[LinuxDevice, ...] = ()
    cdi: tuple[str, ...] = ()


def names_and_values(env: Sequence[str]) -> dict[str, str]:
    """A container's environment by name; of a name that stands twice, the last."""
    return {name: value for name, _, value in (line.partition("=") for line in env)}

"""NRI's types, as far as the agent reads or writes them.

Source: containerd/nri pkg/api/api.proto, where each of these has more fields.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum, IntFlag

from msgspec import Struct, field

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"


class NriEvent(IntEnum):
    """Kind of a state change; only the one that the agent subscribes to."""

    REMOVE_CONTAINER = 11


class NriEventMask(IntFlag):
    """Events that a plugin subscribes to; the runtime rejects unknown bits, and 0 means all."""

    CREATE_CONTAINER = 0x8
    STOP_CONTAINER = 0x200
    REMOVE_CONTAINER = 0x400


class ContainerState(IntEnum):
    """State of a container."""

    UNKNOWN = 0
    CREATED = 1
    PAUSED = 2
    RUNNING = 3
    STOPPED = 4


class Mount(Struct, frozen=True):
    """A mount of a container.

    Attributes:
        destination: path in the container.
        type: such as ``bind``.
        source: path on the host.
        options: such as ``ro``.
    """

    destination: str
    type: str
    source: str
    options: tuple[str, ...] = ()


class LinuxDevice(Struct, frozen=True):
    """A device node of a container.

    Attributes:
        type: ``c`` or ``b``.
        mode: permission bits of the node; None: the runtime's default.
    """

    path: str
    type: str
    major: int
    minor: int
    mode: int | None = None


class PodSandbox(Struct, frozen=True):
    """A pod, as the runtime saw it when it created the sandbox.

    Attributes:
        annotation_keys: keys of the annotations; the agent does not trust their values.
    """

    id: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""
    annotation_keys: frozenset[str] = frozenset()


class NriContainer(Struct, frozen=True):
    """A container, including what earlier plugins have added to it.

    Attributes:
        env: ``NAME=VALUE`` each, including the image's.
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
    """Name, version and timeout of the runtime.

    Attributes:
        name: such as ``containerd``.
        version: with or without a leading ``v``.
        request_timeout: milliseconds that it waits for an answer; 0 where it sets none.
    """

    name: str = ""
    version: str = ""
    request_timeout: int = 0


class Adjustment(Struct, frozen=True):
    """What the agent adds to a container.

    Attributes:
        env: values by name.
    """

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: tuple[Mount, ...] = ()
    devices: tuple[LinuxDevice, ...] = ()
    cdi: tuple[str, ...] = ()


def names_and_values(env: Sequence[str]) -> dict[str, str]:
    """Return a container's environment by name; of a repeated name, the last value."""
    return {name: value for name, _, value in (line.partition("=") for line in env)}

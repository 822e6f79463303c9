"""How the cards of one vendor get into a container on this node: the operator's, not the pod's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from adapters.node.nri.model import Mount


class Preload(Enum):
    """How HAMi-core gets into a container's processes."""

    FILE = "file"
    """As ``/etc/ld.so.preload``, for every process, whatever its environment."""
    VARIABLE = "variable"
    """As ``LD_PRELOAD``, before what the container's author preloads."""


@dataclass(frozen=True, slots=True)
class HamiCore:
    """Where HAMi-core is, outside and inside.

    The places inside are those of Volcano's device plugin (volcano-vgpu-device-plugin
    pkg/plugin/server.go:453-486); the library looks for itself and for its lock at fixed ones
    (HAMi-core src/libvgpu.c:95-100, src/utils.c:15).

    Attributes:
        library: outside.
        preload: how it gets in.
        preload_file: outside; a file with the library's place inside as its only line.
        lock: the folder of the lock that all containers share.
        caches: outside; the folder that has a folder for each container.
        cache: the container's own folder inside.
    """

    library: str = "/usr/local/vgpu/libvgpu.so"
    preload: Preload = Preload.FILE
    preload_file: str = "/usr/local/vgpu/ld.so.preload"
    lock: str = "/tmp/vgpulock"  # noqa: S108
    caches: str = "/usr/local/vgpu/containers"
    cache: str = "/tmp/vgpu"  # noqa: S108


@dataclass(frozen=True, slots=True)
class VendorProfile:
    """What a container with cards of one vendor gets.

    Texts may hold ``{uuid}`` and ``{index}`` where they stand for one card, and ``{uuids}``,
    ``{indexes}``, ``{memories}`` (MiB) and ``{computes}`` (percent), which are lists with commas.

    Attributes:
        served: False where the vendor's own node components serve its pods: hands off.
        visible: the variable that names the cards; empty for none. Where a container has no share
            of this vendor it is set to ``void``.
        names: its value.
        card_devices: device nodes of one card; what the inventory says of a card goes before.
        devices: device nodes that every container with a card needs.
        optional_devices: the same, as far as they are there.
        cdi: name of the CDI device of one card; empty where CDI is not used.
        env: more variables.
        mounts: more mounts.
        hami: HAMi-core, which keeps the bounds of a shared card; None where something else does.
    """

    served: bool = True
    visible: str = ""
    names: str = "{uuids}"
    card_devices: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    optional_devices: tuple[str, ...] = ()
    cdi: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    mounts: tuple[Mount, ...] = ()
    hami: HamiCore | None = None


VOID = "void"
"""Names no card, and is not "none", which would still let the driver's libraries in.

Source: NVIDIA/nvidia-container-toolkit, environment variables of the runtime.
"""

NVIDIA = VendorProfile(
    visible="NVIDIA_VISIBLE_DEVICES",
    card_devices=("/dev/nvidia{index}",),
    devices=("/dev/nvidiactl",),
    optional_devices=("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
    hami=HamiCore(),
)
"""With HAMi-core at its usual places."""

METAX = VendorProfile(served=False)
"""MetaX's own device plugin serves its pods, from the result that the binding carries."""

PROFILES: Mapping[str, VendorProfile] = MappingProxyType({"nvidia": NVIDIA, "metax": METAX})
"""By vendor, for a node that says nothing else."""

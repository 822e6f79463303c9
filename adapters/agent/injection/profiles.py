"""How a container gets the cards of one vendor on this node. The operator decides, not the pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType

import msgspec

from adapters.agent.nri.model import Mount


class Preload(Enum):
    """How HAMi-core is loaded into a container's processes."""

    FILE = "file"
    """Loaded by ``/etc/ld.so.preload``, into every process, whatever its environment."""
    VARIABLE = "variable"
    """Loaded by ``LD_PRELOAD``, before what the container's author preloads."""


class HamiCore(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Paths of HAMi-core on the host and in a container, as the configuration writes them.

    The paths in the container are those of Volcano's device plugin (volcano-vgpu-device-plugin
    pkg/plugin/server.go:453-486); the library looks for itself and for its lock at fixed paths
    (HAMi-core src/libvgpu.c:95-100, src/utils.c:15).

    Attributes:
        library: on the host.
        preload: how it is loaded.
        preload_file: on the host; its only line is the library's path in the container.
        lock: on the host; the folder of the lock that all containers share.
        caches: on the host; it has a folder for each container.
        cache: the container's own folder, in the container.
    """

    library: str = "/usr/local/vgpu/libvgpu.so"
    preload: Preload = Preload.FILE
    preload_file: str = "/usr/local/vgpu/ld.so.preload"
    lock: str = "/tmp/vgpulock"  # noqa: S108
    caches: str = "/usr/local/vgpu/containers"
    cache: str = "/tmp/vgpu"  # noqa: S108


@dataclass(frozen=True, slots=True)
class VendorProfile:
    """What the agent gives a container with cards of one vendor.

    Templates of one card may contain ``{uuid}`` and ``{index}``; other templates ``{uuids}``,
    ``{indexes}``, ``{memories}`` (MiB) and ``{computes}`` (percent), comma-separated lists.

    Attributes:
        injects: False where the vendor's own node components serve its pods; then the agent gives
            nothing.
        visible_env: the variable that makes cards visible; empty for none. The agent sets it to
            ``void`` in a container without a share of this vendor.
        card_devices: templates of one card's device nodes; the inventory's nodes take precedence.
        devices: device nodes that every container with a card needs.
        optional_devices: device nodes that it gets where they exist.
        cdi: template of the CDI device's name of one card; empty where CDI is not used.
        env: templates of more variables, by name.
        hami: HAMi-core, which enforces the limits of a shared card; None where something else does.
    """

    injects: bool = True
    visible_env: str = ""
    visible_value: str = "{uuids}"
    card_devices: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    optional_devices: tuple[str, ...] = ()
    cdi: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    mounts: tuple[Mount, ...] = ()
    hami: HamiCore | None = None


VOID = "void"
"""Makes no card visible; "none" would still mount the driver's libraries.

Source: NVIDIA/nvidia-container-toolkit, environment variables of the runtime.
"""

NVIDIA = VendorProfile(
    visible_env="NVIDIA_VISIBLE_DEVICES",
    card_devices=("/dev/nvidia{index}",),
    devices=("/dev/nvidiactl",),
    optional_devices=("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
    hami=HamiCore(),
)
"""NVIDIA's cards, with HAMi-core at its usual paths."""

METAX = VendorProfile(injects=False)
"""MetaX's own device plugin serves its pods, from the result in the binding."""

PROFILES: Mapping[str, VendorProfile] = MappingProxyType({"nvidia": NVIDIA, "metax": METAX})
"""The built-in profiles, by vendor."""


def cache_root(profiles: Mapping[str, VendorProfile]) -> Path | None:
    """Return the folder of the folders of limited containers; None without HAMi-core."""
    found = (profile.hami for profile in profiles.values())
    return next((Path(hami.caches) for hami in found if hami is not None), None)

"""Ways by which a container reaches cards past its share, as far as the runtime shows them.

A privileged container gets every device node of the host (containerd pkg/oci/spec_opts.go,
WithHostDevices) and the rule of the device group for all of them. Whoever has a container runtime's
socket starts containers that the kubelet, and NRI's caller with it, does not know: Docker in a
container does that with the host's daemon, or with one of its own in a privileged container.
"""

from collections.abc import Set
from functools import lru_cache

from adapters.node.hook.adjustment import Equipment
from adapters.node.hook.other_injectors import VISIBLE
from adapters.node.nri.model import NriContainer

SOCKETS = frozenset({"containerd.sock", "cri-dockerd.sock", "crio.sock", "docker.sock", "nri.sock"})

ROOMS = frozenset({"/run", "/run/containerd", "/run/crio", "/run/docker", "/run/nri"})
"""Folders that hold them; of /var/run too, which is a link to /run."""

_SHOWN = 4


def opens_all(container: NriContainer) -> bool:
    """Whether the container lets itself see every card, as images of CUDA do."""
    return f"{VISIBLE}=all" in container.env


def bypass_paths(container: NriContainer, own: Set[str], equipment: Equipment) -> str:
    """How the container reaches cards that are not its own, in a few words; empty for not at all.

    Args:
        container: as the runtime shows it, before anything is given to it or while it runs.
        own: uuids of the cards that it was sold.
        equipment: the node's hardware.
    """
    found = [mount.source for mount in container.mounts if _is_runtimes(mount.source)][:_SHOWN]
    if not container.devices:
        return ", ".join(found)
    nodes = {uuid: equipment.nodes(uuid) for uuid in equipment.cards}
    held = {node for uuid in own & nodes.keys() for node in nodes[uuid]}
    shown = {device.path for device in container.devices} - held
    foreign = sum(not shown.isdisjoint(nodes[uuid]) for uuid in nodes.keys() - own)
    if foreign:
        found.insert(0, f"device nodes of other cards ({foreign})")
    return ", ".join(found)


@lru_cache(256)
def _is_runtimes(source: str) -> bool:
    path = source.removeprefix("/var") if source.startswith("/var/run") else source
    return path.rpartition("/")[2] in SOCKETS or path.rstrip("/") in ROOMS

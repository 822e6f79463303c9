"""Paths by which a container reaches cards outside its share, as far as the runtime shows them.

A privileged container gets every device node of the host (containerd pkg/oci/spec_opts.go,
WithHostDevices) and the rule of the device group for all of them. A container with a container
runtime's socket can start containers that neither the kubelet nor NRI knows: Docker in a container
does that with the host's daemon, or with one of its own in a privileged container.
"""

from collections.abc import Set
from functools import lru_cache

from adapters.agent.injection.adjustment import Equipment
from adapters.agent.nri.model import NriContainer

RUNTIME_SOCKETS = frozenset(
    {"containerd.sock", "cri-dockerd.sock", "crio.sock", "docker.sock", "nri.sock"}
)

RUNTIME_SOCKET_DIRS = frozenset({"/run", "/run/containerd", "/run/crio", "/run/docker", "/run/nri"})
"""Folders with these sockets; the same below /var/run, which is a link to /run."""

_MAX_MOUNTS = 4


def bypass_paths(container: NriContainer, own: Set[str], equipment: Equipment) -> str:
    """How the container can reach cards that are not its own, in a few words; empty for not at all.

    Args:
        container: as the runtime shows it, before the agent adjusts it or while it runs.
        own: uuids of the cards that the ledger grants it.
        equipment: the node's hardware.
    """
    found = [mount.source for mount in container.mounts if _has_socket(mount.source)][:_MAX_MOUNTS]
    if not container.devices:
        return ", ".join(found)
    nodes = {uuid: equipment.device_nodes(uuid) for uuid in equipment.cards}
    own_nodes = {node for uuid in own & nodes.keys() for node in nodes[uuid]}
    others = {device.path for device in container.devices} - own_nodes
    foreign = sum(not others.isdisjoint(nodes[uuid]) for uuid in nodes.keys() - own)
    if foreign:
        found.insert(0, f"device nodes of other cards ({foreign})")
    return ", ".join(found)


@lru_cache(256)
def _has_socket(source: str) -> bool:
    path = source.removeprefix("/var") if source.startswith("/var/run") else source
    return path.rpartition("/")[2] in RUNTIME_SOCKETS or path.rstrip("/") in RUNTIME_SOCKET_DIRS

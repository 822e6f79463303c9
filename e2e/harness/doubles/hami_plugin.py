"""HAMi's device plugin for NVIDIA cards, as far as the API server sees it.

It finds its pod and the devices of each container by the rules of the plugin's source, and not by
the product's readers. A kubelet would call it once for a pod with all of its containers.
Source: HAMi v2.10 pkg/util/util.go (GetPendingPod), pkg/util/nodelock/nodelock.go (ParseNodeLock),
pkg/device/devices.go (DecodePodDevices, EncodePodSingleDevice) and
pkg/device-plugin/nvidiadevice/nvinternal/plugin/{server,util}.go (Allocate,
popNextContainerDevices, PodAllocationSuccess).
"""

from dataclasses import dataclass

from e2e.harness.cluster.api import Api, Object

LOCK = "hami.io/mutex.lock"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = "hami.io/bind-phase"


class PluginError(Exception):
    """The plugin would answer the kubelet with an error, and the pod would not start."""


@dataclass(frozen=True, slots=True)
class Device:
    """One entry of a list: uuid of the card, MiB, percent."""

    uuid: str
    memory: int
    cores: int


def serve(api: Api, node: str) -> tuple[str, dict[str, dict[str, str]]]:
    """Serve the pod of the node's lock.

    Returns:
        its name, and the environment of each of its containers that has a card.

    Raises:
        PluginError: there is no pod, or its record cannot be used.
    """
    lock = api.get(f"/api/v1/nodes/{node}")["metadata"].get("annotations", {}).get(LOCK)
    if lock is None:
        raise PluginError(f"no pod holds {node}")
    stamp, space, name = lock.split(",")
    if "T" not in stamp:
        raise PluginError(f"{stamp} is no time")
    path = f"/api/v1/namespaces/{space}/pods/{name}"
    pod = api.get(path)
    lists = _decoded(pod["metadata"]["annotations"][TO_ALLOCATE])
    found: dict[str, dict[str, str]] = {}
    for container in _containers(pod):
        wanted = int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
        if wanted:
            owner, devices = _pop(pod, lists)
            if len(devices) != wanted:
                raise PluginError("device number not matched")
            found[owner] = _environment(devices)
    if any(lists):
        raise PluginError("devices are left that no container took")
    erased = ";" * len(lists)
    api.merge(path, {"metadata": {"annotations": {TO_ALLOCATE: erased, PHASE: "success"}}})
    api.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {LOCK: None}}})
    return name, found


def _containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def _decoded(text: str) -> list[list[Device]]:
    """A text that ends with a separator has one empty list more, as in Go."""
    found: list[list[Device]] = []
    for segment in text.split(";"):
        devices: list[Device] = []
        for entry in segment.split(":"):
            if "," in entry:
                uuid, kind, memory, cores = entry.split(",")[:4]
                if kind != "NVIDIA":
                    raise PluginError(f"{kind} is not NVIDIA")
                devices.append(Device(uuid, int(memory), int(cores)))
        found.append(devices)
    return found


def _pop(pod: Object, lists: list[list[Device]]) -> tuple[str, list[Device]]:
    """The first list that has devices, and the container at its place; the list is erased."""
    for index, devices in enumerate(lists):
        if devices:
            lists[index] = []
            return str(_containers(pod)[index]["name"]), devices
    raise PluginError("no pending device allocation found")


def _environment(devices: list[Device]) -> dict[str, str]:
    limits = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{index}": f"{device.memory}m"
        for index, device in enumerate(devices)
    }
    visible = ",".join(device.uuid for device in devices)
    return {
        **limits,
        "CUDA_DEVICE_SM_LIMIT": str(devices[0].cores),
        "NVIDIA_VISIBLE_DEVICES": visible,
    }

"""The device plugins of HAMi and Volcano for NVIDIA cards: what they answer and patch.

They find the pod and the devices of a container by the rules of the plugins' sources, and not by
the product's readers; ``e2e/captures/device-plugins`` has what the real ones answered. A kubelet
calls once for each container that has devices. One that fails says so on the pod that it took for
the kubelet's.
Source: HAMi v2.10 pkg/util/util.go (GetPendingPod), pkg/util/nodelock/nodelock.go (ParseNodeLock),
pkg/device/devices.go (DecodePodDevices, EncodePodSingleDevice) and
pkg/device-plugin/nvidiadevice/nvinternal/plugin/{server,util}.go (Allocate,
popNextContainerDevices, podAllocationTrySuccess); volcano-vgpu-device-plugin 4fb76ba
pkg/plugin/server.go (Allocate), pkg/util/util.go (getOldestPod and the functions after it).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from e2e.harness.cluster.api import Object

LOCK = "hami.io/mutex.lock"
HAMI, VOLCANO = "hami.io/", "volcano.sh/"
TO_ALLOCATE = {HAMI: "hami.io/vgpu-devices-to-allocate", VOLCANO: "volcano.sh/devices-to-allocate"}
PHASE = "bind-phase"
NODE, TIME = "volcano.sh/vgpu-node", "volcano.sh/vgpu-time"
LAST = str(2**64 - 1)
"""The time of a pod that no longer waits."""

_POSITION = re.compile(r"\[.*-(\d+)\]")


class PluginError(Exception):
    """The plugin answers the kubelet with an error, and the pod does not start."""


class Cluster(Protocol):
    """The API server."""

    def get(self, path: str) -> Object:
        """An object, or a list of objects."""

    def merge(self, path: str, body: Object) -> Object:
        """Change an object."""


@dataclass(frozen=True, slots=True)
class Device:
    """One entry of a list: uuid of the card, units of memory, percent."""

    uuid: str
    memory: int
    cores: int

    @property
    def text(self) -> str:
        """The entry."""
        return f"{self.uuid},NVIDIA,{self.memory},{self.cores}:"


@dataclass(frozen=True, slots=True)
class Response:
    """What a container gets; mounts are ``HOST:CONTAINER``, with ``:ro`` at the end or not."""

    envs: Mapping[str, str]
    mounts: Sequence[str]


@dataclass(frozen=True, slots=True)
class HamiPlugin:
    """HAMi's, on a node whose lock names the pod."""

    api: Cluster
    node: str

    def allocate(self, count: int) -> Response:
        """Answer one call of the kubelet, for a container of this number of devices.

        Raises:
            PluginError: it refuses.
        """
        pod = self.pending()
        lists = _decoded(pod["metadata"]["annotations"][TO_ALLOCATE[HAMI]])
        owners = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
        number = next((index for index, each in enumerate(lists) if each), None)
        devices = [] if number is None else lists[number]
        if number is None or len(devices) != count:
            self._end(pod, "failed")
            none = "no pending device allocation found"
            raise PluginError(none if number is None else "device number not matched")
        lists[number] = []
        # Every list is ended, also the empty one after the last separator: one more at each call.
        rest = "".join("".join(device.text for device in each) + ";" for each in lists)
        _patch(self.api, pod, {TO_ALLOCATE[HAMI]: rest})
        if not any(lists):
            self._end(pod, "success")
        folder = f"/usr/local/vgpu/containers/{pod['metadata']['uid']}_{owners[number]['name']}"
        visible = {"LIBCUDA_LOG_LEVEL": "1", "NVIDIA_VISIBLE_DEVICES": _uuids(devices)}
        return _limited(visible, devices, 1, folder, "/usr/local/vgpu")

    def pending(self) -> Object:
        """The pod of the lock.

        Raises:
            PluginError: there is none. The real one would take any Pending pod of the node.
        """
        path = f"/api/v1/nodes/{self.node}"
        lock = self.api.get(path)["metadata"].get("annotations", {}).get(LOCK)
        if lock is None:
            raise PluginError(f"no pod holds {self.node}")
        stamp, space, name = lock.split(",")
        if "T" not in stamp:
            raise PluginError(f"{stamp} is no time")
        return self.api.get(f"/api/v1/namespaces/{space}/pods/{name}")

    def _end(self, pod: Object, phase: str) -> None:
        _patch(self.api, pod, {HAMI + PHASE: phase})
        lock = {"metadata": {"annotations": {LOCK: None}}}
        self.api.merge(f"/api/v1/nodes/{self.node}", lock)


@dataclass(frozen=True, slots=True)
class VolcanoPlugin:
    """Volcano's.

    Attributes:
        factor: MiB of one unit of memory.
        instances: uuids of MIG instances, by the card's, for mode mig; empty for other modes.
    """

    api: Cluster
    node: str
    factor: int = 10
    instances: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def allocate(self, count: int) -> Response:
        """Answer one call of the kubelet, for a container of this number of devices.

        Raises:
            PluginError: it refuses.
        """
        pod = self.pending(count)
        lists = _decoded(pod["metadata"]["annotations"][TO_ALLOCATE[VOLCANO]])
        number = next(index for index, each in enumerate(lists) if each)
        devices = lists[number]
        if len(devices) != count:
            self._end(pod, "failed")
            raise PluginError("device number not matched")
        lists[number] = []
        rest = ";".join("".join(device.text for device in each) for each in lists)
        _patch(self.api, pod, {TO_ALLOCATE[VOLCANO]: rest})
        if not any(lists):
            self._end(pod, "success")
        # Not the container of the call: the record has no lists of containers without cards.
        owner = pod["spec"]["containers"][number]["name"]
        folder = f"/usr/local/vgpu/vgpu/containers/{pod['metadata']['uid']}_{owner}"
        visible = {f"NVIDIA_{name}": "enabled" for name in ("GDS", "GDRCOPY", "MOFED")}
        if self.instances:
            visible["NVIDIA_VISIBLE_DEVICES"] = ",".join(map(self._instance, devices))
            return Response(visible, ())
        visible["NVIDIA_VISIBLE_DEVICES"] = _uuids(devices)
        return _limited(visible, devices, self.factor, folder, "/tmp/vgpu")

    def pending(self, count: int) -> Object:
        """The oldest pod of the node whose containers have this number of devices together.

        Raises:
            PluginError: there is none.
        """
        found: list[tuple[int, Object]] = []
        for pod in self.api.get("/api/v1/pods")["items"]:
            texts = pod["metadata"].get("annotations", {})
            total = sum(map(len, _decoded(texts.get(TO_ALLOCATE[VOLCANO], ""))))
            if texts.get(NODE) == self.node and total == count:
                found.append((int(texts.get(TIME, LAST)), pod))
        if not found:
            raise PluginError("cannot get valid pod")
        return min(found, key=lambda each: each[0])[1]

    def _instance(self, device: Device) -> str:
        card, _, place = device.uuid.partition("[")
        at = _POSITION.fullmatch(f"[{place}")
        if at is None:
            raise PluginError(f"{device.uuid} names no instance")
        return self.instances[card][int(at[1])]

    def _end(self, pod: Object, phase: str) -> None:
        _patch(self.api, pod, {VOLCANO + PHASE: phase, TIME: LAST})


def serve(api: Cluster, node: str) -> tuple[str, dict[str, Response]]:
    """Do what a kubelet with HAMi's plugin does for the pod of the node's lock.

    Returns:
        its name, and what each of its containers gets that has a card.

    Raises:
        PluginError: there is no pod, or its record cannot be used.
    """
    plugin = HamiPlugin(api, node)
    pod = plugin.pending()
    found: dict[str, Response] = {}
    for container in [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]:
        wanted = int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
        if wanted:
            found[container["name"]] = plugin.allocate(wanted)
    return pod["metadata"]["name"], found


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


def _patch(api: Cluster, pod: Object, annotations: Mapping[str, str]) -> None:
    facts = pod["metadata"]
    path = f"/api/v1/namespaces/{facts['namespace']}/pods/{facts['name']}"
    api.merge(path, {"metadata": {"annotations": annotations}})


def _uuids(devices: Sequence[Device]) -> str:
    return ",".join(device.uuid for device in devices)


def _limited(
    envs: Mapping[str, str], devices: Sequence[Device], factor: int, folder: str, inside: str
) -> Response:
    limits = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{index}": f"{device.memory * factor}m"
        for index, device in enumerate(devices)
    }
    more = {
        "CUDA_DEVICE_SM_LIMIT": str(devices[0].cores),
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{inside}/{uuid4()}.cache",
    }
    mounts = (
        "/usr/local/vgpu/libvgpu.so:/usr/local/vgpu/libvgpu.so:ro",
        f"{folder}:{inside}",
        "/tmp/vgpulock:/tmp/vgpulock",
        "/usr/local/vgpu/ld.so.preload:/etc/ld.so.preload:ro",
    )
    return Response({**envs, **limits, **more}, mounts)

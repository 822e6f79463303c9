"""The metrics of a node's cards and of the shares on them.

Names and labels as the guides' monitor has them (HAMi cmd/vGPUmonitor/metrics.go, with its
``--legacy-metrics``), and beside them the names of today's version of it; all carry its constant
label ``zone="vGPU"``.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from adapters.node.adjust import Instance
from adapters.node.counts import Counts
from adapters.node.exposition import Family, Sample
from adapters.node.grants import Answer
from adapters.node.inventory import Hardware, Load
from adapters.node.region import CardUsage, Region, RegionError, read
from adapters.node.tenants import Tenant, Tenants
from core.card import Card
from core.limits import GrantError, Limits

_ZONE = {"zone": "vGPU"}
_MOST_FILES = 16
_LONGEST_UUID = 40


@dataclass(frozen=True, slots=True)
class Use:
    """One card as one container uses it.

    Attributes:
        place: of the card among the container's.
        idle: seconds since the container last started a kernel; 0 where that is not known.
    """

    tenant: Tenant
    place: int
    card: CardUsage
    idle: int


@dataclass(slots=True)
class Monitor:
    """What is told about a node.

    Attributes:
        node: its name.
        tenants: its containers.
        hardware: what is in it.
        loads: how busy its cards are, by uuid.
        counts: what the hook did.
        granted: what a container may use, by uid of its pod and its name.
        now: seconds since 1970.
    """

    node: str
    tenants: Tenants
    hardware: Callable[[], Hardware]
    loads: Callable[[], Mapping[str, Load]]
    counts: Counts
    granted: Callable[[str, str], Answer]
    now: Callable[[], float] = time.time

    def families(self) -> list[Family]:
        """Everything, as it is now."""
        cards = {card.uuid: card for card in self.hardware().cards}
        uses = list(self._uses(cards))
        return [*self._host(cards), *_shares(uses), *self._slices(), *_hook(self.counts)]

    def _slices(self) -> list[Family]:
        found: list[Both] = []
        instances = self.hardware().instances
        for (uid, name), tenant in self.tenants.present():
            try:
                limits = self.granted(uid, name)
            except GrantError:
                continue
            if not isinstance(limits, Limits):
                continue
            for place, limit in enumerate(sorted(limits.cards, key=lambda c: (c.index, c.uuid))):
                if limit.slice is None:
                    continue
                key = (limit.uuid, limit.slice.profile, limit.slice.start)
                if key in instances:
                    found.append(_sliced(tenant, place, key, instances[key]))
        return _both("MigInfo", "hami_mig_device_info", "MIG device of a container", found)

    def _uses(self, cards: Mapping[str, Card]) -> Iterable[Use]:
        for tenant, folder in self.tenants.folders():
            region = region_of(folder)
            if region is None:
                continue
            # A clock that was set back is no negative idleness, and a value from outside no date.
            now = int(self.now())
            idle = now - region.last_kernel if 0 < region.last_kernel <= now else 0
            for place, card in enumerate(region.cards):
                # The container can write any uuid there, but not make it a card of this node.
                if card.uuid and (not cards or card.uuid in cards):
                    yield Use(tenant, place, card, idle)

    def _host(self, cards: Mapping[str, Card]) -> list[Family]:
        memory: list[tuple[Card, float]] = []
        compute: list[tuple[Card, float]] = []
        bus: list[Sample] = []
        for uuid, load in self.loads().items():
            card = cards.get(uuid)
            if card is not None:
                memory.append((card, load.memory))
                compute.append((card, load.compute))
                bus.append(Sample(_device(card), load.bus))
        return [
            *_both(
                "HostGPUMemoryUsage",
                "hami_host_gpu_memory_used_bytes",
                "GPU device memory usage",
                [_host_labels(self.node, card, value) for card, value in memory],
            ),
            *_both(
                "HostCoreUtilization",
                "hami_host_gpu_utilization_ratio",
                "GPU core utilization",
                [_host_labels(self.node, card, value) for card, value in compute],
            ),
            Family(
                "hami_host_gpu_memory_controller_utilization_ratio",
                "GPU memory controller utilization",
                tuple(bus),
            ),
        ]


def region_of(folder: Path) -> Region | None:
    """The region in a container's folder; None where there is none that can be read.

    The container can write there: only so many names are looked at, and only one is read.
    """
    try:
        names = []
        for path in folder.iterdir():
            names.append(path)
            if len(names) == _MOST_FILES:
                break
        own = folder / f"{folder.name}.cache"
        others = sorted(path for path in names if path.suffix == ".cache" and path != own)
        for path in (own, *others):
            try:
                return read(path)
            except (RegionError, OSError):
                continue
    except OSError:
        pass
    return None


Both = tuple[Sample, Sample]


def _both(old: str, new: str, text: str, samples: Iterable[Both]) -> list[Family]:
    pairs = list(samples)
    return [
        Family(old, text, tuple(pair[0] for pair in pairs)),
        Family(new, text, tuple(pair[1] for pair in pairs)),
    ]


def _host_labels(node: str, card: Card, value: float) -> Both:
    uuid, kind = card.uuid[:_LONGEST_UUID], f"NVIDIA-{card.model}"
    index = str(card.index)
    old = {"nodeid": node, "deviceidx": index, "deviceuuid": uuid, "devicetype": kind}
    new = {"node": node, "device_index": index, "device_uuid": uuid, "device_type": kind}
    return Sample(old | _ZONE, value), Sample(new | _ZONE, value)


def _device(card: Card) -> dict[str, str]:
    return {
        "device_index": str(card.index),
        "device_uuid": card.uuid[:_LONGEST_UUID],
        "device_type": f"NVIDIA-{card.model}",
    } | _ZONE


def _sliced(tenant: Tenant, place: int, key: tuple[str, str, int], instance: Instance) -> Both:
    uuid, profile, _ = key
    number, compute = _known(instance.gpu_instance), _known(instance.compute_instance)
    old = {
        "podnamespace": tenant.namespace,
        "podname": tenant.pod,
        "ctrname": tenant.container,
        "vdeviceid": str(place),
        "deviceuuid": uuid[:_LONGEST_UUID],
        "instanceid": number,
    }
    new = {
        "namespace": tenant.namespace,
        "pod": tenant.pod,
        "container": tenant.container,
        "vdevice_index": str(place),
        "device_uuid": uuid[:_LONGEST_UUID],
        "mig_uuid": instance.uuid,
        "profile": profile,
        "gpu_instance_id": number,
        "compute_instance_id": compute,
    }
    return Sample(old | _ZONE, 1), Sample(new | _ZONE, 1)


def _known(number: int | None) -> str:
    return "" if number is None else str(number)


def _old(use: Use) -> dict[str, str]:
    return {
        "podnamespace": use.tenant.namespace,
        "podname": use.tenant.pod,
        "ctrname": use.tenant.container,
        "vdeviceid": str(use.place),
        "deviceuuid": use.card.uuid[:_LONGEST_UUID],
    } | _ZONE


def _new(use: Use) -> dict[str, str]:
    return {
        "namespace": use.tenant.namespace,
        "pod": use.tenant.pod,
        "container": use.tenant.container,
        "vdevice_index": str(use.place),
        "device_uuid": use.card.uuid[:_LONGEST_UUID],
    } | _ZONE


def _described(use: Use) -> dict[str, str]:
    card = use.card
    return _old(use) | {
        "context": str(card.context),
        "module": str(card.module),
        "data": str(card.data),
        "offset": str(card.offset),
    }


def _shares(uses: list[Use]) -> list[Family]:
    def families(old: str, new: str, text: str, value: Callable[[Use], float]) -> list[Family]:
        pairs = [(Sample(_old(use), value(use)), Sample(_new(use), value(use))) for use in uses]
        return _both(old, new, text, pairs)

    def detail(name: str, text: str, value: Callable[[Use], float]) -> Family:
        return Family(name, text, tuple(Sample(_new(use), value(use)) for use in uses))

    return [
        *families(
            "vGPU_device_memory_usage_in_bytes",
            "hami_vgpu_memory_used_bytes",
            "vGPU device usage",
            lambda use: use.card.used,
        ),
        *families(
            "vGPU_device_memory_limit_in_bytes",
            "hami_vgpu_memory_limit_bytes",
            "vGPU device limit",
            lambda use: use.card.limit,
        ),
        *_both(
            "Device_memory_desc_of_container",
            "hami_container_device_memory_bytes",
            "Container device memory description",
            [
                (Sample(_described(use), use.card.used), Sample(_new(use), use.card.used))
                for use in uses
            ],
        ),
        *families(
            "Device_utilization_desc_of_container",
            "hami_container_device_utilization_ratio",
            "Container device utilization description",
            lambda use: use.card.compute,
        ),
        *_both(
            "Device_last_kernel_of_container",
            "hami_container_last_kernel_elapsed_seconds",
            "Container device last kernel description",
            [
                (Sample(_old(use), use.idle), Sample(_new(use), use.idle))
                for use in uses
                if use.idle
            ],
        ),
        detail("hami_vgpu_memory_context_bytes", "of contexts", lambda use: use.card.context),
        detail("hami_vgpu_memory_module_bytes", "of modules", lambda use: use.card.module),
        detail("hami_vgpu_memory_buffer_bytes", "of data", lambda use: use.card.data),
    ]


def _hook(counts: Counts) -> list[Family]:
    def counter(name: str, text: str, value: int) -> Family:
        return Family(f"dragoman_node_{name}", text, (Sample({}, value),), "counter")

    def gauge(name: str, text: str, value: int) -> Family:
        return Family(f"dragoman_node_{name}", text, (Sample({}, value),))

    return [
        counter("containers_adjusted_total", "containers that got something", counts.adjusted),
        counter("containers_untouched_total", "containers that needed nothing", counts.untouched),
        counter("containers_refused_total", "containers kept from starting", counts.refused),
        counter("containers_late_total", "of these, without an answer in time", counts.late),
        counter("connections_total", "times the runtime was reached", counts.connections),
        gauge("containers_unserved", "containers running without their share", counts.unserved),
        gauge("containers_exposed", "containers that reach cards past their share", counts.exposed),
        gauge("active", "whether the runtime asks the agent", int(counts.active)),
    ]

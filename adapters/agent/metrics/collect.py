"""The metrics of a node, collected for each scrape: cards, shares, grants, MIG instances, the hook.

Each value has the name and labels of the guides' monitor (HAMi cmd/vGPUmonitor/metrics.go, with its
``--legacy-metrics``), and those of HAMi's present version. What containers were granted has our own
names. The grants are the ledger's. What containers use is HAMi-core's record in the container's
folder: the container can write there, so that it is no proof of what it uses or of its limits.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from adapters.agent.grants import GrantAnswer
from adapters.agent.hardware.model import CardLoad, Hardware
from adapters.agent.hook.containers import ContainerInfo, ContainerRegistry
from adapters.agent.hook.reporter import HookCounters
from adapters.agent.metrics.hami_region import RegionCard, region_of
from adapters.agent.metrics.server import Family, Sample
from core.hardware.card import Card
from core.hardware.mig import MigKey
from core.hardware.quantity import FULL
from core.requests.limits import CardLimit, GrantError, Limits

ZONE = {"zone": "vGPU"}
"""A label of every sample of the guides' monitor."""

_MAX_UUID = 40
"""Characters of a uuid in a label; a container may have written it, at any length."""

Labels = dict[str, str]

Row = tuple[Labels, Labels, float]
"""The guides' labels, the present ones, and the value."""


@dataclass(frozen=True, slots=True)
class ShareUse:
    """One card as one container uses it.

    Attributes:
        index: of the card among the container's.
        idle: seconds since the container last started a kernel; None where it is not known.
    """

    container: ContainerInfo
    index: int
    card: RegionCard
    idle: int | None


Grants = Sequence[tuple[ContainerInfo, list[CardLimit]]]
"""The containers of the node, each with the cards that the ledger grants it."""

_DESCRIBED = "Device_memory_desc_of_container"
_SHARES = (
    (
        "vGPU_device_memory_usage_in_bytes",
        "hami_vgpu_memory_used_bytes",
        "vGPU device usage",
        "used",
    ),
    (
        "vGPU_device_memory_limit_in_bytes",
        "hami_vgpu_memory_limit_bytes",
        "vGPU device limit",
        "limit",
    ),
    (
        _DESCRIBED,
        "hami_container_device_memory_bytes",
        "Container device memory description",
        "used",
    ),
    (
        "Device_utilization_desc_of_container",
        "hami_container_device_utilization_ratio",
        "Container device utilization description",
        "compute",
    ),
    ("", "hami_vgpu_memory_context_bytes", "Container device memory of contexts", "context"),
    ("", "hami_vgpu_memory_module_bytes", "Container device memory of modules", "module"),
    ("", "hami_vgpu_memory_buffer_bytes", "Container device memory of data", "data"),
)
"""Metrics of a container's card: guides' name, if any, present one, help, attribute of the card."""

_PARTS = ("context", "module", "data", "offset")
"""Parts of the memory, which are labels of the guides' ``Device_memory_desc_of_container``."""

_HOOK = (
    ("containers_adjusted_total", "Containers that got an adjustment.", "adjusted"),
    ("containers_untouched_total", "Containers that needed no adjustment.", "untouched"),
    ("containers_refused_total", "Containers that the agent kept from starting.", "rejected"),
    ("containers_late_total", "Containers rejected because there was no answer in time.", "late"),
    ("connections_total", "Connections to the runtime that became active.", "connections"),
    ("containers_unserved", "Containers that run without their share.", "without_share"),
    ("containers_exposed", "Containers that can reach cards outside their share.", "with_bypass"),
    ("active", "1 while the runtime calls the agent, else 0.", "active"),
)
"""Metrics of the hook: name, help, and attribute of the counters."""


@dataclass(slots=True)
class MetricsCollector:
    """Collects the metrics of a node.

    Attributes:
        loads: of its cards, by uuid.
        granted: a container's grant, by uid of its pod and its name.
        now: seconds since 1970.
    """

    node: str
    containers: ContainerRegistry
    hardware: Callable[[], Hardware]
    loads: Callable[[], Mapping[str, CardLoad]]
    counters: HookCounters
    granted: Callable[[str, str], GrantAnswer]
    now: Callable[[], float] = time.time

    def families(self) -> list[Family]:
        """Collect all metrics, as they are now."""
        hardware, now = self.hardware(), int(self.now())
        cards = {card.uuid: card for card in hardware.cards}
        uses: list[ShareUse] = []
        for container, folder in self.containers.cache_dirs():
            region = region_of(folder)
            if region is None:
                continue
            # The clock may have been set back, and the container can write any time there: as
            # in HAMi's monitor, a time that is to come is now.
            idle = max(now - region.last_kernel, 0) if region.last_kernel else None
            # The container can write any uuid there, but not make it a card of this node.
            uses += [
                ShareUse(container, index, card, idle)
                for index, card in enumerate(region.cards)
                if card.uuid and (not cards or card.uuid in cards)
            ]
        grants: list[tuple[ContainerInfo, list[CardLimit]]] = []
        for container in self.containers.present():
            granted: list[CardLimit] = []
            with suppress(GrantError):
                limits = self.granted(container.uid, container.container)
                granted += limits.cards if isinstance(limits, Limits) else ()
            # In the order in which the container numbers them.
            granted.sort(key=lambda card: (card.index, card.uuid))
            grants.append((container, granted))
        return [
            *_card_families(self.node, cards, self.loads()),
            *_share_families(uses),
            *_granted_families(self.node, grants, uses),
            *_both(
                "MigInfo",
                "hami_mig_device_info",
                "MIG device of a container",
                _mig_rows(grants, hardware),
            ),
            *(
                Family(
                    f"dragoman_node_{name}",
                    text,
                    (Sample({}, getattr(self.counters, count)),),
                    "counter" if name.endswith("_total") else "gauge",
                )
                for name, text, count in _HOOK
            ),
        ]


def _both(old: str, new: str, text: str, rows: Iterable[Row]) -> Iterator[Family]:
    """Yield a family with the guides' name and labels, unless it has none, and the present one."""
    known = list(rows)
    if old:
        yield Family(old, text, tuple(Sample(labels, value) for labels, _, value in known))
    yield Family(new, text, tuple(Sample(labels, value) for _, labels, value in known))


def _container_labels(container: ContainerInfo, index: int, uuid: str) -> tuple[Labels, Labels]:
    """Return the guides' and the present labels of a container and the card of an index."""
    own = container.namespace, container.pod, container.container, str(index), uuid[:_MAX_UUID]
    old = "podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid"
    new = "namespace", "pod", "container", "vdevice_index", "device_uuid"
    return dict(zip(old, own, strict=True)), dict(zip(new, own, strict=True))


def _card_families(
    node: str, cards: Mapping[str, Card], loads: Mapping[str, CardLoad]
) -> Iterator[Family]:
    """Say how busy the cards are; loads of unknown cards are left out."""
    rows: list[tuple[Labels, Labels, CardLoad]] = []
    for uuid, load in loads.items():
        card = cards.get(uuid)
        if card is not None:
            own = str(card.index), uuid[:_MAX_UUID], f"NVIDIA-{card.model}"
            old = dict(zip(("deviceidx", "deviceuuid", "devicetype"), own, strict=True)) | ZONE
            new = dict(zip(("device_index", "device_uuid", "device_type"), own, strict=True)) | ZONE
            rows.append((old, new, load))
    yield from _both(
        "HostGPUMemoryUsage",
        "hami_host_gpu_memory_used_bytes",
        "GPU device memory usage",
        [({"nodeid": node} | old, {"node": node} | new, load.memory) for old, new, load in rows],
    )
    yield from _both(
        "HostCoreUtilization",
        "hami_host_gpu_utilization_ratio",
        "GPU core utilization",
        [({"nodeid": node} | old, {"node": node} | new, load.compute) for old, new, load in rows],
    )
    yield Family(
        "hami_host_gpu_memory_controller_utilization_ratio",
        "GPU memory controller utilization",
        tuple(Sample(new, load.bus) for _, new, load in rows),
    )


def _share_families(uses: Sequence[ShareUse]) -> Iterator[Family]:
    """Say how much of each card each container uses, and its limits."""
    labels = [_container_labels(use.container, use.index, use.card.uuid) for use in uses]
    described = [
        (use, old | ZONE, new | ZONE) for use, (old, new) in zip(uses, labels, strict=True)
    ]
    for name, present, text, attribute in _SHARES:
        rows = [(old, new, getattr(use.card, attribute)) for use, old, new in described]
        if name == _DESCRIBED:
            rows = [
                (old | {part: str(getattr(use.card, part)) for part in _PARTS}, new, use.card.used)
                for use, old, new in described
            ]
        yield from _both(name, present, text, rows)
    yield from _both(
        "Device_last_kernel_of_container",
        "hami_container_last_kernel_elapsed_seconds",
        "Container device last kernel description",
        [(old, new, use.idle) for use, old, new in described if use.idle is not None],
    )


def _granted_families(node: str, grants: Grants, uses: Sequence[ShareUse]) -> Iterator[Family]:
    """Say what the ledger grants each container on each card, beside what it uses."""

    def labels(container: ContainerInfo, uuid: str) -> Labels:
        return {
            "node": node,
            "namespace": container.namespace,
            "pod": container.pod,
            "container": container.container,
            "uuid": uuid[:_MAX_UUID],
        }

    granted: list[tuple[Labels, int, int]] = []
    for container, limits in grants:
        sums: dict[str, tuple[int, int]] = {}
        for limit in limits:  # a container can have several slices of a card
            memory, compute = sums.get(limit.uuid, (0, 0))
            sums[limit.uuid] = memory + limit.memory, compute + limit.compute
        granted += [(labels(container, uuid), *amounts) for uuid, amounts in sums.items()]
    recorded = [(labels(use.container, use.card.uuid), use.card) for use in uses]
    yield Family(
        "dragoman_container_memory_granted_bytes",
        "Memory of a card that the ledger grants a container.",
        tuple(Sample(own, memory) for own, memory, _ in granted),
    )
    yield Family(
        "dragoman_container_compute_granted_ratio",
        "Compute of a card that the ledger grants a container, 0 to 1; 0: none is reserved.",
        tuple(Sample(own, compute / FULL) for own, _, compute in granted),
    )
    yield Family(
        "dragoman_container_memory_used_bytes",
        "Memory of a card that a container uses, as HAMi-core records it.",
        tuple(Sample(own, card.used) for own, card in recorded),
    )
    yield Family(
        "dragoman_container_memory_limit_bytes",
        "Memory of a card to which HAMi-core limits a container; 0 for no limit.",
        tuple(Sample(own, card.limit) for own, card in recorded),
    )
    yield Family(
        "dragoman_container_compute_used_ratio",
        "Compute of a card that a container uses, 0 to 1, as HAMi-core records it.",
        tuple(Sample(own, card.compute / FULL) for own, card in recorded),
    )


def _mig_rows(grants: Grants, hardware: Hardware) -> Iterator[Row]:
    """Say which MIG instances are granted to containers and exist."""
    for container, limits in grants:
        for index, limit in enumerate(limits):
            if limit.slice is None:
                continue
            key = MigKey(limit.uuid, limit.slice.profile, limit.slice.start)
            instance = hardware.instances.get(key)
            if instance is None:
                continue
            old, new = _container_labels(container, index, limit.uuid)
            gpu, compute = (
                "" if number is None else str(number)
                for number in (instance.gpu_instance, instance.compute_instance)
            )
            more = {
                "mig_uuid": instance.uuid,
                "profile": limit.slice.profile,
                "gpu_instance_id": gpu,
                "compute_instance_id": compute,
            }
            yield old | {"instanceid": gpu} | ZONE, new | more | ZONE, 1

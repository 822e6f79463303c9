"""The metrics of a node, collected for each scrape: cards, shares, grants, MIG instances, the hook.

Each value has the name and labels of the guides' monitor (HAMi cmd/vGPUmonitor/metrics.go, with its
``--legacy-metrics``), and those of HAMi's present version. What containers were granted has our own
names. The grants are the ledger's. What containers use is HAMi-core's record in the container's
folder: the container can write there, so that it is no proof of what it uses or of its limits.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from adapters.agent.grants import GrantAnswer
from adapters.agent.hardware.model import CardLoad, Hardware
from adapters.agent.hook.containers import ContainerInfo, ContainerRegistry
from adapters.agent.hook.reporter import HookCounters
from adapters.agent.metrics.exposition import Family, Sample
from adapters.agent.metrics.hami_region import RegionCard, region_of
from core.hardware.card import Card
from core.hardware.mig import MigKey
from core.hardware.quantity import FULL
from core.requests.limits import CardLimit, GrantError, Limits

ZONE = {"zone": "vGPU"}
"""A label of every sample of the guides' monitor."""

_MAX_UUID = 40

Both = tuple[Sample, Sample]
"""One value as two samples: with the guides' labels, and with the present ones."""

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class ShareUse:
    """One card as one container uses it.

    Attributes:
        index: of the card among the container's.
        idle: seconds since the container last started a kernel; 0 where it is not known.
    """

    container: ContainerInfo
    index: int
    card: RegionCard
    idle: int


@dataclass(slots=True)
class MetricsCollector:
    """Collects the metrics of a node.

    Attributes:
        node: its name.
        containers: of the node.
        hardware: of the node, as last read.
        loads: of its cards, by uuid.
        counters: of the hook.
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
        hardware = self.hardware()
        cards = {card.uuid: card for card in hardware.cards}
        uses = list(self._uses(cards))
        grants = [
            (container, self._cards_of(uid, name))
            for (uid, name), container in self.containers.present()
        ]
        return [
            *_card_families(self.node, cards, self.loads()),
            *_share_families(uses),
            *_granted_families(self.node, grants, uses),
            *_both(
                "MigInfo",
                "hami_mig_device_info",
                "MIG device of a container",
                _mig_samples(grants, hardware),
            ),
            *_hook_families(self.counters),
        ]

    def _cards_of(self, uid: str, name: str) -> list[CardLimit]:
        """List a container's cards as it numbers them; none where its grant is invalid."""
        try:
            limits = self.granted(uid, name)
        except GrantError:
            return []
        if not isinstance(limits, Limits):
            return []
        return sorted(limits.cards, key=lambda card: (card.index, card.uuid))

    def _uses(self, cards: Mapping[str, Card]) -> Iterator[ShareUse]:
        """Read each card of each container that has a region; without known cards, of any."""
        now = int(self.now())
        for container, folder in self.containers.cache_dirs():
            region = region_of(folder)
            if region is None:
                continue
            # The clock may have been set back, and the container can write any time there.
            idle = now - region.last_kernel if 0 < region.last_kernel <= now else 0
            for index, card in enumerate(region.cards):
                # The container can write any uuid there, but not make it a card of this node.
                if card.uuid and (not cards or card.uuid in cards):
                    yield ShareUse(container, index, card, idle)


Grants = Sequence[tuple[ContainerInfo, list[CardLimit]]]
"""The containers of the node, each with the cards that the ledger grants it."""


def _both(old: str, new: str, text: str, samples: Iterable[Both]) -> tuple[Family, Family]:
    pairs = list(samples)
    return (
        Family(old, text, tuple(pair[0] for pair in pairs)),
        Family(new, text, tuple(pair[1] for pair in pairs)),
    )


def _short(uuid: str) -> str:
    """Cut a card's uuid; a container may have written it, at any length."""
    return uuid[:_MAX_UUID]


def _container_labels(container: ContainerInfo, index: int, uuid: str) -> tuple[Labels, Labels]:
    """Return the guides' and the present labels of a container and the card of an index."""
    old = {
        "podnamespace": container.namespace,
        "podname": container.pod,
        "ctrname": container.container,
        "vdeviceid": str(index),
        "deviceuuid": _short(uuid),
    }
    new = {
        "namespace": container.namespace,
        "pod": container.pod,
        "container": container.container,
        "vdevice_index": str(index),
        "device_uuid": _short(uuid),
    }
    return old, new


def _card_families(
    node: str, cards: Mapping[str, Card], loads: Mapping[str, CardLoad]
) -> Iterator[Family]:
    """Say how busy the cards are; loads of unknown cards are left out."""

    def device(card: Card) -> Labels:
        return {
            "device_index": str(card.index),
            "device_uuid": _short(card.uuid),
            "device_type": f"NVIDIA-{card.model}",
        }

    def on(card: Card, value: float) -> Both:
        new = device(card)
        names = ("deviceidx", "deviceuuid", "devicetype")
        old = {"nodeid": node} | dict(zip(names, new.values(), strict=True))
        return Sample(old | ZONE, value), Sample({"node": node} | new | ZONE, value)

    known = [(cards[uuid], load) for uuid, load in loads.items() if uuid in cards]
    yield from _both(
        "HostGPUMemoryUsage",
        "hami_host_gpu_memory_used_bytes",
        "GPU device memory usage",
        [on(card, load.memory) for card, load in known],
    )
    yield from _both(
        "HostCoreUtilization",
        "hami_host_gpu_utilization_ratio",
        "GPU core utilization",
        [on(card, load.compute) for card, load in known],
    )
    yield Family(
        "hami_host_gpu_memory_controller_utilization_ratio",
        "GPU memory controller utilization",
        tuple(Sample(device(card) | ZONE, load.bus) for card, load in known),
    )


def _share_families(uses: Sequence[ShareUse]) -> Iterator[Family]:
    """Say how much of each card each container uses, and its limits."""
    labels = [_container_labels(use.container, use.index, use.card.uuid) for use in uses]
    labelled = [(use, old | ZONE, new | ZONE) for use, (old, new) in zip(uses, labels, strict=True)]

    def families(
        old: str, new: str, text: str, value: Callable[[ShareUse], float]
    ) -> tuple[Family, Family]:
        pairs = [(Sample(was, value(use)), Sample(now, value(use))) for use, was, now in labelled]
        return _both(old, new, text, pairs)

    def detail(name: str, text: str, value: Callable[[RegionCard], float]) -> Family:
        return Family(name, text, tuple(Sample(now, value(use.card)) for use, _, now in labelled))

    yield from families(
        "vGPU_device_memory_usage_in_bytes",
        "hami_vgpu_memory_used_bytes",
        "vGPU device usage",
        lambda use: use.card.used,
    )
    yield from families(
        "vGPU_device_memory_limit_in_bytes",
        "hami_vgpu_memory_limit_bytes",
        "vGPU device limit",
        lambda use: use.card.limit,
    )
    parts = ("context", "module", "data", "offset")
    yield from _both(
        "Device_memory_desc_of_container",
        "hami_container_device_memory_bytes",
        "Container device memory description",
        [
            (
                Sample(was | {part: str(getattr(use.card, part)) for part in parts}, use.card.used),
                Sample(now, use.card.used),
            )
            for use, was, now in labelled
        ],
    )
    yield from families(
        "Device_utilization_desc_of_container",
        "hami_container_device_utilization_ratio",
        "Container device utilization description",
        lambda use: use.card.compute,
    )
    yield from _both(
        "Device_last_kernel_of_container",
        "hami_container_last_kernel_elapsed_seconds",
        "Container device last kernel description",
        [(Sample(was, use.idle), Sample(now, use.idle)) for use, was, now in labelled if use.idle],
    )
    yield detail(
        "hami_vgpu_memory_context_bytes",
        "Container device memory of contexts",
        lambda card: card.context,
    )
    yield detail(
        "hami_vgpu_memory_module_bytes",
        "Container device memory of modules",
        lambda card: card.module,
    )
    yield detail(
        "hami_vgpu_memory_buffer_bytes",
        "Container device memory of data",
        lambda card: card.data,
    )


def _granted_families(node: str, grants: Grants, uses: Sequence[ShareUse]) -> Iterator[Family]:
    """Say what the ledger grants each container on each card, beside what it uses."""

    def labels(container: ContainerInfo, uuid: str) -> Labels:
        return {
            "node": node,
            "namespace": container.namespace,
            "pod": container.pod,
            "container": container.container,
            "uuid": _short(uuid),
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


def _mig_samples(grants: Grants, hardware: Hardware) -> Iterator[Both]:
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
            yield Sample(old | {"instanceid": gpu} | ZONE, 1), Sample(new | more | ZONE, 1)


def _hook_families(counters: HookCounters) -> Iterator[Family]:
    """Say what the hook has done, and whether the runtime calls it."""
    for name, text, count in (
        ("containers_adjusted", "Containers that got an adjustment.", counters.adjusted),
        ("containers_untouched", "Containers that needed no adjustment.", counters.untouched),
        ("containers_refused", "Containers that the agent kept from starting.", counters.rejected),
        (
            "containers_late",
            "Containers rejected because there was no answer in time.",
            counters.late,
        ),
        ("connections", "Connections to the runtime that became active.", counters.connections),
    ):
        yield Family(f"dragoman_node_{name}_total", text, (Sample({}, count),), "counter")
    for name, text, value in (
        (
            "containers_unserved",
            "Containers that run without their share.",
            counters.without_share,
        ),
        (
            "containers_exposed",
            "Containers that can reach cards outside their share.",
            counters.with_bypass,
        ),
        ("active", "1 while the runtime calls the agent, else 0.", int(counters.active)),
    ):
        yield Family(f"dragoman_node_{name}", text, (Sample({}, value),))

"""The metrics of every card: rendered when a node's ledger has changed, compressed as seldom.

Not a prometheus_client collector: that would build every sample of 40,000 cards in each scrape, on
the event loop. Here the lines of a node are made once and kept until its ledger changes, so that a
scrape costs what has changed since the last one.

The names are ours and those of the peers' dashboards. Each scrape has these lines for every card of
the cluster, so labels are few: ``node`` and ``uuid`` identify a card, and only
``dragoman_card_memory_bytes`` has the rest, to be joined.
"""

from asyncio import sleep
from collections.abc import Callable, Mapping

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.metrics import FamilyText, escaped
from core.hardware.card import Card
from core.hardware.quantity import FULL, MIB
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage

BATCH = 50
"""Nodes whose lines are made before the event loop gets its turn."""

_CARD = ("node", "uuid")
_CAPACITY = (*_CARD, "index", "vendor", "model")
# Source: HAMi v2.10.0 cmd/scheduler/metrics.go:106-397; all of them have its constant zone.
ZONE = "vGPU"
_HAMI = ("zone", "node", "device_uuid", "device_index", "device_type")
_HAMI_CORES = (*_HAMI, "device_cores")
_HAMI_OVERVIEW = (*_HAMI_CORES, "device_memory_limit")
_HAMI_POD = ("zone", "namespace", "node", "pod", "container_index", "device_uuid")
# HAMi also has the id of the GPU instance, which only the node knows.
_HAMI_SLICE = (
    "zone", "node", "device_uuid", "device_index", "profile", "placement_start", "placement_size",
)  # fmt: skip
# Source: volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/metrics.go:35-84
_VOLCANO = ("devID", "NodeName")

Value = Callable[[Card, CardUsage], float]

Family = tuple[str, str, tuple[str, ...], Value]
"""Name, help, labels, value."""

_OURS: tuple[Family, ...] = (
    (
        "dragoman_card_memory_bytes",
        "Memory of a card, with all that is known of it as labels.",
        _CAPACITY,
        lambda c, _: c.memory,
    ),
    (
        "dragoman_card_memory_granted_bytes",
        "Allocated memory of a card.",
        _CARD,
        lambda _, u: u.memory,
    ),
    (
        "dragoman_card_compute_granted_ratio",
        "Allocated compute of a card; 1 is 100 percent.",
        _CARD,
        lambda _, u: u.compute / FULL,
    ),
    ("dragoman_card_sharers", "Pods on a card.", _CARD, lambda _, u: len(u.shares)),
)

_UNHEALTHY = (
    "dragoman_card_unhealthy",
    "1 for a card that gets no new allocation; no other has it.",
)

_PEERS: tuple[Family, ...] = (
    ("hami_gpu_memory_limit_bytes", "As HAMi names it.", _HAMI, lambda c, _: c.memory),
    ("hami_gpu_core_limit_ratio", "As HAMi names it.", _HAMI, lambda c, _: c.compute),
    ("hami_gpu_memory_allocated_bytes", "As HAMi names it.", _HAMI_CORES, lambda _, u: u.memory),
    ("hami_gpu_core_allocated_ratio", "As HAMi names it.", _HAMI, lambda _, u: u.compute),
    ("hami_gpu_shared_count", "As HAMi names it.", _HAMI, lambda _, u: u.slots),
    ("hami_node_gpu_overview", "As HAMi names it.", _HAMI_OVERVIEW, lambda _, u: u.memory),
    (
        "hami_node_gpu_memory_allocated_ratio",
        "As HAMi names it.",
        _HAMI,
        lambda c, u: u.memory / c.memory if c.memory else 0,
    ),
    (
        "volcano_vgpu_device_memory_limit",
        "As Volcano names it, in MiB.",
        _VOLCANO,
        lambda c, _: c.memory // MIB,
    ),
    (
        "volcano_vgpu_device_allocated_memory",
        "As Volcano names it, in MiB.",
        _VOLCANO,
        lambda _, u: u.memory // MIB,
    ),
    (
        "volcano_vgpu_device_allocated_cores",
        "As Volcano names it.",
        _VOLCANO,
        lambda _, u: u.compute,
    ),
    ("volcano_vgpu_device_shared_number", "As Volcano names it.", _VOLCANO, lambda _, u: u.slots),
)

_PODS = (
    ("hami_vgpu_memory_allocated_bytes", "As HAMi names it."),
    ("hami_vgpu_core_allocated_ratio", "As HAMi names it."),
    ("volcano_vgpu_device_memory_allocation_for_a_certain_pod", "As Volcano names it, in MiB."),
    ("volcano_vgpu_device_core_allocation_for_a_certain_pod", "As Volcano names it."),
)

_SLICES = ("hami_node_gpu_mig_instance_info", "As HAMi names it: 1 for an allocated MIG slice.")

Lines = tuple[bytes, ...]
"""The lines of one node, family by family."""


def _facts(card: Card) -> dict[str, str]:
    """Return the values of all labels of a card."""
    index, model = str(card.index), card.model
    return {
        "node": card.node,
        "uuid": card.uuid,
        "index": index,
        "vendor": card.vendor,
        "model": model,
        "zone": ZONE,
        "device_uuid": card.uuid,
        "device_index": index,
        "device_type": model,
        "device_cores": str(card.compute),
        "device_memory_limit": str(card.memory // MIB),
        "container_index": "0",
        "devID": card.uuid,
        "NodeName": card.node,
    }


def _labels(names: tuple[str, ...], facts: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{escaped(facts[name])}"' for name in names) + "}"


class CardMetrics:
    """The lines of all nodes."""

    def __init__(
        self, book: LedgerCache, *, peers: bool = False, exported: Callable[[], bool] = lambda: True
    ) -> None:
        """Make no lines yet.

        ``peers``: export under the names of HAMi and Volcano too. ``exported``: whether this
        process exports cards now, or leaves it to another replica.
        """
        self._book = book
        self.peers = peers
        self._exported = exported
        self._families = (*_OURS, *_PEERS) if peers else _OURS
        named = [(name, text) for name, text, _, _ in self._families]
        named += [_UNHEALTHY, *_PODS, _SLICES] if peers else [_UNHEALTHY]
        self._heads = [
            f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode() for name, text in named
        ]
        self._current: dict[str, tuple[NodeLedger, Lines]] = {}

    async def families(self) -> list[FamilyText]:
        """Return all lines; yields to the event loop meanwhile."""
        ledgers = [*self._book.inventory] if self._exported() else []
        made = 0
        current: dict[str, tuple[NodeLedger, Lines]] = {}
        for ledger in ledgers:
            earlier = self._current.get(ledger.node.name)
            if earlier is None or earlier[0] is not ledger:
                earlier = (ledger, self.lines(ledger.without_holds()))
                made += 1
                if made % BATCH == 0:
                    await sleep(0)
            current[ledger.node.name] = earlier
        self._current = current
        by_family = zip(*(lines for _, lines in current.values()), strict=True)
        return [FamilyText(*each) for each in zip(self._heads, by_family, strict=False)]

    def lines(self, ledger: NodeLedger) -> Lines:
        """Render one node: a line for each card, pod on a card, and MIG slice."""
        cards = [
            (card, use, _facts(card))
            for card, use in zip(ledger.node.cards, ledger.usages, strict=True)
        ]
        labels = {
            names: [_labels(names, facts) for _, _, facts in cards]
            for names in {names for _, _, names, _ in self._families}
        }
        families = [
            "".join(
                f"{name}{label} {value(card, use)}\n"
                for (card, use, _), label in zip(cards, labels[names], strict=True)
            )
            for name, _, names, value in self._families
        ]
        unhealthy = (_labels(_CAPACITY, facts) for card, _, facts in cards if not card.healthy)
        families.append("".join(f"{_UNHEALTHY[0]}{label} 1\n" for label in unhealthy))
        if not self.peers:
            return tuple(map(str.encode, families))
        of_pods: list[dict[str, int]] = [{} for _ in _PODS]
        for _, use, facts in cards:
            for holder in use.shares:
                pod = ledger.allocations[holder.uid].pod_ref
                of_pod = facts | {"namespace": pod.namespace, "pod": pod.name, "podName": pod.name}
                hami = _labels(_HAMI_POD, of_pod)
                volcano = _labels((*_VOLCANO, "podName"), of_pod)
                held = (holder.memory, holder.compute, holder.memory // MIB, holder.compute)
                # Volcano's have no namespace: pods of the same name on a card must be one line.
                for family, label, amount in zip(
                    of_pods, (hami, hami, volcano, volcano), held, strict=True
                ):
                    family[label] = family.get(label, 0) + amount
        families += [
            "".join(f"{metric}{label} {amount}\n" for label, amount in family.items())
            for (metric, _), family in zip(_PODS, of_pods, strict=True)
        ]
        known = {facts["uuid"]: facts for _, _, facts in cards}
        slices: dict[str, None] = {}
        for allocation in ledger.allocations.values():
            for grant in allocation.grants:
                if grant.slice is not None and grant.card in known:
                    place = {
                        "profile": grant.slice.profile,
                        "placement_start": str(grant.slice.start),
                        "placement_size": str(grant.slice.size),
                    }
                    label = _labels(_HAMI_SLICE, known[grant.card] | place)
                    slices[f"{_SLICES[0]}{label} 1\n"] = None
        return tuple(map(str.encode, (*families, "".join(slices))))

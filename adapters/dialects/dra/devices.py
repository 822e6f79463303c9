"""Which card a device of a ResourceSlice is, or is a part of; the cards that the slices describe.

Attributes as NVIDIA's driver publishes them (kubernetes-sigs/dra-driver-nvidia-gpu
cmd/gpu-kubelet-plugin/deviceinfo.go): ``uuid``, and for a MIG device ``parentUUID`` and
``profile``, with capacities ``memorySliceN``; its partitionable devices consume counters
``memory-slice-N``. HAMi's driver publishes ``uuid``, ``minor``, ``cores`` and ``memory``
(Project-HAMi/k8s-dra-driver cmd/hami-kubelet-plugin).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from adapters.dialects.dialect import NodeDescription
from adapters.wire import dra
from adapters.wire.quantity import QuantityError, parse
from core.hardware.card import Card

_MEMORY_SLICE = re.compile(r"memory-?slice-?([0-9]{1,2})", re.IGNORECASE)

MEMORY = "memory"
"""The capacity of a device that means its memory, in bytes."""

SHARERS = "shares"
"""The capacity of a device that means its slots, of NVIDIA's driver."""

_KEEPS_AWAY = ("NoSchedule", "NoExecute")
"""Effects of a device's taint. Source: k8s.io/api v0.37.1 resource/v1/types.go, which has ``None``
too, and ``tolerations`` of claims alone."""

DeviceKey = tuple[str, str, str]
"""Driver, pool and name: what identifies a device in a cluster."""


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """One device.

    Attributes:
        node: where it is; empty where the slice does not name one node.
        card: uuid of the card that it is, or is a part of; empty where it states none, or two.
        profile: of a MIG device; empty for a whole card.
        start: first memory slice of a MIG device; None where it is not known.
        texts: attributes with text, by name as ``own_name`` returns it.
        numbers: attributes with a whole number, by the same.
        amounts: capacities, by the same; those that cannot be parsed are missing.
        capacities: the names of ``amounts`` as they are published: a driver can write a name of
            its own with its domain and without.
        is_shared: whether several claims can have it at once.
        counter_sets: of the pool, of which it takes a part: so schedulers know which devices of the
            pool exclude each other.
        taint: by which its driver keeps claims away, as ``key=value:effect``; empty for none.
    """

    driver: str
    pool: str
    name: str
    node: str
    card: str
    profile: str
    start: int | None
    texts: Mapping[str, str]
    numbers: Mapping[str, int]
    amounts: Mapping[str, Fraction]
    capacities: Mapping[str, tuple[str, ...]]
    is_shared: bool
    counter_sets: frozenset[str]
    taint: str

    @property
    def is_counted(self) -> bool:
        """Whether it takes part of a counter set."""
        return bool(self.counter_sets)

    @property
    def key(self) -> DeviceKey:
        """What identifies it."""
        return self.driver, self.pool, self.name

    @property
    def flaw(self) -> str:
        """What it lacks to be a card of the ledger, in words; empty for a card or a part of one.

        Also empty where its driver's name does not say that its devices are cards.
        """
        lacks = "uuid, or two" if not self.card else "" if MEMORY in self.amounts else "memory"
        if not lacks or self.profile or self.is_counted or not means_cards(self.driver):
            return ""
        return f"the ResourceSlice of {'/'.join(self.key)} states no {lacks}: no ledger counts it"


class Devices:
    """The devices of some slices, by node: what one node publishes says nothing of another.

    Each node has pools of its own, whatever their names. Where a pool has several generations
    there, the newest counts.

    Attributes:
        of_cards: drivers that publish a card, or a part of one.
    """

    def __init__(
        self, slices: Iterable[dra.ResourceSlice], earlier: "Devices | None" = None
    ) -> None:
        """Read some slices.

        Args:
            slices: the newest state of each.
            earlier: what was read before. A slice that it has, as the same object, is not read
                again: where one slice of 5,000 with eight devices changes, 57 ms, not 631 ms.
        """
        self._nodes: dict[tuple[str, str], set[str]] = {}
        self._of_node: dict[str, dict[DeviceKey, PublishedDevice]] = {}
        # By id of the slice, with the slice: so no other object gets its id.
        self._read: dict[int, tuple[dra.ResourceSlice, tuple[PublishedDevice, ...]]] = {}
        self.of_cards: set[str] = set()
        self._anywhere: set[str] = set()
        known = {} if earlier is None else earlier._read
        for each in sorted(slices, key=lambda one: one.spec.pool.generation):
            read = known.get(id(each)) or (
                each,
                tuple(_read_device(each.spec, device) for device in each.spec.devices or ()),
            )
            self._read[id(each)] = read
            for device in read[1]:
                if device.card:
                    self.of_cards.add(device.driver)
                if device.node:
                    self._nodes.setdefault(device.key[:2], set()).add(device.node)
                else:
                    self._anywhere.add(device.driver)
                self._of_node.setdefault(device.node, {})[device.key] = device

    def may_be_cards(self, driver: str | None) -> bool:
        """Return whether devices of a driver, None for any, may be cards."""
        return (
            bool(self.of_cards)
            if driver is None
            else driver in self.of_cards or means_cards(driver)
        )

    def are_anywhere(self, driver: str | None) -> bool:
        """Return whether a driver, None for any, publishes devices of no certain node."""
        return bool(self._anywhere) if driver is None else driver in self._anywhere

    def of_node(self, node: str) -> tuple[PublishedDevice, ...]:
        """Return the devices of a node."""
        return tuple(self._of_node.get(node, {}).values())

    def own(self, node: str) -> tuple[PublishedDevice, ...]:
        """Return the devices of a node, without those in pools that another node publishes too.

        Schedulers know a device only by driver, pool and name. Of several nodes, the one by whose
        name the pool is called keeps it.
        """
        return tuple(
            each
            for each in self.of_node(node)
            if self.nodes_of_pool(each.driver, each.pool) <= {node}
            or each.pool.partition("/")[0] == node
        )

    def beside(self, device: PublishedDevice) -> frozenset[str]:
        """Return the uuids of devices of its pool and node that take part of the same counters.

        Such a device is a part of one of these cards, or has one of them as a part.
        """
        return frozenset(
            each.card
            for each in self.of_node(device.node)
            if (each.driver, each.pool) == (device.driver, device.pool)
            and not each.counter_sets.isdisjoint(device.counter_sets)
        )

    def describe_card(self, driver: str, node: str, uuids: Collection[str]) -> bool:
        """Return whether a driver publishes one of these cards, or a part of one, on their node."""
        return any(
            each.driver == driver and each.card in uuids
            for name in (node, "")
            for each in self.of_node(name)
        )

    def get(self, node: str, key: DeviceKey) -> PublishedDevice | None:
        """Return a device of a node, or of no certain one; None where no slice has it."""
        found = self._of_node.get(node, {}).get(key)
        return self._of_node.get("", {}).get(key) if found is None else found

    def flaw(self, node: str, key: DeviceKey) -> str:
        """Return why no ledger counts a device of a driver of cards; empty where one may."""
        device = self.get(node, key)
        if device is not None:
            return device.flaw
        return f"no ResourceSlice describes {'/'.join(key)}" if means_cards(key[0]) else ""

    def nodes_of_pool(self, driver: str, pool: str) -> Set[str]:
        """Return the nodes that publish devices of a pool; empty where its slices name none."""
        return self._nodes.get((driver, pool), frozenset[str]())


def _read_device(spec: dra.SliceSpec, named: dra.SliceDevice) -> PublishedDevice:
    """Read one device.

    Where a driver states an attribute with its domain and without, and the values differ, nothing
    says which card the device is. Of such capacities the smaller counts.
    """
    driver, device = spec.driver, named.basic or named
    attributes: dict[str, dra.Attribute] = {}
    is_clear = True
    for name, each in (device.attributes or {}).items():
        is_clear &= attributes.setdefault(own_name(name, driver), each) == each
    texts = {name: each.string for name, each in attributes.items() if each.string is not None}
    numbers = {name: each.int_ for name, each in attributes.items() if each.int_ is not None}
    amounts: dict[str, Fraction] = {}
    capacities: dict[str, tuple[str, ...]] = {}
    parts = [own_name(name, driver) for name in device.capacity or {}]
    for name, capacity in (device.capacity or {}).items():
        try:
            amount = parse(str(capacity.value))
        except QuantityError:
            continue
        own = own_name(name, driver)
        amounts[own] = min(amount, amounts.get(own, amount))
        capacities[own] = (*capacities.get(own, ()), name)
    for consumption in device.consumes_counters or ():
        parts += consumption.counters or {}
    slices = [int(match[1]) for part in parts if (match := _MEMORY_SLICE.fullmatch(part))]
    taints = filter(None, map(keeping_away, device.taints or ()))
    profile = texts.get("profile", "")
    return PublishedDevice(
        driver,
        spec.pool.name,
        named.name,
        spec.node_name or device.node_name or "",
        (texts.get("parentUUID") or texts.get("uuid", "")) if is_clear else "",
        profile,
        numbers.get("start", min(slices, default=None)) if profile else None,
        texts,
        numbers,
        amounts,
        capacities,
        is_shared=bool(device.allow_multiple_allocations),
        counter_sets=frozenset(each.counter_set for each in device.consumes_counters or ()),
        taint=next(taints, ""),
    )


def keeping_away(taint: Mapping[str, Any]) -> str:
    """Return a device's taint as ``key=value:effect``; empty where it keeps nothing away."""
    if str(taint.get("effect")) not in _KEEPS_AWAY:
        return ""
    value = taint.get("value") or ""
    return f"{taint.get('key')}{value and f'={value}'}:{taint['effect']}"


def own_name(name: str, driver: str) -> str:
    """Return the name of an attribute or a capacity.

    Without its domain where that is the driver's own.

    A name without a domain belongs to the domain of the driver. The name of another domain means
    something else, whatever its last part is: it is returned with the domain.
    Source: k8s.io/api v0.37.1 resource/v1/types.go, QualifiedName.
    """
    domain, _, last = name.rpartition("/")
    return last if domain in {"", driver} else name


def means_cards(driver: str) -> bool:
    """Return whether a driver's devices are cards by its name, such as ``gpu.nvidia.com``."""
    return "gpu" in driver.partition(".")[0]


SLOTS = 10
"""Places on a card whose driver states none, as HAMi and Volcano have by default."""

INDEX = ("index", "minor")
"""Attributes that number the cards of a node."""

NUMA = ("resource.kubernetes.io/numaNode", "numaNode", "numa")
"""Attributes with the NUMA node of a card; the first one means the same for every driver."""


def described(
    node: str, devices: Iterable[PublishedDevice], rules: Collection[dra.DeviceTaintRule] = ()
) -> tuple[NodeDescription, ...]:
    """Return what each driver reports about the cards of a node, and rules taint of them.

    Only whole cards with a uuid and an amount of memory, and only of drivers whose name says that
    their devices are cards. No dialect of pods describes such a card, so that only claims have it
    unless another source describes it too. Any driver closes a card by a taint, and an
    administrator by a rule, also of a part of it: of a part no health is kept.
    """
    drivers: dict[str, list[PublishedDevice]] = {}
    for device in devices:
        drivers.setdefault(device.driver, []).append(device)
    found: list[NodeDescription] = []
    for driver, published in sorted(drivers.items()):
        cards: dict[str, Card] = {}
        whole = [
            each
            for each in published
            if means_cards(driver) and each.card and not each.profile and MEMORY in each.amounts
        ]
        for position, device in enumerate(sorted(whole, key=lambda each: each.name)):
            numbers = (device.numbers.get(name, -1) for name in INDEX)
            # Drivers write -1 where the NUMA node is not known.
            numa = next((device.numbers[name] for name in NUMA if name in device.numbers), -1)
            cards[device.card] = Card(
                uuid=device.card,
                node=node,
                index=next((number for number in numbers if number >= 0), position),
                vendor=_vendor(device),
                model=device.texts.get("productName", driver),
                memory=int(device.amounts[MEMORY]),
                slots=int(device.amounts.get(SHARERS, SLOTS)),
                numa=numa if numa >= 0 else None,
            )
        uncounted = tuple((each.card, each.flaw) for each in published if each.flaw)
        closed = tuple(
            (each.card, f"the driver {driver} gave its device {each.name} the taint {each.taint}")
            for each in published
            if each.card and each.taint
        ) + tuple(
            (each.card, f"DeviceTaintRule {rule.metadata.name} taints it: {taint}")
            for rule in rules
            for taint in (keeping_away(rule.spec.taint),)
            for each in published
            if taint and each.card and rule.selects(*each.key)
        )
        if not (cards or uncounted or closed):
            continue
        found.append(
            NodeDescription(
                tuple(sorted(cards.values(), key=lambda card: (card.index, card.uuid))),
                slots_stated=False,
                compute_stated=False,
                uncounted=uncounted,
                closed=closed,
                source=f"ResourceSlices of {driver}",
            )
        )
    return tuple(found)


def _vendor(device: PublishedDevice) -> str:
    """Return the vendor that the device states, else the domain of the driver, as ``nvidia``."""
    stated = device.texts.get("vendor") or device.texts.get("productName", "").partition(" ")[0]
    if stated.lower() in {"nvidia", "metax", "amd", "intel"}:
        return stated.lower()
    if device.card.startswith("GPU-"):
        return "nvidia"
    parts = device.driver.split(".")
    return parts[-2] if len(parts) > 1 else device.driver

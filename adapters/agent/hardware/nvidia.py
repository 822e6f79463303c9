"""NVIDIA's cards, as the driver's library NVML reports them."""

from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import pynvml

from adapters.agent.hardware.health import Health, recovery_action
from adapters.agent.hardware.model import CardLoad, Hardware, Instance, InventoryError
from adapters.agent.hardware.nvml import NvidiaCard, Nvml, NvmlError, address
from adapters.agent.hardware.nvml_mig import GpuInstance, NvmlMigReader
from adapters.agent.log import log_event
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig import MigKey

BUS = Path("/sys/bus/pci/devices")
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")

Pair = tuple[str, str]
"""The uuids of two connected cards."""

GpuInstances = dict[str, tuple[GpuInstance, ...]]
"""The GPU instances of the cards in MIG mode, by the card's uuid."""


@dataclass(slots=True)
class NvmlInventory:
    """Reads the cards from NVML.

    A card that disappears stays in the inventory, unhealthy, because its allocations stay too.

    Attributes:
        bus: folder where the kernel reports a card's NUMA node.
        capabilities: folder where the driver reports a MIG device's device nodes.
    """

    node: str
    nvml: Nvml = field(default_factory=Nvml)
    health: Health = field(default_factory=Health)
    bus: Path = BUS
    capabilities: Path = CAPABILITIES
    _seen: dict[str, Card] = field(default_factory=dict[str, Card])
    _lost: Set[str] = frozenset()
    _links: tuple[tuple[tuple[str, str], ...], dict[str, tuple[Scope, ...]]] = field(
        default_factory=lambda: ((), {})
    )

    def read(self) -> Hardware:
        """Read the hardware as NVML reports it.

        Raises:
            InventoryError: NVML is missing or fails.
        """
        with self.nvml.lock:
            found, gpu_instances = self._found()
            linked = self._linked(found)
            actions = {card.uuid: recovery_action(self.nvml, card.uuid) for card in found}
        for uuid in self._lost & actions.keys():
            self.health.clear(uuid)
        problems = {uuid: self.health.problem(uuid, actions[uuid]) for uuid in actions}
        present = {
            card.uuid: Card(
                uuid=card.uuid,
                node=self.node,
                index=card.index,
                vendor="nvidia",
                model=card.name,
                memory=card.memory,
                slots=1,
                mode=Mode.MIG if card.uuid in gpu_instances else Mode.SHARED,
                healthy=not problems[card.uuid],
                numa=self._numa(card.bus_id),
                links=linked.get(card.uuid, ()),
                names=(card.name,),
            )
            for card in found
        }
        instances: dict[MigKey, Instance] = {}
        for card in found:
            for part in gpu_instances.get(card.uuid, ()):
                device, place = part.whole, part.placement
                if device is None:
                    continue
                below = self.capabilities / f"gpu{card.minor}" / "mig" / f"gi{part.number}"
                folders = below / "access", below / f"ci{device.compute_instance}" / "access"
                minors = [minor for each in folders if (minor := capability(each)) is not None]
                caps = (f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors)
                instances[MigKey(card.uuid, place.profile, place.start)] = Instance(
                    device.uuid,
                    (f"/dev/nvidia{card.minor}", *caps),
                    part.number,
                    device.compute_instance,
                )
        self._lost = self._seen.keys() - present.keys()
        lost = {uuid: replace(self._seen[uuid], healthy=False) for uuid in self._lost}
        self._seen = present | lost
        return Hardware(
            tuple(sorted(self._seen.values(), key=lambda card: (card.index, card.uuid))),
            {card.uuid: (f"/dev/nvidia{card.minor}",) for card in found},
            instances,
            {uuid: tuple(part.placement for part in each) for uuid, each in gpu_instances.items()},
            {uuid: why for uuid, why in problems.items() if why}
            | dict.fromkeys(lost, "it does not answer"),
        )

    def loads(self) -> dict[str, CardLoad]:
        """Return the cards' loads; none where NVML is missing or fails."""
        try:
            return self.nvml.readings()
        except NvmlError as error:
            log_event("nvml.read_failed", reason=str(error))
            return {}

    def _found(self) -> tuple[list[NvidiaCard], GpuInstances]:
        """Return the cards that answer, and their GPU instances."""
        found: list[NvidiaCard] = []
        gpu_instances: GpuInstances = {}
        try:
            cards = self.nvml.cards()
        except NvmlError as error:
            if not self._seen:
                raise InventoryError(str(error)) from error
            log_event("nvml.read_failed", reason=str(error))
            return found, gpu_instances  # no known card answers
        for card in cards:
            try:
                instances = NvmlMigReader(self.nvml).instances(card.uuid)
            except NvmlError as error:
                log_event("nvml.card_read_failed", card=card.uuid, reason=str(error))
                continue
            found.append(card)
            if instances is not None:
                gpu_instances[card.uuid] = instances
        return found, gpu_instances

    def _linked(self, cards: list[NvidiaCard]) -> dict[str, tuple[Scope, ...]]:
        """Return the groups of connected cards; read again when the set of cards has changed."""
        key = tuple((card.uuid, card.bus_id) for card in cards)
        if key != self._links[0]:
            found = scopes(self.nvml, cards)
            for card in cards:
                if (numa := self._numa(card.bus_id)) is not None:
                    found[card.uuid] = (Scope(Level.NUMA, str(numa)), *found[card.uuid])
            self._links = key, found
        return self._links[1]

    def _numa(self, bus_id: str) -> int | None:
        try:
            node = int((self.bus / bus_id / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None


def scopes(nvml: Nvml, cards: Sequence[NvidiaCard]) -> dict[str, tuple[Scope, ...]]:
    """Return the scopes of each card, by its uuid, without those that NVML cannot report."""
    found: dict[str, list[Scope]] = {card.uuid: [] for card in cards}
    index = {card.uuid: card.index for card in cards}
    below_one_tree: set[Pair] = set()
    for left, right in combinations(cards, 2):
        with suppress(NvmlError):
            handles = nvml.handle_of(left.uuid), nvml.handle_of(right.uuid)
            level = nvml.call("nvmlDeviceGetTopologyCommonAncestor", *handles)
            if level <= pynvml.NVML_TOPOLOGY_MULTIPLE:  # only PCIe switches, and no host bridge
                below_one_tree.add((left.uuid, right.uuid))
    for group in groups(list(found), below_one_tree):
        for uuid in group:
            found[uuid].append(Scope(Level.PCIE, f"pcie-{index[group[0]]}"))
    for group in groups(list(found), _linked_pairs(nvml, cards)):
        if len(group) > 1:
            for uuid in group:
                found[uuid].append(Scope(Level.LINK, f"nvlink-{index[group[0]]}"))
    return {uuid: tuple(belongs) for uuid, belongs in found.items()}


def groups(uuids: Sequence[str], pairs: Set[Pair]) -> list[list[str]]:
    """Form groups in which any two cards are a pair; each card is in the first group that fits.

    In a mesh of single links not all cards are connected to each other: it may be several groups.
    """
    found: list[list[str]] = []
    for uuid in uuids:
        for group in found:
            if all((other, uuid) in pairs for other in group):
                group.append(uuid)
                break
        else:
            found.append([uuid])
    return found


def _linked_pairs(nvml: Nvml, cards: Sequence[NvidiaCard]) -> set[Pair]:
    """Return the cards with active links to each other, directly or by a switch."""
    at = {card.bus_id: card.uuid for card in cards}
    switched: dict[str, None] = {}
    pairs: set[Pair] = set()
    for card in cards:
        with suppress(NvmlError):  # after a card's last link, or a card without links
            handle = nvml.handle_of(card.uuid)
            for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
                if not nvml.call("nvmlDeviceGetNvLinkState", handle, link):
                    continue
                kind = nvml.call("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
                if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                    switched[card.uuid] = None
                    continue
                peer = address(nvml.call("nvmlDeviceGetNvLinkRemotePciInfo", handle, link))
                if peer in at:
                    pairs.add((card.uuid, at[peer]))
    both = {(left, right) for left, right in pairs if (right, left) in pairs}
    return both | set(combinations(switched, 2))


def capability(folder: Path) -> int | None:
    """Read the minor number of a capability's device node; None where the driver reports none.

    Args:
        folder: below ``CAPABILITIES``, such as ``gpu0/mig/gi1/access``.

    Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities".
    """
    try:
        lines = folder.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == "DeviceFileMinor" and value.strip().isdigit():
            return int(value)
    return None

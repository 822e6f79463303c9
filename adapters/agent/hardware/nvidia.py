"""NVIDIA's cards, as the driver's library NVML reports them."""

from collections.abc import Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from adapters.agent.hardware.health import Health
from adapters.agent.hardware.model import CardLoad, Hardware, Instance, InventoryError
from adapters.agent.hardware.nvml import CAPABILITIES, NvidiaCard, Nvml, NvmlError, capability
from adapters.agent.hardware.nvml_events import recovery_action
from adapters.agent.hardware.nvml_links import scopes
from adapters.agent.hardware.nvml_mig import GpuInstance, MigDevice, NvmlMigReader
from adapters.agent.log import log_event
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig import MigKey

BUS = Path("/sys/bus/pci/devices")

GpuInstances = dict[str, tuple[GpuInstance, ...]]
"""The GPU instances of the cards in MIG mode, by the card's uuid."""


@dataclass(slots=True)
class NvmlInventory:
    """Reads the cards from NVML.

    A card that disappears stays in the inventory, unhealthy, because its allocations stay too.

    Attributes:
        node: its name.
        nvml: the library.
        bus: folder where the kernel reports a card's NUMA node.
        capabilities: folder where the driver reports a MIG device's device nodes.
        health: errors of the cards.
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
        """The hardware as NVML reports it.

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
            card.uuid: replace(
                self._card(card, mig=card.uuid in gpu_instances),
                healthy=not problems[card.uuid],
                links=linked.get(card.uuid, ()),
            )
            for card in found
        }
        self._lost = self._seen.keys() - present.keys()
        lost = {uuid: replace(self._seen[uuid], healthy=False) for uuid in self._lost}
        self._seen = present | lost
        return Hardware(
            tuple(sorted(self._seen.values(), key=lambda card: (card.index, card.uuid))),
            {card.uuid: (f"/dev/nvidia{card.minor}",) for card in found},
            {
                MigKey(card.uuid, part.placement.profile, part.placement.start): self._instance(
                    card, part, device
                )
                for card in found
                for part in gpu_instances.get(card.uuid, ())
                if (device := part.whole) is not None
            },
            {uuid: tuple(part.placement for part in each) for uuid, each in gpu_instances.items()},
            {uuid: why for uuid, why in problems.items() if why}
            | dict.fromkeys(lost, "it does not answer"),
        )

    def loads(self) -> dict[str, CardLoad]:
        """The cards' loads; none where NVML is missing or fails."""
        try:
            return {
                use.uuid: CardLoad(use.memory, use.compute, use.bus) for use in self.nvml.readings()
            }
        except NvmlError as error:
            log_event("nvml.read_failed", reason=str(error))
            return {}

    def _found(self) -> tuple[list[NvidiaCard], GpuInstances]:
        """The cards that answer, and their GPU instances."""
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
        """The groups of connected cards; read again when the set of cards has changed."""
        key = tuple((card.uuid, card.bus_id) for card in cards)
        if key != self._links[0]:
            numa = {card.uuid: self._numa(card.bus_id) for card in cards}
            found = {
                uuid: (*self._numa_scope(numa[uuid]), *belongs)
                for uuid, belongs in scopes(self.nvml, cards).items()
            }
            self._links = key, found
        return self._links[1]

    @staticmethod
    def _numa_scope(numa: int | None) -> tuple[Scope, ...]:
        return () if numa is None else (Scope(Level.NUMA, str(numa)),)

    def _card(self, card: NvidiaCard, *, mig: bool) -> Card:
        return Card(
            uuid=card.uuid,
            node=self.node,
            index=card.index,
            vendor="nvidia",
            model=card.name,
            memory=card.memory,
            slots=1,
            mode=Mode.MIG if mig else Mode.SHARED,
            numa=self._numa(card.bus_id),
            names=(card.name,),
        )

    def _numa(self, bus_id: str) -> int | None:
        try:
            node = int((self.bus / bus_id / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _instance(self, card: NvidiaCard, part: GpuInstance, device: MigDevice) -> Instance:
        below = self.capabilities / f"gpu{card.minor}" / "mig" / f"gi{part.number}"
        minors = (
            capability(below / "access"),
            capability(below / f"ci{device.compute_instance}" / "access"),
        )
        caps = (f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors if minor is not None)
        devices = (f"/dev/nvidia{card.minor}", *caps)
        return Instance(device.uuid, devices, part.number, device.compute_instance)

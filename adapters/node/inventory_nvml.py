"""NVIDIA's cards, as the driver's own library knows them."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from adapters.node.adjust import Instance
from adapters.node.inventory import Hardware, InventoryError, Load
from adapters.node.journal import tell
from adapters.node.nvml import CAPABILITIES, NvidiaCard, Nvml, NvmlError, capability
from adapters.node.nvml_mig import GpuInstance, MigDevice, NvmlMig
from core.card import Card, Mode

BUS = Path("/sys/bus/pci/devices")

Parts = dict[str, tuple[GpuInstance, ...]]
"""What the cards in MIG mode are cut into, by their uuid."""


@dataclass(slots=True)
class NvmlInventory:
    """Asks the library.

    A card that was there and is not any more stays, unhealthy: what was sold of it is still sold.

    Attributes:
        node: its name.
        nvml: the library.
        bus: where the kernel says on which NUMA node a card is.
        capabilities: where the driver says which device nodes a MIG device has.
    """

    node: str
    nvml: Nvml = field(default_factory=Nvml)
    bus: Path = BUS
    capabilities: Path = CAPABILITIES
    _seen: dict[str, Card] = field(default_factory=dict[str, Card])

    def hardware(self) -> Hardware:
        """What the library says.

        Raises:
            InventoryError: there is no library, or it says no.
        """
        try:
            with self.nvml.lock:
                found = self.nvml.cards()
                parts = self._parts(found)
        except NvmlError as error:
            raise InventoryError(str(error)) from error
        there = {card.uuid: self._card(card, mig=card.uuid in parts) for card in found}
        lost = {
            uuid: replace(c, healthy=False) for uuid, c in self._seen.items() if uuid not in there
        }
        self._seen = there | lost
        return Hardware(
            tuple(sorted(self._seen.values(), key=lambda card: (card.index, card.uuid))),
            {card.uuid: (f"/dev/nvidia{card.minor}",) for card in found},
            {
                (card.uuid, part.piece.profile, part.piece.start): self._instance(
                    card, part, device
                )
                for card in found
                for part in parts.get(card.uuid, ())
                if (device := part.whole) is not None
            },
            {uuid: tuple(part.piece for part in cut) for uuid, cut in parts.items()},
            dict.fromkeys(lost, "it does not answer"),
        )

    def loads(self) -> dict[str, Load]:
        """What the library says; nothing where it cannot be asked."""
        try:
            return {use.uuid: Load(use.memory, use.compute, use.bus) for use in self.nvml.use()}
        except NvmlError as error:
            tell("inventory.unread", reason=str(error))
            return {}

    def _parts(self, cards: list[NvidiaCard]) -> Parts:
        found = {card.uuid: NvmlMig(self.nvml).instances(card.uuid) for card in cards}
        return {uuid: parts for uuid, parts in found.items() if parts is not None}

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

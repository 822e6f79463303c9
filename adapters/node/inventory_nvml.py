"""NVIDIA's cards, as the driver's own library knows them."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from adapters.node.adjust import Instance
from adapters.node.inventory import Hardware, InventoryError, Load
from adapters.node.journal import tell
from adapters.node.nvml import CAPABILITIES, MigInstance, NvidiaCard, Nvml, NvmlError, capability
from core.card import Card, Mode

BUS = Path("/sys/bus/pci/devices")

_PROFILE = re.compile(r"MIG (\S+)")


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
            found = self.nvml.cards()
        except NvmlError as error:
            raise InventoryError(str(error)) from error
        there = {card.uuid: self._card(card) for card in found}
        lost = {
            uuid: replace(c, healthy=False) for uuid, c in self._seen.items() if uuid not in there
        }
        self._seen = there | lost
        return Hardware(
            tuple(sorted(self._seen.values(), key=lambda card: (card.index, card.uuid))),
            {card.uuid: (f"/dev/nvidia{card.minor}",) for card in found},
            {
                (card.uuid, _profile(slot), slot.start): self._instance(card, slot)
                for card in found
                for slot in card.mig or ()
            },
        )

    def loads(self) -> dict[str, Load]:
        """What the library says; nothing where it cannot be asked."""
        try:
            return {uuid: Load(memory, compute) for uuid, memory, compute in self.nvml.use()}
        except NvmlError as error:
            tell("inventory.unread", reason=str(error))
            return {}

    def _card(self, card: NvidiaCard) -> Card:
        return Card(
            uuid=card.uuid,
            node=self.node,
            index=card.index,
            vendor="nvidia",
            model=card.name,
            memory=card.memory,
            slots=1,
            mode=Mode.SHARED if card.mig is None else Mode.MIG,
            numa=self._numa(card.bus_id),
            names=(card.name,),
        )

    def _numa(self, bus_id: str) -> int | None:
        try:
            node = int((self.bus / bus_id / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _instance(self, card: NvidiaCard, slot: MigInstance) -> Instance:
        below = self.capabilities / f"gpu{card.minor}" / "mig" / f"gi{slot.gpu_instance}"
        minors = (
            capability(below / "access"),
            capability(below / f"ci{slot.compute_instance}" / "access"),
        )
        caps = (f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors if minor is not None)
        return Instance(slot.uuid, (f"/dev/nvidia{card.minor}", *caps))


def _profile(slot: MigInstance) -> str:
    found = _PROFILE.search(slot.name)
    return slot.name if found is None else found[1]

"""Which source of the node's cards the configuration names."""

from pathlib import Path

from adapters.agent.config import InventorySource
from adapters.agent.hardware.file import FileInventory
from adapters.agent.hardware.health import APPLICATION_XIDS, Health
from adapters.agent.hardware.model import HardwareSource
from adapters.agent.hardware.nvidia import NvmlInventory


def hardware_source(inventory: InventorySource, node: str) -> HardwareSource | None:
    """The source; None where the cards of the ledger are used."""
    match inventory.source:
        case "file":
            return FileInventory(Path(inventory.file), node)
        case "nvml":
            ignored = APPLICATION_XIDS.union(inventory.ignore_xids)
            return NvmlInventory(node, health=Health(ignored))
        case _:
            return None

"""What is in use, in cells and fields of a row."""

from adapters.cli.output.amounts import gib, percent
from adapters.wire.agent_report import Use
from core.hardware.quantity import MIB


def used(use: Use) -> tuple[str, str]:
    """Memory in GiB and compute in percent; empty where it is unknown."""
    memory = "" if use.memory is None else gib(use.memory)
    return memory, "" if use.compute is None else percent(use.compute)


def used_fields(use: Use) -> dict[str, int | None]:
    """A card's use as fields of JSON, YAML and CSV; memory in MiB, compute in percent."""
    return {
        "usedMiB": None if use.memory is None else use.memory // MIB,
        "usedCompute": use.compute,
    }

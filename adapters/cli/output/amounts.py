"""Amounts of cards in words: what pods have, and what is used."""

from adapters.wire.agent_report import Use
from core.hardware.quantity import MIB
from core.hardware.quantity import format_gib as gib
from core.requests.grant import Allocation


def percent(amount: int) -> str:
    """Return percent of a card's compute."""
    return f"{amount}%"


def memory_of(allocation: Allocation) -> int:
    """Return the bytes of all grants of a pod."""
    return sum(grant.memory for grant in allocation.grants)


def compute_of(allocation: Allocation) -> int:
    """Return the percent of all grants of a pod."""
    return sum(grant.compute for grant in allocation.grants)


def used(use: Use) -> tuple[str, str]:
    """Return memory in GiB and compute in percent; empty where it is unknown."""
    memory = "" if use.memory is None else gib(use.memory)
    return memory, "" if use.compute is None else percent(use.compute)


def used_fields(use: Use) -> dict[str, int | None]:
    """Return a card's use as fields of JSON, YAML and CSV; memory in MiB, compute in percent."""
    return {
        "usedMiB": None if use.memory is None else use.memory // MIB,
        "usedCompute": use.compute,
    }

"""Cards of a node, for tests."""

from dataclasses import replace

from core.hardware import mig_catalog
from core.hardware.card import Card, Mode
from core.hardware.quantity import GIB

A100 = "NVIDIA A100 80GB PCIe"


def card(index: int) -> Card:
    return Card(f"GPU-{index}", "n1", index, "nvidia", A100, 80 * GIB, 10, numa=0)


def mig_card(index: int) -> Card:
    return replace(
        card(index), mode=Mode.MIG, names=(A100,), geometry=mig_catalog.geometry((A100,))
    )

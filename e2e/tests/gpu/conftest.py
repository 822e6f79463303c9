"""The card of this machine; without one the checks are skipped, with the reason."""

from functools import cache

import pytest

from adapters.agent.hardware.model import Hardware, InventoryError
from adapters.agent.hardware.nvidia import NvmlInventory
from adapters.agent.hardware.nvml import Nvml


@cache
def found() -> Hardware | str:
    """What the agent reads here; why it cannot."""
    try:
        return NvmlInventory("here").read()
    except InventoryError as error:
        return str(error)


@pytest.fixture
def nvml() -> Nvml:
    """The driver's library."""
    return Nvml()


@pytest.fixture
def hardware() -> Hardware:
    """The cards of this machine."""
    cards = found()
    if isinstance(cards, str):
        pytest.skip(f"no card: {cards}")
    if not cards.cards:
        pytest.skip("no card: the driver lists none")
    return cards

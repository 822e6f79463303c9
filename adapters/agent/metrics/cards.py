"""How busy the node's cards are."""

from collections.abc import Mapping

from adapters.agent.hardware.model import CardLoad
from adapters.agent.metrics.exposition import Family, Sample
from adapters.agent.metrics.naming import ZONE, Both, both, short
from core.hardware.card import Card


def card_families(
    node: str, cards: Mapping[str, Card], loads: Mapping[str, CardLoad]
) -> list[Family]:
    """Memory in use, and the utilization by kernels and transfers.

    Args:
        node: its name.
        cards: of the node, by uuid.
        loads: of the cards, by uuid; those of unknown cards are left out.
    """
    known = [(cards[uuid], load) for uuid, load in loads.items() if uuid in cards]
    return [
        *both(
            "HostGPUMemoryUsage",
            "hami_host_gpu_memory_used_bytes",
            "GPU device memory usage",
            [_on(node, card, load.memory) for card, load in known],
        ),
        *both(
            "HostCoreUtilization",
            "hami_host_gpu_utilization_ratio",
            "GPU core utilization",
            [_on(node, card, load.compute) for card, load in known],
        ),
        Family(
            "hami_host_gpu_memory_controller_utilization_ratio",
            "GPU memory controller utilization",
            tuple(Sample(_device(card) | ZONE, load.bus) for card, load in known),
        ),
    ]


def _on(node: str, card: Card, value: float) -> Both:
    new = _device(card)
    old = {
        "nodeid": node,
        "deviceidx": new["device_index"],
        "deviceuuid": new["device_uuid"],
        "devicetype": new["device_type"],
    }
    return Sample(old | ZONE, value), Sample({"node": node} | new | ZONE, value)


def _device(card: Card) -> dict[str, str]:
    return {
        "device_index": str(card.index),
        "device_uuid": short(card.uuid),
        "device_type": f"NVIDIA-{card.model}",
    }

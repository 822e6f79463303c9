"""What the three guides say of their pods: amounts, and which cards."""

import json
from collections.abc import Callable, Mapping

from e2e.harness.api import Object

# MiB and percent of each card, as the guides say them; where a guide says nothing, all of a card.
GUIDES: dict[str, dict[str, list[tuple[int, int]]]] = {
    "volcano-hami-core": {
        "hami-pod": [(3000, 50)],
        "hami-pod-two-cards": [(8000, 0), (8000, 0)],
        "hami-pod-whole-memory": [(11178, 0)],
    },
    "volcano-mig": {"mig-pod": [(5120, 14)], "mig-pod-second": [(5120, 14)]},
    "koordinator-gpu-share": {"pod-example": [(11520, 50)], "running-example": [(11520, 50)]},
    "metax-share": {"sample-pod": [(4096, 60)]},
}


def volcano_says(pods: Mapping[str, Object]) -> None:
    written = pods["hami-pod"]["metadata"]["annotations"]
    assert written["volcano.sh/devices-to-allocate"] == written["volcano.sh/vgpu-ids-new"]
    assert written["volcano.sh/vgpu-node"] == pods["hami-pod"]["spec"]["nodeName"]
    assert written["volcano.sh/bind-phase"] == "allocating"


def mig_says(pods: Mapping[str, Object]) -> None:
    cards = [row["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] for row in pods.values()]
    uuid = "GPU-a1004040-0000-4000-8000-000000000000"
    assert cards == [f"{uuid}[group1-0],NVIDIA,3000,0:", f"{uuid}[group1-1],NVIDIA,5000,0:"]


def koordinator_says(pods: Mapping[str, Object]) -> None:
    """The very annotation that the guide shows."""
    written = pods["pod-example"]["metadata"]["annotations"]
    resources = {
        "koordinator.sh/gpu-core": "50",
        "koordinator.sh/gpu-memory": "11520Mi",
        "koordinator.sh/gpu-memory-ratio": "50",
    }
    (told,) = json.loads(written["scheduling.koordinator.sh/device-allocated"])["gpu"]
    assert {key: told[key] for key in ("minor", "resources")} == {
        "minor": 1,
        "resources": resources,
    }


SAYINGS: dict[str, Callable[[Mapping[str, Object]], None]] = {
    "volcano-hami-core": volcano_says,
    "volcano-mig": mig_says,
    "koordinator-gpu-share": koordinator_says,
}

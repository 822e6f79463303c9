"""What the three guides, and HAMi's own examples, say of their pods: amounts, and which cards."""

import json
from collections.abc import Callable, Mapping

from e2e.harness.cluster.api import Object

# MiB and percent of each card, as the guides say them; where a guide says nothing, all of a card.
GUIDES: dict[str, dict[str, list[tuple[int, int]]]] = {
    "volcano-hami-core": {
        "hami-pod": [(3000, 50)],
        "hami-pod-two-cards": [(8000, 0), (8000, 0)],
        "hami-pod-whole-memory": [(11178, 0)],
    },
    "volcano-mig": {"mig-pod": [(4864, 14)], "mig-pod-second": [(4864, 14)]},
    "volcano-scheduling": {
        "mode-hami-core": [(6000, 0)],
        "mode-mig": [(5952, 25)],
        "mode-either": [(5900, 0)],  # or a slice, see below
    },
    "koordinator-gpu-share": {"pod-example": [(11520, 50)], "running-example": [(11520, 50)]},
    "koordinator-whole-and-topology": {
        "whole-pair": [(81920, 100)] * 2,
        "same-numa": [(81920, 100)] * 4,
        "best-partition": [(98304, 100)] * 2,
    },
    "metax-share": {"sample-pod": [(4096, 60)]},
    "metax-exclusive": {"sample-pod-exclusive": [(65536, 100)]},
    "metax-policies": {
        "sample-pod-policies": [(4096, 60)],
        "sample-pod-policies-second": [(4096, 60)],
    },
    "metax-qos": {
        "sample-pod-qos": [(4096, 60)],
        "sample-pod-qos-fixed": [(4096, 30)],
        "sample-pod-qos-burst": [(4096, 30)],
    },
    "metax-specific-card": {
        "sample-pod-specific": [(4096, 60)],
        "sample-pod-elsewhere": [(4096, 60)],
    },
    "metax-topology": {"sample-pod-topology": [(65536, 100)] * 4},
    "metax-online-offline": {
        "sample-pod-offline": [(4096, 60)],
        "sample-pod-online": [(4096, 0)],  # it borrows compute and reserves none
    },
    "metax-whole-card": {"sample-pod-whole": [(65536, 100)] * 2},
    "hami-share": {
        "hami-default": [(3000, 30)],
        "hami-fraction": [(20480, 30)] * 2,
        "hami-sharing-1": [(16384, 60)],
        "hami-sharing-2": [(24576, 40)],
        "hami-vector-add": [(3000, 0)],
        "hami-tensor-parallel": [(12288, 30)] * 2,
    },
    "hami-whole": {
        "hami-legacy": [(40960, 100)] * 2,
        "hami-normal-1": [(40960, 100)],
        "hami-normal-2": [(40960, 100)],
        "hami-exclusive": [(40960, 100)] * 2,
    },
    "hami-choice": {
        "hami-type-to-use": [(32768, 100)] * 2,
        "hami-type-not-to-use": [(32768, 100)] * 2,
        "hami-uuid-to-use": [(40960, 100)],
        "hami-uuid-not-to-use": [(1000, 0)],
        "hami-policies": [(1000, 0)],
    },
    "hami-mig": {"hami-mig": [(9856, 29)] * 2, "hami-mig-small": [(4864, 15)]},
}

EITHER = {
    "mode-either": [(5952, 25)],
    "hami-type-to-use": [(40960, 100)] * 2,
    "hami-type-not-to-use": [(40960, 100)] * 2,
    "hami-uuid-to-use": [(32768, 100)],
}
"""What a pod may get instead that takes cards of two nodes: which is better, its scheduler says."""


def volcano_says(pods: Mapping[str, Object]) -> None:
    written = pods["hami-pod"]["metadata"]["annotations"]
    assert written["volcano.sh/devices-to-allocate"] == written["volcano.sh/vgpu-ids-new"]
    assert written["volcano.sh/vgpu-node"] == pods["hami-pod"]["spec"]["nodeName"]
    assert written["volcano.sh/bind-phase"] == "allocating"


def mig_says(pods: Mapping[str, Object]) -> None:
    cards = [row["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] for row in pods.values()]
    uuid = "GPU-a1004040-0000-4000-8000-000000000000"
    assert cards == [f"{uuid}[group1-0],NVIDIA,3000,0:", f"{uuid}[group1-1],NVIDIA,4800,0:"]


def koordinator_says(pods: Mapping[str, Object]) -> None:
    """The very annotation that the guide shows."""
    written = pods["pod-example"]["metadata"]["annotations"]
    resources = {
        "koordinator.sh/gpu-core": "50",
        "koordinator.sh/gpu-memory": "11520Mi",
        "koordinator.sh/gpu-memory-ratio": "50",
    }
    (device,) = json.loads(written["scheduling.koordinator.sh/device-allocated"])["gpu"]
    assert {key: device[key] for key in ("minor", "resources")} == {
        "minor": 1,
        "resources": resources,
    }


def numa_says(pods: Mapping[str, Object]) -> None:
    def cards(name: str) -> set[int]:
        written = pods[name]["metadata"]["annotations"]
        rows = json.loads(written["scheduling.koordinator.sh/device-allocated"])["gpu"]
        return {row["minor"] for row in rows}

    assert cards("whole-pair") in ({0, 1}, {2, 3}, {4, 5}, {6, 7}), "one root complex"
    assert cards("same-numa") in ({0, 1, 2, 3}, {4, 5, 6, 7}), "one NUMA node"
    assert not cards("same-numa") & cards("whole-pair")


def metax_cards(pods: Mapping[str, Object]) -> dict[str, list[str]]:
    key = "metax-tech.com/gpu-devices-allocated"
    found = {}
    for name, row in pods.items():
        (devices,) = json.loads(row["metadata"]["annotations"][key])
        found[name] = [device["uuid"] for device in devices]
    return found


def policies_say(pods: Mapping[str, Object]) -> None:
    first, second = metax_cards(pods).values()
    assert len({row["spec"]["nodeName"] for row in pods.values()}) == 1, "binpack for nodes"
    assert first != second, "spread for cards"


def qos_says(pods: Mapping[str, Object]) -> None:
    cards = metax_cards(pods)
    assert len({uuid for uuids in cards.values() for uuid in uuids}) == 3, "one policy a card"


def specific_says(pods: Mapping[str, Object]) -> None:
    cards, named = metax_cards(pods), "GPU-36beae85-c835-6b14-6ab2-02671837a59c"
    assert cards["sample-pod-specific"] == [named]
    assert cards["sample-pod-elsewhere"] != [named]


def topology_says(pods: Mapping[str, Object]) -> None:
    (uuids,) = metax_cards(pods).values()
    assert all(uuid.startswith("GPU-c5000008") for uuid in uuids), "where a zone has four"
    assert len({int(uuid[-1]) // 4 for uuid in uuids}) == 1, "one zone"


def online_says(pods: Mapping[str, Object]) -> None:
    cards = metax_cards(pods)
    assert cards["sample-pod-online"] == cards["sample-pod-offline"]


def hami_says(pods: Mapping[str, Object]) -> None:
    """What HAMi's device plugin looks for on a pod that is bound to its node."""
    for row in pods.values():
        written = row["metadata"]["annotations"]
        assert written["hami.io/vgpu-node"] == row["spec"]["nodeName"]
        assert written["hami.io/bind-phase"] == "allocating"
        assert written["hami.io/bind-time"] == written["hami.io/vgpu-time"]
        assert (
            written["hami.io/vgpu-devices-to-allocate"] == written["hami.io/vgpu-devices-allocated"]
        )


def hami_mig_says(pods: Mapping[str, Object]) -> None:
    """The instances that HAMi's device plugin makes: pkg/device/nvidia/mig_allocations.go."""
    hami_says(pods)
    found = {
        name: json.loads(row["metadata"]["annotations"]["hami.io/vgpu-mig-allocations"])
        for name, row in pods.items()
    }
    profiles = {name: [(row["profile"], row["placement"]) for row in found[name]] for name in found}
    assert profiles["hami-mig"] == [
        ("2g.10gb", {"start": 0, "size": 2}),
        ("2g.10gb", {"start": 2, "size": 2}),
    ]
    assert len({row["gpuUUID"] for row in found["hami-mig"]}) == 1, "slices of one card"
    assert profiles["hami-mig-small"] == [("1g.5gb", {"start": 6, "size": 1})]


RECORD_CHECKS: dict[str, Callable[[Mapping[str, Object]], None]] = {
    "volcano-hami-core": volcano_says,
    "volcano-mig": mig_says,
    "koordinator-gpu-share": koordinator_says,
    "koordinator-whole-and-topology": numa_says,
    "metax-policies": policies_say,
    "metax-qos": qos_says,
    "metax-specific-card": specific_says,
    "metax-topology": topology_says,
    "metax-online-offline": online_says,
    "hami-share": hami_says,
    "hami-whole": hami_says,
    "hami-choice": hami_says,
    "hami-mig": hami_mig_says,
}

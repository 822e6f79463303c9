from dataclasses import replace
from typing import Any

import pytest

from adapters.dra_driver.devices import UNHEALTHY, card_devices, names_of_cards
from adapters.dra_driver.slices import MAX_COUNTER_SETS, MAX_DEVICES, pools, slice_object
from adapters.dra_driver.tests.cards import card, mig_card
from core.hardware.card import Card, Mode
from core.hardware.mig import NO_GEOMETRY
from core.hardware.quantity import MIB


def devices(*cards: Card) -> list[dict[str, object]]:
    found = (card_devices(each) for each in cards)
    return [device for each in found if each is not None for device in each.devices]


def test_a_shared_card_is_one_device_that_claims_divide() -> None:
    (device,) = devices(card(3))

    policy = {"default": "81920Mi", "validRange": {"min": "1Mi", "max": "81920Mi", "step": "1Mi"}}
    percent = {"default": "0", "validRange": {"min": "0", "max": "100", "step": "1"}}
    assert device == {
        "name": "gpu-3",
        "allowMultipleAllocations": True,
        "attributes": {
            "uuid": {"string": "GPU-3"},
            "index": {"int": 3},
            "vendor": {"string": "nvidia"},
            "mode": {"string": "shared"},
            "productName": {"string": "NVIDIA A100 80GB PCIe"},
            "resource.kubernetes.io/numaNode": {"int": 0},
        },
        "capacity": {
            "memory": {"value": "81920Mi", "requestPolicy": policy},
            "compute": {"value": "100", "requestPolicy": percent},
            "slots": {"value": "10", "requestPolicy": {"default": "1", "validValues": ["1"]}},
        },
    }


def test_an_unhealthy_card_has_a_taint() -> None:
    (device,) = devices(replace(card(0), healthy=False))

    assert device["taints"] == [{"key": UNHEALTHY, "effect": "NoSchedule"}]


def test_a_card_that_is_not_divided_is_a_dedicated_device() -> None:
    (device,) = devices(replace(card(0), mode=Mode.WHOLE))

    assert "allowMultipleAllocations" not in device
    assert device["capacity"] == {"memory": {"value": "81920Mi"}}


def test_slices_of_a_mig_card_that_overlap_consume_a_common_counter() -> None:
    found = card_devices(mig_card(0))

    assert found is not None
    assert found.counters is not None
    assert found.counters["counters"] == {f"memory-slice-{n}": {"value": "1"} for n in range(8)}
    profiles = [
        (device["attributes"]["profile"]["string"], device["attributes"]["start"]["int"])
        for device in found.devices
    ]
    assert len(profiles) == len(set(profiles))
    assert ("7g.80gb", 0) in profiles
    assert {profile for profile, _ in profiles} >= {"1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"}
    half = next(each for each in found.devices if each["name"] == "gpu-0-mig-3g-40gb-4")
    assert half["consumesCounters"] == [
        {
            "counterSet": "gpu-0",
            "counters": {f"memory-slice-{n}": {"value": "1"} for n in (4, 5, 6, 7)},
        }
    ]


def test_slices_that_leave_room_for_the_largest_are_listed_first() -> None:
    """kube-scheduler takes the first device that fits."""
    starts: dict[str, list[int]] = {}
    for device in devices(mig_card(0)):
        attributes: Any = device["attributes"]
        starts.setdefault(attributes["profile"]["string"], []).append(attributes["start"]["int"])

    assert starts["4g.40gb"] == [0]
    assert starts["3g.40gb"] == [4, 0]
    assert starts["2g.20gb"] == [4, 0, 2]
    assert starts["1g.10gb"] == [6, 4, 5, 0, 1, 2, 3]


@pytest.mark.parametrize(
    "without",
    [replace(mig_card(0), geometry=NO_GEOMETRY, names=()), replace(card(0), memory=MIB - 1)],
)
def test_a_card_whose_parts_are_not_known_has_no_device(without: Card) -> None:
    assert card_devices(without) is None


def test_cards_of_two_vendors_have_different_names() -> None:
    found = devices(card(0), replace(card(0), uuid="M-0", vendor="metax"))

    assert [each["name"] for each in found] == ["gpu-0", "metax-0"]


def test_each_device_leads_to_its_card() -> None:
    cards = [found for each in (card(0), mig_card(1)) if (found := card_devices(each))]

    names = names_of_cards(cards)

    assert names["gpu-0"] == "GPU-0"
    assert names["gpu-1-mig-7g-80gb-0"] == "GPU-1"


def test_shared_and_partitioned_cards_have_pools_of_their_own() -> None:
    cards = [found for each in (card(0), mig_card(1)) if (found := card_devices(each))]

    shared, partitioned = pools("n1", cards)

    assert shared.name == "n1"
    (name,) = shared.slices
    item = slice_object("n1", "node-uid", shared, name, 4)
    assert item["spec"]["pool"] == {"name": "n1", "generation": 4, "resourceSliceCount": 1}
    assert item["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    assert partitioned.name == "n1/mig"
    counters, devices = partitioned.slices.values()
    assert list(counters) == ["sharedCounters"]
    assert list(devices) == ["devices"]


def test_slices_are_within_the_limits_of_the_api() -> None:
    cards = [found for each in range(16) if (found := card_devices(mig_card(each)))]

    (pool,) = pools("n1", cards)

    slices = pool.slices.values()
    assert max(len(each.get("devices", ())) for each in slices) <= MAX_DEVICES
    assert max(len(each.get("sharedCounters", ())) for each in slices) <= MAX_COUNTER_SETS
    assert sum(len(each.get("devices", ())) for each in slices) == sum(
        len(each.devices) for each in cards
    )
    assert all(not {"devices", "sharedCounters"} <= each.keys() for each in slices)


def test_a_node_without_cards_has_no_pool() -> None:
    assert pools("n1", ()) == ()

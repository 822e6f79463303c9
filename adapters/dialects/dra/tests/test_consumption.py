from typing import Any

import msgspec
import pytest

from adapters.dialects.dra.claims import Claim
from adapters.dialects.dra.consumption import (
    ConsumptionError,
    as_allocated,
    check_share,
    consumed,
    with_shares,
)
from adapters.dialects.dra.tests.builders import NVIDIA, a_card_device, a_result, a_share, a_slice
from adapters.wire.dra import DeviceResult, RequestedClaim, SliceDevice

RANGE = {"default": "80Gi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}}
CAPACITY: dict[str, Any] = {
    "memory": {"value": "80Gi", "requestPolicy": RANGE},
    "compute": {"value": "100", "requestPolicy": {"default": "0"}},
    "slots": {"value": "10", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
    "plain": {"value": "4"},
}


def asked(requests: dict[str, str] | None) -> RequestedClaim:
    exactly = {"deviceClassName": "c", "capacity": {"requests": requests}}
    alternatives = {"name": "s", "firstAvailable": [{"name": "half", **exactly}]}
    requested = [{"name": "r", "exactly": exactly}, alternatives]
    return msgspec.convert({"spec": {"devices": {"requests": requested}}}, RequestedClaim)


def of(
    requests: dict[str, str] | None,
    capacity: dict[str, Any] | None = None,
    result: dict[str, object] | None = None,
    *,
    shared: bool = True,
) -> dict[str, str] | None:
    device = {
        **a_card_device("gpu-0", "a"),
        "allowMultipleAllocations": shared,
        "capacity": CAPACITY if capacity is None else capacity,
    }
    return consumed(
        asked(requests),
        msgspec.convert(result or a_result("gpu-0"), DeviceResult),
        msgspec.convert(device, SliceDevice),
    )


def test_a_request_consumes_what_it_states_and_the_default_of_the_rest() -> None:
    assert of({"memory": "8Gi", "compute": "20"}) == {
        "memory": str(8 << 30),
        "compute": "20",
        "slots": "1",
        "plain": "4",
    }


@pytest.mark.parametrize(
    ("name", "stated", "amount"),
    [
        ("memory", "1500M", str(1431 << 20)),
        ("memory", "1", "1048576"),
        ("slots", "2", "2"),
        ("slots", "1500m", "2"),
        ("plain", "1500m", "1500m"),
    ],
)
def test_an_amount_is_rounded_up_to_one_that_the_policy_allows(
    name: str, stated: str, amount: str
) -> None:
    found = of({name: stated})

    assert found is not None
    assert found[name] == amount


def test_a_range_without_a_step_takes_every_amount() -> None:
    capacity = {"memory": {"value": "8", "requestPolicy": {"validRange": {"min": "2"}}}}

    assert of({"memory": "3"}, capacity) == {"memory": "3"}


@pytest.mark.parametrize(
    ("requests", "problem"),
    [
        ({"memory": "81Gi"}, r"81Gi of memory is more than a claim can have, 85899345920"),
        ({"compute": "150"}, "150 of compute is more than a claim can have, 100"),
        ({"slots": "3"}, "3 of slots is more than a claim can have, 2"),
        ({"plain": "-1"}, "-1 of plain is more"),
        ({"cores": "1"}, "gpu-0 has no capacity cores"),
        ({"memory": "much"}, "gpu-0: 'much' is not a quantity"),
    ],
)
def test_what_the_device_cannot_give_is_an_error(requests: dict[str, str], problem: str) -> None:
    with pytest.raises(ConsumptionError, match=problem):
        of(requests)


def test_a_policy_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ConsumptionError, match="requestPolicy cannot be read"):
        of({"memory": "1"}, {"memory": {"value": "8", "requestPolicy": {"validRange": 7}}})


def test_a_request_for_all_of_a_device_stays() -> None:
    assert of(None) is None
    assert of({"memory": "8Gi"}, shared=False) is None
    assert of({"memory": "8Gi"}, result=a_share("gpu-0")) is None
    assert of({"memory": "8Gi"}, result={**a_result("gpu-0"), "request": "unknown"}) is None


def test_an_alternative_consumes_what_it_states() -> None:
    found = of({"memory": "8Gi"}, result={**a_result("gpu-0"), "request": "s/half"})

    assert found is not None
    assert found["memory"] == str(8 << 30)
    assert of({"memory": "8Gi"}, result={**a_result("gpu-0"), "request": "s/other"}) is None
    assert of({"memory": "8Gi"}, result={**a_result("gpu-0"), "request": "r/half"}) is None


@pytest.mark.parametrize(
    ("amounts", "problem"),
    [
        ({"memory": "8Gi", "compute": "0", "slots": "1", "plain": "4"}, ""),
        ({"memory": "9Gi", "compute": "1", "slots": "2", "plain": "4"}, ""),
        ({"memory": "7Gi", "compute": "0", "slots": "1", "plain": "4"}, "has 7Gi of memory, less"),
        ({"memory": "8Gi", "compute": "0", "plain": "4"}, "has 0 of slots, less"),
        ({"memory": "much", "compute": "0", "slots": "1", "plain": "4"}, "consumedCapacity of gpu"),
    ],
)
def test_a_share_may_be_more_than_its_request_and_never_less(
    amounts: dict[str, str], problem: str
) -> None:
    whole = {**a_card_device("gpu-0", "a"), "capacity": CAPACITY}
    device, alone = (
        msgspec.convert({**whole, "allowMultipleAllocations": shared}, SliceDevice)
        for shared in (True, False)
    )
    share = msgspec.convert(a_share("gpu-0", **amounts), DeviceResult)
    check_share(asked({"memory": "8Gi"}), share, alone)

    if not problem:
        check_share(asked({"memory": "8Gi"}), share, device)
        return
    with pytest.raises(ConsumptionError, match=problem):
        check_share(asked({"memory": "8Gi"}), share, device)


def test_each_device_of_which_a_part_is_requested_gets_a_share_that_has_none() -> None:
    results = (
        a_result("gpu-0", adminAccess=True),
        a_result("gpu-0"),
        a_share("gpu-1", memory="9Gi", compute="0", slots="1", plain="4"),
        a_result("unknown"),
        a_result("gpu-0", "nic"),
        a_result("gpu-1"),
    )
    devices = (
        {
            **a_card_device(f"gpu-{i}", f"{i}"),
            "allowMultipleAllocations": True,
            "capacity": CAPACITY,
        }
        for i in range(2)
    )
    claim = Claim("u", "team/c", tuple(msgspec.convert(each, DeviceResult) for each in results))
    pools = {(NVIDIA, "n"): [a_slice(), a_slice(*devices)]}

    found = with_shares(claim, asked({"memory": "8Gi"}), pools, "seed")

    changed = [
        number
        for number, (before, after) in enumerate(
            zip(claim.all_results, found.all_results, strict=True)
        )
        if before != after
    ]
    assert changed == [1, 5]
    first, second = (found.all_results[number] for number in changed)
    assert first.share_id != second.share_id
    assert first.consumed_capacity == of({"memory": "8Gi"})
    again = with_shares(claim, asked({"memory": "8Gi"}), pools, "seed")
    assert again == found


def test_a_share_that_is_less_than_its_request_is_an_error_of_the_claim() -> None:
    device = {**a_card_device("gpu-0", "a"), "allowMultipleAllocations": True, "capacity": CAPACITY}
    result = msgspec.convert(a_share("gpu-0", memory="1Gi"), DeviceResult)
    pools = {(NVIDIA, "n"): [a_slice(device)]}

    with pytest.raises(ConsumptionError, match="less than its request"):
        with_shares(Claim("u", "team/c", (result,)), asked({"memory": "8Gi"}), pools, "seed")


@pytest.mark.parametrize("shared", [True, False])
def test_an_allocation_has_a_share_of_a_device_that_claims_share(shared: bool) -> None:
    result = msgspec.convert(a_result("gpu-0"), DeviceResult)
    stated = {**a_card_device("gpu-0", "a"), "allowMultipleAllocations": shared}
    device = msgspec.convert({**stated, "capacity": CAPACITY}, SliceDevice)

    found = as_allocated(asked({"memory": "8Gi"}), result, device)

    assert (found == result) is not shared
    assert (found.share_id is not None) is shared
    assert (found.consumed_capacity or {}).get("memory") == (str(8 << 30) if shared else None)
    with pytest.raises(ConsumptionError):
        as_allocated(asked({"memory": "81Gi"}), result, device)

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from adapters.dialects.dra.claims import Claim, allocated
from adapters.dialects.dra.devices import Devices
from adapters.dialects.dra.holders import holding
from adapters.dialects.dra.shadows import shadows
from adapters.dialects.dra.tests.builders import (
    NVIDIA,
    a_card_device,
    a_claim,
    a_mig_device,
    a_result,
    a_share,
    a_slice,
)
from adapters.wire.dra import ResourceClaim, ResourceSlice
from core.hardware.card import Card
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from core.requests.request import SharingTerms, TaskClass
from core.tests.builders import a_card, a_grant, a_mig_card, a_node, a_sliced_grant, held

HAMI = "hami-core-gpu.project-hami.io"
CARD = a_card("a", 0, 80 * GIB, slots=10)
COUNTERS = {"consumesCounters": [{"counterSet": "a", "counters": {"slice-0": {"value": "1"}}}]}


def a_shared(name: str = "gpu-0", uuid: str = "a", **amounts: str) -> dict[str, object]:
    """A device that claims share, with its capacities as they are published."""
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "attributes": {"uuid": {"string": uuid}},
        "capacity": {
            key: {"value": value} for key, value in (amounts or {"memory": "80Gi"}).items()
        },
    }


SHARED = a_slice(a_shared(), driver=HAMI)


def shadowed(
    *allocations: Allocation,
    slices: Iterable[ResourceSlice] = (SHARED,),
    card: Card = CARD,
    claims: Mapping[str, Claim] | None = None,
) -> dict[str, Mapping[str, int] | None]:
    ledger = NodeLedger.restored(a_node(card), allocations)
    found = shadows(ledger, Devices(slices).of_node("n"), claims or {})
    return {"/".join(each.key): each.consumed for each in found}


def claimed(claim: ResourceClaim, *slices: ResourceSlice) -> tuple[Claim, Allocation]:
    found = allocated(claim)
    assert found is not None
    grants = holding(found, a_node(CARD), Devices(slices))
    assert grants is not None
    return found, grants


def test_a_card_that_is_free_has_no_shadow() -> None:
    assert shadowed() == {}


def test_amounts_of_a_shared_device_are_the_sum_of_what_pods_have() -> None:
    stated = {"memory": "80Gi", f"{NVIDIA}/memory": "80Gi", f"{NVIDIA}/cores": "200"}
    stated["x/memory"] = "1Gi"
    found = shadowed(
        held(a_grant(memory=20 * GIB, compute=30), uid="p"),
        held(a_grant(memory=5 * GIB, compute=5), uid="q"),
        slices=[a_slice(a_shared(**stated, shares="10", other="7"))],
    )

    memory = {"memory": 25 * GIB, f"{NVIDIA}/memory": 25 * GIB}
    assert found == {f"{NVIDIA}/n/gpu-0": {**memory, f"{NVIDIA}/cores": 70, "shares": 2}}


def test_what_the_card_has_less_than_the_device_is_in_use_too() -> None:
    found = shadowed(
        held(a_grant(memory=GIB)),
        slices=[a_slice(a_shared(memory="81Gi", shares="12"), driver=HAMI)],
    )

    assert found == {f"{HAMI}/n/gpu-0": {"memory": 2 * GIB, "shares": 3}}


@pytest.mark.parametrize(
    "allocation",
    [
        held(replace(a_grant(memory=GIB), exclusive=True)),
        held(a_grant(memory=80 * GIB)),
        held(a_grant(memory=GIB, compute=100)),
        replace(held(a_grant(memory=GIB)), terms=SharingTerms(task_class=TaskClass.OFFLINE)),
        replace(held(), unread="?", blocked=frozenset("a")),
    ],
)
def test_a_device_of_which_no_claim_can_have_a_part_is_taken_as_a_whole(
    allocation: Allocation,
) -> None:
    assert shadowed(allocation) == {f"{HAMI}/n/gpu-0": None}


def test_a_device_that_claims_cannot_share_is_taken_as_a_whole() -> None:
    pod = held(a_grant(memory=GIB))

    assert shadowed(pod, slices=[a_slice(a_card_device("gpu-0", "a"))]) == {
        f"{NVIDIA}/n/gpu-0": None
    }
    no_memory = a_slice(a_shared(shares="4"))
    assert shadowed(pod, slices=[no_memory]) == {f"{NVIDIA}/n/gpu-0": None}


def test_a_claim_is_counted_by_schedulers_for_its_own_device_alone() -> None:
    theirs = a_slice(a_card_device("gpu-7", "a"))
    claim, grants = claimed(a_claim(a_share("gpu-0", memory="8Gi")), a_slice(a_shared()))

    found = shadowed(grants, slices=[theirs, a_slice(a_shared(), driver=HAMI)], claims={})
    assert found == {}, "the write of its allocation is on its way"

    found = shadowed(
        grants,
        slices=[a_slice(a_shared(), a_card_device("gpu-7", "a")), SHARED],
        claims={claim.uid: claim},
    )
    assert found == {f"{NVIDIA}/n/gpu-7": None, f"{HAMI}/n/gpu-0": {"memory": 8 * GIB}}


def test_the_cards_of_a_deallocated_claim_are_in_use_while_containers_may_run() -> None:
    _, grants = claimed(a_claim(a_share("gpu-0", memory="8Gi")), a_slice(a_shared()))

    found = shadowed(replace(grants, release_by=7), slices=[a_slice(a_shared())])

    assert found == {f"{NVIDIA}/n/gpu-0": {"memory": 8 * GIB}}


def test_devices_of_other_cards_are_free() -> None:
    assert shadowed(held(a_grant()), slices=[a_slice(a_shared(uuid="b"))]) == {}


MIG = a_mig_card()
PARTS = [
    a_mig_device("first", "a", "1g", 0),
    a_mig_device("second", "a", "1g", 1),
    a_mig_device("half", "a", "2g", 0),
]


def of_mig(*devices: dict[str, object], pod: Allocation) -> set[str]:
    found = shadowed(pod, slices=[a_slice(*devices)], card=MIG)
    return {key.rpartition("/")[2] for key in found}


def test_slices_that_overlap_one_in_use_are_taken() -> None:
    assert of_mig(*PARTS, pod=held(a_sliced_grant(0))) == {"first", "half"}
    assert of_mig(*PARTS, pod=held(a_sliced_grant(2))) == set()


def test_a_slice_of_which_nothing_is_known_is_taken() -> None:
    no_start: dict[str, object] = {**a_mig_device("x", "a", "1g", 0), "capacity": {}}
    other = a_mig_device("y", "a", "9g", 3)

    assert of_mig(no_start, other, pod=held(a_sliced_grant(2))) == {"x", "y"}


def test_a_share_of_the_card_takes_all_its_slices() -> None:
    assert of_mig(*PARTS, pod=held(a_grant())) == {"first", "second", "half"}


def counted(*devices: dict[str, object]) -> list[dict[str, object]]:
    return [{**each, **COUNTERS} for each in devices]


def test_where_counters_say_what_a_slice_excludes_only_the_slice_is_taken() -> None:
    whole = a_shared("gpu-0", memory="4Gi")

    assert of_mig(*counted(*PARTS, whole), pod=held(a_sliced_grant(0))) == {"first"}


def test_a_slice_that_is_not_published_takes_those_that_overlap_it_or_the_card() -> None:
    whole = a_shared("gpu-0", memory="4Gi")
    eighth = Grant("main", "a", GIB, 25, slice=a_sliced_grant(3).slice)

    assert of_mig(*counted(PARTS[2], whole), pod=held(a_sliced_grant(1))) == {"half"}
    assert of_mig(*counted(*PARTS, whole), pod=held(eighth)) == {"gpu-0"}
    assert of_mig(*counted(*PARTS), pod=held(eighth)) == {"first", "second", "half"}


def test_a_share_of_a_card_with_counters_takes_the_whole_device_else_all_slices() -> None:
    whole = a_shared("gpu-0", memory="4Gi")

    assert of_mig(*counted(*PARTS, whole), pod=held(a_grant())) == {"gpu-0"}
    assert of_mig(*counted(*PARTS), pod=held(a_grant())) == {"first", "second", "half"}


def test_a_claim_on_a_device_with_counters_is_known_for_all_devices_of_its_pool() -> None:
    claim = allocated(a_claim(a_result("first")))
    assert claim is not None
    allocation = Allocation(claim.uid, claim.name, "dra", "n", (a_sliced_grant(0),))

    found = shadowed(
        allocation,
        slices=[a_slice(*counted(*PARTS))],
        card=MIG,
        claims={claim.uid: claim},
    )

    assert found == {}

from dataclasses import replace

import pytest

from adapters.dialects.dra.claims import Claim, allocated
from adapters.dialects.dra.devices import Devices
from adapters.dialects.dra.holders import PRIORITY, holding
from adapters.dialects.dra.tests.builders import (
    a_card_device,
    a_claim,
    a_mig_device,
    a_result,
    a_share,
    a_slice,
    with_status,
)
from adapters.wire.dra import ResourceClaim, ResourceSlice
from core.hardware.card import Mode
from core.hardware.node import Node
from core.hardware.quantity import FULL, GIB, MIB
from core.requests.grant import Allocation, Grant
from core.tests.builders import A30ISH, a_card, a_mig_card, a_node

NODE = a_node(a_card("GPU-0", 0, 80 * GIB), a_card("GPU-1", 1, 80 * GIB))
SLICE = a_slice(a_card_device("gpu-0", "GPU-0"), a_card_device("gpu-1", "GPU-1"))


def held(claim: ResourceClaim, *slices: ResourceSlice, node: Node = NODE) -> Allocation | None:
    found = allocated(claim)
    assert found is not None
    return holding(found, node, Devices(slices or (SLICE,)))


def test_a_device_without_a_share_id_is_the_whole_card() -> None:
    found = held(a_claim(a_result("gpu-1")))

    grant = Grant("", "GPU-1", 80 * GIB, FULL, exclusive=True)
    assert found is not None
    assert found.devices
    expected = Allocation("u-claim", "team/c", "dra", "n", (grant,), priority=PRIORITY)
    assert found == replace(expected, devices=found.devices)


def test_a_share_is_what_it_consumes() -> None:
    found = held(a_claim(a_share("gpu-0", memory="8Gi", cores="20", shares="1")))

    assert found is not None
    assert found.grants == (Grant("", "GPU-0", 8 * GIB, 20),)


def test_a_share_of_all_compute_is_not_exclusive() -> None:
    """The other dialects do so; what all compute means to a driver is its own affair."""
    found = held(a_claim(a_share("gpu-0", memory="8Gi", cores="100")))

    assert found is not None
    assert found.grants == (Grant("", "GPU-0", 8 * GIB, FULL),)


def test_shares_of_several_cards_are_several_grants() -> None:
    found = held(a_claim(a_share("gpu-0", memory="1Gi"), a_share("gpu-1", memory="2Gi")))

    assert found is not None
    assert [(g.card, g.memory, g.compute) for g in found.grants] == [
        ("GPU-0", GIB, 0),
        ("GPU-1", 2 * GIB, 0),
    ]


def test_a_share_of_all_memory_is_all_memory_of_the_card() -> None:
    node = a_node(a_card("GPU-0", 0, 80 * GIB - MIB))

    for share in (a_share("gpu-0", memory="80Gi"), a_share("gpu-0", cores="5")):
        found = held(a_claim(share), node=node)
        assert found is not None
        assert [grant.memory for grant in found.grants] == [80 * GIB - MIB]


def test_cores_are_percent_of_what_the_driver_publishes() -> None:
    device = a_card_device("gpu-0", "GPU-0") | {
        "capacity": {"cores": {"value": "40"}, "memory": {"value": "no quantity"}}
    }

    found = held(a_claim(a_share("gpu-0", cores="10", memory="1500m")), a_slice(device))

    assert found is not None
    assert [(g.memory, g.compute) for g in found.grants] == [(2, 25)]


@pytest.mark.parametrize(
    ("share", "why"),
    [
        (a_share("gpu-0", memory="lots"), "'lots' is not a quantity"),
        (a_share("gpu-0", memory="-1"), "-1: memory must be more than 0 and at most 2814749767"),
        (a_share("gpu-0", memory="0"), "0: memory must be more than 0"),
        (a_share("gpu-0", memory="0", cores="20"), "0: memory must be more than 0"),
        (a_share("gpu-0", memory="1", cores="101"), "101: compute must be 0 to 100 percent"),
        (a_share("gpu-0", memory="1", cores="-1"), "-1: compute must be 0 to 100 percent"),
    ],
)
def test_a_share_that_cannot_be_parsed_takes_the_card(share: dict[str, object], why: str) -> None:
    found = held(a_claim(share, a_share("gpu-1", memory="1Gi")))

    assert found is not None
    assert found.grants == ()
    assert found.blocked == {"GPU-0", "GPU-1"}
    assert found.unread is not None
    assert why in found.unread


def amounts(**capacities: str) -> dict[str, str]:
    """Names with ``__`` in place of ``/`` and ``_`` in place of a dot of the domain."""
    return {
        "/".join((*(each.replace("_", ".") for each in domain), last)): value
        for name, value in capacities.items()
        for *domain, last in [name.split("__")]
    }


def ordered(texts: dict[str, str], *, reverse: bool) -> list[tuple[str, str]]:
    return [*texts.items()][:: -1 if reverse else 1]


@pytest.mark.parametrize(
    ("capacity", "consumed", "granted"),
    [
        # Another domain's capacity means something else.
        (amounts(memory="80Gi", evil_dev__memory="1"), amounts(memory="8Gi"), (8 * GIB, 0)),
        (
            amounts(memory="80Gi", cores="100", evil_dev__cores="1"),
            amounts(memory="8Gi", cores="20", evil_dev__memory="1", evil_dev__cores="0"),
            (8 * GIB, 20),
        ),
        (amounts(evil_dev__memory="1Gi"), amounts(evil_dev__memory="1Gi"), (80 * GIB, 0)),
        (amounts(memory="80Gi"), amounts(memory="8Gi", evil_dev__memory="?"), (8 * GIB, 0)),
        # The driver's own domain can be written or left out.
        (amounts(gpu_nvidia_com__memory="80Gi"), amounts(memory="80Gi"), (80 * GIB, 0)),
        (
            amounts(memory="80Gi", cores="40"),
            amounts(gpu_nvidia_com__memory="8Gi", gpu_nvidia_com__cores="10"),
            (8 * GIB, 25),
        ),
        # Where both are there, the claim has no less than each says.
        (
            amounts(memory="80Gi"),
            amounts(memory="8Gi", gpu_nvidia_com__memory="1Mi"),
            (8 * GIB, 0),
        ),
        (
            amounts(memory="8Gi", gpu_nvidia_com__memory="80Gi"),
            amounts(memory="8Gi"),
            (80 * GIB, 0),
        ),
        (
            amounts(memory="80Gi", cores="40", gpu_nvidia_com__cores="4000"),
            amounts(memory="8Gi", cores="10"),
            (8 * GIB, 25),
        ),
        # A device of no memory that is consumed all the same.
        (amounts(memory="0", cores="0"), amounts(memory="8Gi", cores="10"), (80 * GIB, 10)),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_capacity_belongs_to_the_domain_of_the_driver_where_it_names_no_other(
    capacity: dict[str, str], consumed: dict[str, str], granted: tuple[int, int], *, reverse: bool
) -> None:
    published = {name: {"value": value} for name, value in ordered(capacity, reverse=reverse)}
    device = a_card_device("gpu-0", "GPU-0") | {"capacity": published}
    taken = dict(ordered(consumed, reverse=reverse))
    share = a_result("gpu-0", shareID="b", consumedCapacity=taken)

    found = held(a_claim(share), a_slice(device))

    assert found is not None
    assert [(each.memory, each.compute) for each in found.grants] == [granted]


@pytest.mark.parametrize(
    ("attributes", "card"),
    [
        ({"uuid": "GPU-0", "evil.dev/uuid": "GPU-1"}, "GPU-0"),
        ({"uuid": "GPU-0", "evil.dev/parentUUID": "GPU-1", "evil.dev/profile": "1g"}, "GPU-0"),
        ({"uuid": "GPU-0", "gpu.nvidia.com/uuid": "GPU-0"}, "GPU-0"),
        ({"uuid": "GPU-0", "gpu.nvidia.com/uuid": "GPU-1"}, None),
        ({"evil.dev/uuid": "GPU-0"}, None),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_an_attribute_belongs_to_the_domain_of_the_driver_where_it_names_no_other(
    attributes: dict[str, str], card: str | None, *, reverse: bool
) -> None:
    stated = {name: {"string": text} for name, text in ordered(attributes, reverse=reverse)}
    device = a_card_device("gpu-0", "GPU-0") | {"attributes": stated}

    found = held(a_claim(a_result("gpu-0")), a_slice(device))

    assert found is not None
    assert found.cards == ({card} if card else {"GPU-0", "GPU-1"})


def test_a_part_that_states_no_card_of_the_node_takes_the_one_whose_counters_it_takes() -> None:
    counters = {"consumesCounters": [{"counterSet": "first", "counters": {"m": {"value": "1"}}}]}
    card = a_card_device("gpu-0", "GPU-0") | counters
    part: dict[str, object] = {"name": "part", "attributes": {"uuid": {"string": "PART-0"}}}

    found = held(a_claim(a_result("part")), a_slice(card, part | counters))

    assert found is not None
    assert found.blocked == {"GPU-0"}


def test_a_device_without_a_driver_may_be_any_card() -> None:
    found = held(a_claim(a_result("", driver="", pool="")), a_slice())

    assert found is not None
    assert found.blocked == {card.uuid for card in NODE.cards}


def test_a_claim_that_cannot_be_decoded_takes_all_cards_of_the_nodes_that_it_may_have() -> None:
    devices = Devices(())
    for nodes, blocked in ((None, NODE.cards), (frozenset({"n"}), NODE.cards)):
        found = holding(Claim("u", "team/c", nodes=nodes, unread="odd"), NODE, devices)
        assert found is not None
        assert found.blocked == {card.uuid for card in blocked}
    elsewhere = Claim("u", "team/c", nodes=frozenset({"other"}), unread="odd")
    assert holding(elsewhere, NODE, devices) is None


def test_a_mig_device_is_its_slice() -> None:
    node = a_node(a_mig_card("GPU-0"))
    devices = a_slice(a_mig_device("mig", "GPU-0", "1G", 2))

    found = held(a_claim(a_result("mig")), devices, node=node)

    assert found is not None
    (grant,) = found.grants
    assert grant.slice is not None
    assert (grant.slice.profile, grant.slice.start) == ("1g", 2)
    assert (grant.memory, grant.compute) == (grant.slice.memory, grant.slice.compute)


def test_the_start_of_a_mig_device_is_stated_or_follows_from_its_counters() -> None:
    node = a_node(a_mig_card("GPU-0"))
    attributes = {"parentUUID": {"string": "GPU-0"}, "profile": {"string": "2g"}}
    counters = {name: {"value": "1"} for name in ("memory-slice-3", "memory-slice-2", "sms")}
    by_counters = {"consumesCounters": [{"counterSet": "gpu-0", "counters": counters}]}
    stated = {"attributes": {**attributes, "start": {"int": 2}}}

    for more in (by_counters, stated):
        device: dict[str, object] = {"name": "mig", "attributes": attributes, **more}
        found = held(a_claim(a_result("mig")), a_slice(device), node=node)
        assert found is not None
        assert [g.slice and g.slice.start for g in found.grants] == [2]


@pytest.mark.parametrize(
    "card",
    [
        replace(a_mig_card("GPU-0"), mode=Mode.SHARED),
        replace(a_mig_card("GPU-0"), geometry=replace(A30ISH, layouts=())),
    ],
)
def test_a_mig_device_that_no_layout_has_takes_the_card(card: object) -> None:
    node = Node("n", (card,))  # type: ignore[arg-type]

    found = held(
        a_claim(a_result("mig")), a_slice(a_mig_device("mig", "GPU-0", "1g", 0)), node=node
    )

    assert found is not None
    assert found.blocked == {"GPU-0"}
    assert found.unread == "no layout of card GPU-0 has the 1g of gpu.nvidia.com/n/mig"


def test_a_mig_device_without_a_start_takes_the_card() -> None:
    attributes = {"parentUUID": {"string": "GPU-0"}, "profile": {"string": "1g"}}
    device: dict[str, object] = {
        "name": "mig",
        "attributes": attributes,
        "consumesCounters": [{}],
    }

    found = held(a_claim(a_result("mig")), a_slice(device), node=a_node(a_mig_card("GPU-0")))

    assert found is not None
    assert found.blocked == {"GPU-0"}


def test_an_unknown_device_of_a_driver_of_cards_takes_all_cards_of_the_node() -> None:
    found = held(a_claim(a_result("gpu-7")))

    assert found is not None
    assert found.blocked == {"GPU-0", "GPU-1"}
    assert found.unread == "no ResourceSlice describes gpu.nvidia.com/n/gpu-7"


def test_a_device_without_a_uuid_may_be_each_card() -> None:
    found = held(a_claim(a_result("vfio")), a_slice({"name": "vfio"}))

    assert found is not None
    assert found.blocked == {"GPU-0", "GPU-1"}
    assert found.unread == "no card's uuid is stated for gpu.nvidia.com/n/vfio"


def test_a_driver_that_publishes_a_card_of_the_node_means_cards() -> None:
    slices = a_slice(a_card_device("x", "GPU-0"), driver="accelerators.example.com")

    found = held(a_claim(a_result("y", "accelerators.example.com")), slices)

    assert found is not None
    assert found.unread == "no ResourceSlice describes accelerators.example.com/n/y"


def test_an_unknown_device_of_another_driver_holds_nothing() -> None:
    assert held(a_claim(a_result("channel-1", "compute-domain.nvidia.com"))) is None


def test_a_card_that_the_node_does_not_have_is_not_held_there() -> None:
    assert held(a_claim(a_result("gpu-0")), a_slice(a_card_device("gpu-0", "GPU-9"))) is None


def test_an_unknown_device_takes_cards_only_where_it_can_be() -> None:
    assert held(a_claim(a_result("gpu-7"), node="elsewhere")) is None
    assert held(a_claim(a_result("gpu-7"), node=None)) is not None
    elsewhere = a_result("gpu-7") | {"pool": "unknown"}
    assert held(a_claim(elsewhere, node=None)) is not None


def test_a_claim_that_cannot_be_decoded_takes_all_cards() -> None:
    claim = with_status({"allocation": 7})

    found = held(claim)

    assert found is not None
    assert found.blocked == {"GPU-0", "GPU-1"}
    assert held(claim, node=Node("empty")) is None


def test_a_newer_generation_of_a_pool_counts() -> None:
    newer = a_slice(a_card_device("gpu-0", "GPU-1"), generation=2)

    found = held(a_claim(a_result("gpu-0")), newer, SLICE)

    assert found is not None
    assert [grant.card for grant in found.grants] == ["GPU-1"]

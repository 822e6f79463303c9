from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects import allocation_record
from adapters.dialects.dialect import NO_ALLOCATION, DialectError
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.dialect import Volcano
from adapters.dialects.volcano.tests.builders import (
    A100,
    NOW,
    a_container,
    a_node,
    a_pod,
    entry,
    idle,
    place,
    volcano,
    written,
)
from adapters.wire.kube import Container, Pod
from core.hardware.node import Node
from core.hardware.quantity import MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant, Placement
from core.requests.reason import Reason
from core.requests.request import Phase

MIG = entry("u0", mode="mig")


def with_annotations(requested: Pod, annotations: dict[str, str]) -> Pod:
    both = {**(requested.metadata.annotations or {}), **annotations}
    metadata = msgspec.structs.replace(requested.metadata, annotations=both)
    return msgspec.structs.replace(requested, metadata=metadata)


def read(
    requested: Pod, text: str, on: Node | None = None, dialect: Volcano | None = None
) -> tuple[Grant, ...]:
    dialect = dialect or volcano()
    bound = with_annotations(requested, {keys.ASSIGNED: text})
    return dialect.read_result(bound, dialect.read_request(bound), on or a_node(idle(2)))


def placed(
    requested: Pod, on: Node, dialect: Volcano | None = None
) -> tuple[Placement, dict[str, str]]:
    dialect = dialect or volcano()
    _, answer = place(NodeLedger.of(on), requested, dialect)
    assert isinstance(answer, Placement)
    return answer, dict(written(dialect, requested, answer, on))


# Writing.


def test_all_six_keys_are_written_with_seconds_and_the_phase_allocating() -> None:
    _, annotations = placed(a_pod(a_container(number=1, memory=3000, cores=50)), a_node(idle(2)))

    assert annotations == {
        "volcano.sh/vgpu-node": "node-1",
        "volcano.sh/vgpu-time": "1700000000",
        "volcano.sh/vgpu-ids-new": "u1,NVIDIA,3000,50:",
        "volcano.sh/devices-to-allocate": "u1,NVIDIA,3000,50:",
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1700000000",
    }


def test_a_percentage_of_different_cards_is_written_in_the_order_of_the_cards() -> None:
    """The device plugin numbers the limits by the record, the container its cards by the bus."""
    cards = entry("h100", memory="81559") + entry("l40s", memory="24564")

    _, annotations = placed(a_pod(a_container(number=2, percent=25)), a_node(cards))

    assert annotations[keys.ASSIGNED] == "h100,NVIDIA,20389,0:l40s,NVIDIA,6141,0:"


def test_no_label_is_written() -> None:
    requested, on = a_pod(a_container(number=1)), a_node(idle(1))
    placement, _ = placed(requested, on)
    dialect = volcano()

    result = dialect.write_result(requested, dialect.read_request(requested), placement, on, NOW)

    assert result.labels == {}


def test_only_a_scheduler_may_write_what_is_written() -> None:
    _, annotations = placed(
        a_pod(Container("idle"), a_container("main", number=1, memory=1)), a_node(idle(1))
    )

    assert annotations.keys() == volcano().result_keys


def test_a_slice_is_written_with_the_requested_amounts() -> None:
    _, annotations = placed(a_pod(a_container(number=1, memory=3000, cores=10)), a_node(MIG))

    assert annotations[keys.ASSIGNED] == "u0[group1-0],NVIDIA,3000,10:"


def test_a_percentage_of_a_slice_is_written_as_units_of_the_card() -> None:
    _, annotations = placed(a_pod(a_container(number=1, percent=20)), a_node(MIG))

    assert annotations[keys.ASSIGNED] == "u0[group2-0],NVIDIA,8192,0:"


@pytest.mark.parametrize(
    "requested",
    [
        a_pod(Container("idle"), a_container("main", number=1)),
        a_pod(
            a_container("main", number=1, memory=1), init=[a_container("init", number=1, memory=1)]
        ),
        a_pod(Container("main"), init=[a_container("init", number=1)]),
    ],
)
def test_our_own_record_is_written_beside_a_list_that_the_plugin_attributes_to_another_container(
    requested: Pod,
) -> None:
    placement, annotations = placed(requested, a_node(idle(1)))

    assert allocation_record.decode(annotations[allocation_record.KEY]) == placement.grants


def test_our_own_record_is_omitted_where_the_plugin_finds_the_right_containers() -> None:
    _, annotations = placed(
        a_pod(a_container("a", number=1), a_container("b", number=1), Container("idle")),
        a_node(idle(2)),
    )

    assert allocation_record.KEY not in annotations


# Reading.


def test_a_pod_has_a_result_when_it_carries_a_record() -> None:
    requested = a_pod(a_container(number=1))

    assert not volcano().has_result(requested)
    assert volcano().has_result(with_annotations(requested, {keys.ASSIGNED: ""}))
    assert volcano().has_result(with_annotations(requested, {allocation_record.KEY: "[]"}))


def test_our_own_record_is_read_in_preference() -> None:
    dialect = volcano()
    grants = (Grant("main", "u0", 5 * MIB, 5),)
    bound = with_annotations(
        a_pod(a_container(number=1, memory=5, cores=5)),
        {keys.ASSIGNED: "rubbish", allocation_record.KEY: allocation_record.encode(grants)},
    )

    assert dialect.read_result(bound, dialect.read_request(bound), a_node(idle(1))) == grants


def test_lists_of_devices_belong_to_the_requesting_containers_in_start_order() -> None:
    requested = a_pod(
        a_container("a", number=2),
        Container("idle"),
        a_container("b", number=1),
        init=[a_container("warm", number=1)],
    )

    grants = read(requested, "u0,NVIDIA,10,0:;u0,NVIDIA,20,0:u1,NVIDIA,20,0:;u1,NVIDIA,30,100:")

    assert grants == (
        Grant("warm", "u0", 10 * MIB, 0, phase=Phase.INIT),
        Grant("a", "u0", 20 * MIB, 0),
        Grant("a", "u1", 20 * MIB, 0),
        Grant("b", "u1", 30 * MIB, 100, exclusive=True),
    )


def test_units_are_read_by_the_factor() -> None:
    (grant,) = read(
        a_pod(a_container(number=1)), "u0,NVIDIA,375,0:", dialect=volcano({"gpuMemoryFactor": 8})
    )

    assert grant.memory == 3000 * MIB


def test_a_slice_is_read_as_all_that_it_has() -> None:
    (grant,) = read(a_pod(a_container(number=1)), "u0[group2-3],NVIDIA,3000,50:", a_node(MIG))

    assert grant.memory == 4864 * MIB
    assert grant.compute == 14
    assert grant.slice is not None
    assert (grant.slice.profile, grant.slice.start) == ("1g.5gb", 6)


def test_a_pod_that_requests_memory_alone_has_an_allocation_that_no_record_names() -> None:
    without_number = a_pod(a_container(memory=3000))
    without_cards = a_pod(a_container(number=0, memory=3000))

    assert volcano().read_adopted(without_number, a_node(idle(2))) is None
    assert volcano().read_adopted(without_cards, a_node(idle(2))) == NO_ALLOCATION


@pytest.mark.parametrize("identity", ["gone", "gone[group1-0]"])
def test_a_card_that_the_node_does_not_have_keeps_its_uuid(identity: str) -> None:
    assert read(a_pod(a_container(number=1)), f"{identity},NVIDIA,3000,50:") == (
        Grant("main", "gone", 3000 * MIB, 50),
    )


TWO = a_pod(a_container("a", number=1), a_container("b", number=2))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("", "must have 2 lists of devices, one for each container"),
        ("u0,NVIDIA,1,0:", "must have 2 lists of devices, one for each container"),
        ("u0,NVIDIA,1,0:;;", "must have 2 lists of devices, one for each container"),
        ("u0,NVIDIA,1,0;u0,NVIDIA,1,0:", "must end every device with a colon"),
        (";u0,NVIDIA,1,0:", "must list 1 devices for container a"),
        ("u0,NVIDIA,1,0:;u0,NVIDIA,1,0:", "must list 2 devices for container b"),
        (
            "u0,NVIDIA,1,0:;u0,NVIDIA,1,0:u0,NVIDIA,1,0:",
            "must not list u0 twice for b",
        ),
    ],
)
def test_a_record_of_another_shape_is_rejected(text: str, right: str) -> None:
    with pytest.raises(DialectError) as rejected:
        read(TWO, text)

    assert rejected.value.field == "metadata.annotations[volcano.sh/vgpu-ids-new]"
    assert rejected.value.value == text
    assert rejected.value.problem == right


@pytest.mark.parametrize(
    ("device", "right"),
    [
        ("u0,NVIDIA,1", "must list devices as uuid,NVIDIA,memory,cores"),
        ("u0,NVIDIA,1,0,0", "must list devices as uuid,NVIDIA,memory,cores"),
        ("u0,Ascend,1,0", "must list devices as uuid,NVIDIA,memory,cores"),
        (",NVIDIA,1,0", "must name devices as uuid or uuid[group-position]"),
        ("u0[group1],NVIDIA,1,0", "must name devices as uuid or uuid[group-position]"),
        ("u0,NVIDIA,,0", "must state memory in units, 1 or more"),
        ("u0,NVIDIA,-1,0", "must state memory in units, 1 or more"),
        ("u0,NVIDIA,0,0", "must state memory in units, 1 or more"),
        ("u0,NVIDIA,1,all", "must state cores in percent, 0 to 100"),
        ("u0,NVIDIA,1,101", "must state cores in percent, 0 to 100"),
        ("u0[group1-0],NVIDIA,1,0", "must not name a slice of u0, which is not partitioned"),
        ("u1,NVIDIA,1,0", "must name a slice of u1 that its layouts have"),
        ("u1[group9-0],NVIDIA,1,0", "must name a slice of u1 that its layouts have"),
        ("u1[group1-7],NVIDIA,1,0", "must name a slice of u1 that its layouts have"),
    ],
)
def test_an_impossible_device_is_rejected(device: str, right: str) -> None:
    on = a_node(entry("u0") + entry("u1", mode="mig"))

    with pytest.raises(DialectError) as rejected:
        read(a_pod(a_container(number=1)), f"{device}:", on)

    assert rejected.value.problem == right


@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from(["u0", "[group1-0]", ",", "NVIDIA", "1", "100", ":", ";", "", "x"])
        ).map("".join),
    )
)
def test_garbage_gives_grants_or_a_dialect_error_and_nothing_else(text: str) -> None:
    try:
        grants = read(TWO, text)
    except DialectError:
        return

    assert [grant.container for grant in grants] == ["a", "b", "b"]


# Round trip.

shares = st.fixed_dictionaries(
    {"number": st.integers(1, 2), "memory": st.integers(1, 1200)},
    optional={"cores": st.sampled_from([0, 10, 14, 100])},
) | st.fixed_dictionaries({"number": st.integers(1, 2), "percent": st.integers(1, 40)})


def a_container_with(name: str, share: dict[str, int] | None, *, stays: bool = False) -> Container:
    if share is None:
        return Container(name)
    return a_container(
        name,
        number=share["number"],
        memory=share.get("memory"),
        percent=share.get("percent"),
        cores=share.get("cores"),
        restart_policy="Always" if stays else None,
    )


modes = st.sampled_from([keys.HAMI_CORE, keys.MIG])
cards = st.lists(st.tuples(modes, st.sampled_from(["5120", "5119"])), min_size=2, max_size=4)


@given(
    main=st.lists(shares | st.none(), min_size=1, max_size=3),
    init=st.lists(st.tuples(shares, st.booleans()), max_size=1),
    registered=cards,
    factor=st.sampled_from([1, 7, 8]),
)
def test_the_grants_that_are_written_are_read_again(
    main: list[dict[str, int] | None],
    init: list[tuple[dict[str, int], bool]],
    registered: list[tuple[str, str]],
    factor: int,
) -> None:
    dialect = volcano({"gpuMemoryFactor": factor})
    on = a_node(
        "".join(
            entry(f"u{index}", mode=mode, memory=memory, card_type=A100)
            for index, (mode, memory) in enumerate(registered)
        ),
        dialect,
    )
    requested = a_pod(
        *(a_container_with(f"c{index}", share) for index, share in enumerate(main)),
        init=[
            a_container_with(f"i{index}", share, stays=stays)
            for index, (share, stays) in enumerate(init)
        ],
    )
    if not dialect.matches(requested):
        return
    _, answer = place(NodeLedger.of(on), requested, dialect)
    if isinstance(answer, Reason):
        return

    annotations = dict(written(dialect, requested, answer, on))
    bound = with_annotations(
        requested, {key: annotations[key] for key in annotations if key != allocation_record.KEY}
    )

    assert dialect.read_result(bound, dialect.read_request(bound), on) == answer.grants
    if not init:  # Volcano itself gives init containers nothing
        adopted = dialect.read_adopted(bound, on)
        assert adopted is not None
        assert adopted.grants == answer.grants


def test_a_whole_card_is_read_as_granted_where_another_dialect_states_it_more_precisely() -> None:
    dialect = volcano({"gpuMemoryFactor": 8})
    on = a_node(entry("u0", memory="5120"), dialect)
    finer = replace(on, cards=(replace(on.cards[0], memory=40960 * MIB + 5),))
    requested = a_pod(a_container(number=1))
    placement, annotations = placed(requested, finer, dialect)

    assert annotations[keys.ASSIGNED] == "u0,NVIDIA,5120,0:"
    assert read(requested, annotations[keys.ASSIGNED], finer, dialect) == placement.grants

"""The annotation ``device-allocated``."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import DialectError, UnclearRecord
from adapters.dialects.formats import koordinator_record as allocated
from adapters.dialects.formats.koordinator_record import AllocatedCard
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.tests.builders import a_device, an_info, cards, gib, the_node
from core.hardware.node import Node
from core.hardware.quantity import KIB, MIB, bytes_of_percent, percent

NODE = cards(2)


def read(text: str, node: Node = NODE) -> tuple[AllocatedCard, ...]:
    return allocated.read_allocated({keys.ALLOCATED: text}, node)


def one(resources: str, card: str = '"minor":1') -> str:
    return f'{{"gpu":[{{{card},"resources":{resources}}}]}}'


HALF = '{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"40Gi"}'

CARDS = {
    "80Gi": gib(80),
    "83201216Ki": 83201216 * KIB,
    "23040Mi": 23040 * MIB,
    "40Gi": gib(40),
    "16Gi": gib(16),
}
PERCENTS = (10, 25, 33, 50, 75, 99)
TABLE = {
    "80Gi": ("8Gi", "20Gi", "28346784153", "40Gi", "60Gi", "85040352460"),
    "83201216Ki": (
        "8519804518",
        "20800304Ki",
        "28115354910",
        "41600608Ki",
        "62400912Ki",
        "84346064732",
    ),
    "23040Mi": ("2304Mi", "5760Mi", "7972533043", "11520Mi", "17280Mi", "23917599129"),
    "40Gi": ("4Gi", "10Gi", "14173392076", "20Gi", "30Gi", "42520176230"),
    "16Gi": ("1717986918", "4Gi", "5669356830", "8Gi", "12Gi", "17008070492"),
}


@pytest.mark.parametrize("total", TABLE)
def test_a_percentage_is_written_in_the_peers_bytes(total: str) -> None:
    for ratio, printed in zip(PERCENTS, TABLE[total], strict=True):
        entry = AllocatedCard(0, "u", bytes_of_percent(CARDS[total], ratio), ratio)

        text = allocated.encode_allocated([entry])

        assert text == (
            '{"gpu":[{"minor":0,"resources":{'
            f'"koordinator.sh/gpu-memory":"{printed}","koordinator.sh/gpu-memory-ratio":"{ratio}"'
            '},"id":"u"}]}'
        )


@pytest.mark.parametrize(
    ("memory", "ratio"),
    [
        (512 * MIB, 0),
        (800 * MIB, 0),
        (819 * MIB, 0),
        (820 * MIB, 1),
        (gib(1), 1),
        (gib(8), 10),
        (gib(10), 12),
        (gib(27), 33),
        (gib(79), 98),
        (gib(80) - 1, 99),
        (gib(80), 100),
        (64 * 10**9, 74),
    ],
)
def test_bytes_of_an_80_gi_card_are_the_peers_percentage(memory: int, ratio: int) -> None:
    assert percent(memory, gib(80)) == ratio


def test_several_cards_are_written_in_the_order_of_the_grants() -> None:
    entries = (AllocatedCard(1, "GPU-1", gib(1), 1, 5), AllocatedCard(0, "GPU-0", gib(2), 2))

    text = allocated.encode_allocated(entries)

    assert text == (
        '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"5",'
        '"koordinator.sh/gpu-memory":"1Gi","koordinator.sh/gpu-memory-ratio":"1"},"id":"GPU-1"},'
        '{"minor":0,"resources":{"koordinator.sh/gpu-memory":"2Gi",'
        '"koordinator.sh/gpu-memory-ratio":"2"},"id":"GPU-0"}]}'
    )
    assert read(text) == entries


def test_a_card_without_an_id_is_found_by_its_minor() -> None:
    assert read(one(HALF)) == (AllocatedCard(1, "GPU-1", gib(40), 50, 50),)


@pytest.mark.parametrize(
    ("card", "cards_in_use"),
    [
        ('"minor":1,"id":"GPU-0"', {"GPU-0", "GPU-1"}),
        ('"minor":1,"id":"GPU-replaced"', {"GPU-1"}),
        ('"minor":7,"id":"GPU-0"', {"GPU-0"}),
    ],
)
def test_where_minor_and_id_disagree_both_cards_are_in_use(
    card: str, cards_in_use: set[str]
) -> None:
    with pytest.raises(UnclearRecord, match="minor") as unclear:
        read(one(HALF, card))

    assert unclear.value.cards == cards_in_use


def test_the_other_cards_of_a_record_that_disagrees_are_in_use_too() -> None:
    text = json.dumps(
        {
            "gpu": [
                {"minor": 0, "id": "GPU-0", "resources": json.loads(HALF)},
                {"minor": 1, "id": "GPU-2", "resources": json.loads(HALF)},
            ]
        }
    )

    with pytest.raises(UnclearRecord) as unclear:
        read(text, cards(4))

    assert unclear.value.cards == {"GPU-0", "GPU-1", "GPU-2"}


def test_a_card_that_the_node_does_not_have_keeps_its_uuid() -> None:
    assert read(one(HALF, '"minor":7,"id":"GPU-gone"')) == (
        AllocatedCard(7, "GPU-gone", gib(40), 100, 50),
    )


def test_a_minor_never_identifies_a_card_of_another_dialect() -> None:
    with pytest.raises(DialectError, match="is not a card of this node"):
        read(one(HALF), Node("gpu-a"))


def test_other_devices_and_extensions_are_ignored() -> None:
    text = (
        '{"fpga":null,"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"1Gi",'
        '"koordinator.sh/gpu-memory-ratio":"1"},"extension":{"vfs":[]}}],'
        '"rdma":[{"minor":-1,"resources":{"koordinator.sh/rdma":"1"},"id":"0000:1f:00.0"}]}'
    )

    assert read(text) == (AllocatedCard(0, "GPU-0", gib(1), 1),)


def test_deprecated_names_and_numbers_are_read() -> None:
    resources = (
        '{"kubernetes.io/gpu-core":100,"kubernetes.io/gpu-memory":"16Gi",'
        '"kubernetes.io/gpu-memory-ratio":100}'
    )

    assert read(one(resources)) == (AllocatedCard(1, "GPU-1", gib(16), 100, 100),)


def test_a_percentage_alone_is_completed_from_the_card() -> None:
    assert read(one('{"koordinator.sh/gpu-memory-ratio":"25"}'))[0].memory == gib(20)


def test_more_memory_than_the_card_has_is_all_of_it_in_percent() -> None:
    assert read(one('{"koordinator.sh/gpu-memory":"160Gi"}'))[0].ratio == 100


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cannot be parsed"),
        ("null", "names no GPU"),
        ("{}", "names no GPU"),
        ('{"gpu":[]}', "names no GPU"),
        ('{"gpu":null}', "names no GPU"),
        ("[" * 9999, "cannot be parsed"),
        ('{"gpu":[{"resources":{}}]}', "cannot be parsed"),
        ('{"gpu":[{"minor":-1,"resources":{}}]}', "cannot be parsed"),
        (one("null"), "states no memory"),
        (one('{"koordinator.sh/gpu-memory":"0"}'), "states no memory"),
        (one('{"koordinator.sh/gpu-memory-ratio":"50"}', '"minor":9,"id":"x"'), "states no memory"),
        (one('{"koordinator.sh/gpu-memory":"-1"}'), "must be 0 or more"),
        (one('{"koordinator.sh/gpu-memory":"much"}'), "must be a whole number"),
        (one('{"koordinator.sh/gpu-core":"101"}'), "must be 0 to 100"),
        (one('{"koordinator.sh/gpu-memory-ratio":"1k"}'), "must be 0 to 100"),
        (one(HALF, '"minor":7'), "is not a card of this node"),
        (
            f'{{"gpu":[{{"minor":0,"resources":{HALF}}},{{"minor":0,"resources":{HALF}}}]}}',
            "names a card twice",
        ),
    ],
)
def test_w19_an_unparsable_text_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(DialectError, match=problem) as rejected:
        read(text)

    assert rejected.value.field.startswith(f"metadata.annotations[{keys.ALLOCATED}]")


def test_a_missing_annotation_is_rejected() -> None:
    with pytest.raises(DialectError, match="names no GPU"):
        allocated.read_allocated({}, NODE)


json_like = st.recursive(
    st.one_of(st.none(), st.integers(-3, 200), st.text(max_size=4), st.just("8Gi")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(
            st.sampled_from(["gpu", "minor", "resources", "id", keys.CORE, keys.MEMORY]), inner
        ),
    ),
    max_leaves=8,
)


@given(st.one_of(st.text(max_size=20), json_like.map(json.dumps)))
def test_garbage_gives_entries_or_a_dialect_error_and_nothing_else(text: str) -> None:
    try:
        entries = read(text)
    except DialectError:
        return

    assert entries
    assert all(e.memory > 0 and 0 <= e.compute <= 100 and 0 <= e.ratio <= 100 for e in entries)


@given(
    st.lists(st.tuples(st.integers(1, 2**40), st.integers(0, 100)), min_size=1, max_size=4),
)
def test_what_was_written_is_read(shares: list[tuple[int, int]]) -> None:
    node = the_node(a_device(*(an_info(minor, str(2**40)) for minor in range(4))))
    entries = tuple(
        AllocatedCard(minor, f"GPU-{minor}", memory, percent(memory, 2**40), compute)
        for minor, (memory, compute) in enumerate(shares)
    )

    assert read(allocated.encode_allocated(entries), node) == entries

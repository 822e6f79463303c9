import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.hami_record import (
    METAX_ALLOCATED,
    ContainerShares,
    HamiShare,
    decode_devices,
    decode_metax,
    encode_devices,
    encode_metax,
    is_card_uuid,
)
from core.hardware.quantity import GIB, MIB
from core.requests.grant import Grant

KIND = "Metax-SGPU"
SLICE = Grant("c0", "GPU-7", 4 * GIB, 60)
ONLINE = Grant("c2", "GPU-6", 4 * GIB, 0)


def decode(text: str) -> ContainerShares:
    return decode_devices(KIND, "record", text)


def test_every_container_has_its_place_and_every_card_its_share() -> None:
    containers = [[SLICE], [], [ONLINE, SLICE]]

    assert encode_devices(KIND, containers) == (
        "GPU-7,Metax-SGPU,4096,60:;;GPU-6,Metax-SGPU,4096,0:GPU-7,Metax-SGPU,4096,60:;"
    )
    assert encode_metax(containers) == (
        '[[{"uuid":"GPU-7","compute":60,"vRam":4096}],[],'
        '[{"uuid":"GPU-6","vRam":4096},{"uuid":"GPU-7","compute":60,"vRam":4096}]]'
    )


def test_what_is_less_than_a_mib_is_not_written() -> None:
    scrap = Grant("c0", "GPU-1", 5 * MIB + 1, 10)

    assert encode_metax([[scrap]]) == '[[{"uuid":"GPU-1","compute":10,"vRam":5}]]'
    assert encode_devices(KIND, [[scrap]]) == "GPU-1,Metax-SGPU,5,10:;"


def test_no_containers_are_an_empty_text() -> None:
    assert (encode_devices(KIND, []), encode_metax([])) == ("", "[]")
    assert (decode(""), decode_metax("[]")) == ((), ())


@pytest.mark.parametrize(
    "text",
    [
        "GPU-1,Metax-SGPU,4096,60:",
        "GPU-1,Metax-SGPU,4096,60;",
        "GPU-1,Metax-SGPU,4096:;",
        "GPU-1,Metax-SGPU,4096,60,0:;",
        "GPU-1,NVIDIA,4096,60:;",
        "GPU-1,Metax-SGPU,-1,60:;",
        "GPU-1,Metax-SGPU,4096,6e1:;",
        "GPU-1,Metax-SGPU,4096,٦:;",
        "GPU-1,Metax-SGPU,4096,101:;",
        "GPU-1,Metax-SGPU,2147483648,60:;",
        ",Metax-SGPU,4096,60:;",
        "GPU 1,Metax-SGPU,4096,60:;",
        "GPU-1,Metax-SGPU,1,1:GPU-1,Metax-SGPU,1,1:;",
    ],
)
def test_an_invalid_device_string_is_rejected(text: str) -> None:
    with pytest.raises(DialectError) as rejected:
        decode(text)

    assert (rejected.value.field, rejected.value.value) == ("record", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[{}]",
        "[[{}]]",
        '[[{"uuid":""}]]',
        '[[{"uuid":"a:b"}]]',
        '[[{"uuid":"a","compute":101}]]',
        '[[{"uuid":"a","compute":-1}]]',
        '[[{"uuid":"a","vRam":2147483648}]]',
        '[[{"uuid":"a","memory":1}]]',
        '[[{"uuid":"a"},{"uuid":"a"}]]',
        '"\ud800"',
    ],
)
def test_invalid_metax_json_is_rejected(text: str) -> None:
    with pytest.raises(DialectError) as rejected:
        decode_metax(text)

    assert rejected.value.field == f"metadata.annotations[{METAX_ALLOCATED}]"


@pytest.mark.parametrize(
    ("uuid", "fits"),
    [("GPU-7f3a", True), ("n.example-metax-0", True), ("", False), ("a b", False), ("é", False)]
    + [(f"a{mark}b", False) for mark in ",:;"],
)
def test_a_uuid_fits_into_both_texts_or_not(uuid: str, fits: bool) -> None:
    assert is_card_uuid(uuid) is fits


shares = st.builds(
    HamiShare,
    st.from_regex(r"[A-Za-z0-9._/-]{1,12}", fullmatch=True),
    st.integers(0, 2**31 - 1).map(lambda mebibytes: mebibytes * MIB),
    st.integers(0, 100),
)
pods = st.lists(st.lists(shares, max_size=3, unique_by=lambda share: share.card), max_size=4)


@given(pods)
def test_both_texts_read_back_as_they_were_written(containers: list[list[HamiShare]]) -> None:
    expected = tuple(tuple(each) for each in containers)
    grants = [[Grant("", s.card, s.memory, s.compute) for s in each] for each in containers]

    assert decode(encode_devices(KIND, grants)) == expected
    assert decode_metax(encode_metax(grants)) == expected


pieces = st.lists(st.sampled_from(["GPU-1", ",", ":", ";", KIND, "4096", "60", "-", " "]))


@given(st.text() | pieces.map("".join))
def test_any_text_is_a_record_that_writes_back_the_same_or_is_rejected(text: str) -> None:
    try:
        decoded = decode(text)
    except DialectError:
        return
    grants = [[Grant("", s.card, s.memory, s.compute) for s in each] for each in decoded]
    assert decode(encode_devices(KIND, grants)) == decoded

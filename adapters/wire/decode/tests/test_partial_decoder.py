import json
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wire.decode.decoder import UnreadableError
from adapters.wire.decode.partial_decoder import PartialDecoder, shallow

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def cut(value: object, most: int) -> object:
    if isinstance(value, dict):
        return {key: cut(each, most - 1) for key, each in value.items()} if most else None
    if isinstance(value, list):
        return [cut(each, most - 1) for each in value] if most else None
    return value


@given(values, st.integers(0, 4), st.booleans())
def test_what_is_nested_less_deeply_stays(value: object, most: int, spaced: bool) -> None:
    text = json.dumps(value, indent=1 if spaced else None).encode()
    assert json.loads(shallow(text, most)) == cut(value, most)


@given(st.binary(), st.integers(0, 4))
def test_no_text_raises(text: bytes, most: int) -> None:
    assert isinstance(shallow(text, most), bytes)


@pytest.mark.parametrize("text", [b"[[[", b"]]]", b'{"a', b"[[]]]]][", b"[[]", b"]["])
def test_a_malformed_text_stays_malformed(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        json.loads(shallow(text, 1))


def test_a_text_as_deep_as_etcd_stores_is_cut_in_a_moment() -> None:
    text = b'{"a":' * 300_000 + b"1" + b"}" * 300_000
    began = time.monotonic()
    assert json.loads(shallow(text, 2)) == {"a": {"a": None}}
    assert time.monotonic() - began < 10


def test_a_part_that_is_nested_too_deeply_is_ignored_where_it_is_not_read() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    text = f'{{"name": "n", "parameters": {deep}}}'
    for content in (text, text.encode(), msgspec.Raw(text.encode())):
        assert PartialDecoder(dict[str, object]).decode(content)["name"] == "n"
    with pytest.raises(UnreadableError):
        PartialDecoder(dict[str, int]).decode(text)

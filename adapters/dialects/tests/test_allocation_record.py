import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.allocation_record import KEY, decode, encode, update
from adapters.dialects.dialect import DialectError, Result
from adapters.wire.kube import Metadata, Pod
from core.hardware.mig import Slice
from core.requests.grant import Grant
from core.requests.request import Phase

small = st.integers(0, 8)
slices = st.builds(
    Slice, st.just("1g.5gb"), small, st.integers(1, 8), small, small, st.just("group1"), small
)
grants = st.builds(
    Grant,
    container=st.text(max_size=5),
    card=st.text(max_size=5),
    memory=st.integers(0, 1 << 40),
    compute=st.integers(0, 100),
    exclusive=st.booleans(),
    phase=st.sampled_from(Phase),
    slice=st.none() | slices,
)


@given(st.lists(grants).map(tuple))
def test_what_is_read_is_what_was_written(written: tuple[Grant, ...]) -> None:
    assert decode(encode(written)) == written


def test_a_plain_share_is_written_compactly() -> None:
    text = encode((Grant("main", "GPU-1", 1024, 50),))

    assert text == '[{"container":"main","card":"GPU-1","memory":1024,"compute":50}]'


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"container":"a"}]', '[{"phase":"x"}]'])
def test_anything_else_is_rejected_by_its_key(text: str) -> None:
    with pytest.raises(DialectError) as rejected:
        decode(text)

    assert rejected.value.field == f"metadata.annotations[{KEY}]"
    assert rejected.value.value == text


OURS = (Grant("main", "GPU-1", 1024, 50),)


@pytest.mark.parametrize(
    ("on_pod", "in_result", "expected"),
    [
        ({}, {}, {}),
        ({KEY: "earlier"}, {}, {KEY: encode(OURS)}),
        ({KEY: "earlier"}, {KEY: "written"}, {KEY: "written"}),
        ({}, {KEY: "written"}, {KEY: "written"}),
    ],
)
def test_a_record_that_the_pod_has_is_replaced_unless_the_result_does_so(
    on_pod: dict[str, str], in_result: dict[str, str], expected: dict[str, str]
) -> None:
    pod = Pod(Metadata(annotations=on_pod))

    updated = update(pod, Result(in_result, {"label": "kept"}), OURS)

    assert (updated.annotations, updated.labels) == (expected, {"label": "kept"})

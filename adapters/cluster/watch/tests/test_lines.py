"""Lines out of chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.cluster.watch import reflector as lines
from adapters.cluster.watch.reflector import LineError, LineSplitter


@given(st.binary(max_size=200).map(lambda data: data.replace(b"x", b"\n")), st.data())
def test_any_chunking_gives_the_same_lines(sent: bytes, data: st.DataObject) -> None:
    splitter, found, rest = LineSplitter(), list[bytes](), sent
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        found += splitter.feed(rest[:size])
        rest = rest[size:]

    *whole, last = sent.split(b"\n")
    assert found == [line for line in whole if line.strip()]
    assert splitter.waiting == len(last)


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 10)
    splitter = LineSplitter()
    splitter.feed(b"0123456789")

    with pytest.raises(LineError):
        splitter.feed(b"0")

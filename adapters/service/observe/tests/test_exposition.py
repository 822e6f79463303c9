"""The compressed exposition is the plain one, however it was composed."""

import gzip
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.service.observe.metrics import NODES, Compressor, FamilyText, plain
from adapters.service.tests.builders import run

lines = st.lists(st.binary(max_size=40), max_size=3 * NODES)
families = st.lists(st.builds(FamilyText, st.binary(min_size=1, max_size=20), lines), max_size=3)


@given(st.lists(st.tuples(st.binary(max_size=99), families), min_size=1, max_size=4))
def test_a_client_reads_the_plain_text_from_every_compressed_answer(
    scrapes: list[tuple[bytes, Sequence[FamilyText]]],
) -> None:
    compressor = Compressor()

    for first, rest in scrapes:
        body = run(compressor.compress(first, rest))
        assert gzip.decompress(body) == plain(first, rest)
        # A client that reads one member and no more has everything, too.
        reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
        assert reader.decompress(body) == plain(first, rest)
        assert reader.unused_data == b""


def test_only_pieces_that_changed_are_compressed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed: list[int] = []
    original = zlib.compressobj

    def counted(level: int, method: int, window: int) -> object:
        compressed.append(level)
        return original(level, method, window)

    nodes = [b"a{node=%d} 1\n" % number for number in range(4 * NODES)]
    compressor = Compressor()
    run(compressor.compress(b"", [FamilyText(b"# a\n", nodes), FamilyText(b"# b\n", nodes)]))
    monkeypatch.setattr(zlib, "compressobj", counted)
    changed = [*nodes[:-1], b"a{node=last} 2\n"]
    run(compressor.compress(b"x", [FamilyText(b"# a\n", changed), FamilyText(b"# b\n", nodes)]))

    assert len(compressed) == 2  # the text that always changes, and the last piece of the family

"""The report as YAML, piece by piece, so that it is written while the run goes on."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from adapters.cli.output.encoded import as_yaml
from adapters.cli.output.node_texts import NodeTexts
from adapters.cli.output.report import CardLine, PodLine
from adapters.cli.output.report_fields import HEAD, card_fields, pod_fields

_SIMPLE = re.compile(r"[ -~]{1,100}").fullmatch
"""Matches a key or text that YAML writes in the line in which it begins."""

_NO_NODES = b"{}\n"
"""The end of a pod without reasons."""


def yaml_report(pods: Iterable[PodLine], cards: Iterable[CardLine]) -> Iterator[bytes]:
    """YAML in the order of the fields; long texts stay on one line.

    Args:
        pods: read to their end first.
        cards: read after the pods.
    """
    yield _dump(HEAD)
    yield from _list("pods", map(_PodWriter().pod, pods))
    yield from _list("cards", (_dump([card_fields(card)]) for card in cards))


class _PodWriter:
    """Encodes the names of the nodes once for all pods that have the same nodes."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()
        self._keys: list[bytes] = []
        self._are_simple = False

    def pod(self, line: PodLine) -> bytes:
        lines = self._lines(line.reasons) if line.reasons else b""
        if not lines:
            return _dump([pod_fields(line, dict(line.reasons.items()))])
        item = _dump([pod_fields(line, {})])
        return b"".join((item.removesuffix(b" " + _NO_NODES), b"\n", lines))

    def _lines(self, texts: NodeTexts) -> bytes:
        """A line for each node; empty where a name or a text needs more than one."""
        if texts.names != self._names:
            self._names = texts.names
            self._are_simple = all(map(_SIMPLE, texts.names))
            self._keys = [_key(name) for name in texts.names] if self._are_simple else []
        if not self._are_simple or not all(
            text.isascii() and text.isprintable() for text in texts.texts
        ):
            return b""
        ends = [_dump({0: text}).removeprefix(b"0: ") for text in texts.texts]
        pairs = zip(self._keys, map(ends.__getitem__, texts.ids), strict=True)
        return b"".join(chain.from_iterable(pairs))


def _key(name: str) -> bytes:
    return b"      " + _dump({name: 0}).removesuffix(b"0\n")


def _list(name: str, items: Iterable[bytes]) -> Iterator[bytes]:
    heading = b"%b:\n" % name.encode()
    before = heading
    for item in items:
        yield before + item
        before = b""
    if before is heading:
        yield b"%b: []\n" % name.encode()


def _dump(plain: object) -> bytes:
    return as_yaml(plain).encode()

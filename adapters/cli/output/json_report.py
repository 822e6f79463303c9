"""The report as JSON, piece by piece, so that it is written while the run goes on."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from adapters.cli.output.encoded import encoded
from adapters.cli.output.node_texts import NodeTexts
from adapters.cli.output.report import CardLine, PodLine
from adapters.cli.output.report_fields import HEAD, card_fields, pod_fields

_NO_NODES = b"{}\n      }\n    }"
"""The end of a pod without reasons."""


def json_report(pods: Iterable[PodLine], cards: Iterable[CardLine]) -> Iterator[bytes]:
    """Indented JSON with a newline at the end.

    Args:
        pods: read to their end first.
        cards: read after the pods.
    """
    yield encoded(HEAD).removesuffix(b"\n}")
    yield b',\n  "pods": '
    yield from _list(map(_PodWriter().pod, pods))
    yield b',\n  "cards": '
    yield from _list(_item(card_fields(card)) for card in cards)
    yield b"\n}\n"


class _PodWriter:
    """Encodes the names of the nodes once for all pods that have the same nodes."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()
        self._keys: list[bytes] = []

    def pod(self, line: PodLine) -> bytes:
        item = _item(pod_fields(line, {}))
        if not line.reasons:
            return item
        lines = self._lines(line.reasons)
        return b"".join(
            (item.removesuffix(_NO_NODES), b"{\n", lines, b"\n        }\n      }\n    }")
        )

    def _lines(self, texts: NodeTexts) -> bytes:
        if texts.names != self._names:
            self._names = texts.names
            self._keys = [b"          %b: " % encoded(name) for name in texts.names]
        ends = [encoded(text) + b",\n" for text in texts.texts]
        pairs = zip(self._keys, map(ends.__getitem__, texts.ids), strict=True)
        return b"".join(chain.from_iterable(pairs))[:-2]


def _list(items: Iterable[bytes]) -> Iterator[bytes]:
    opening = b"[\n    "
    separator = opening
    for item in items:
        yield separator + item
        separator = b",\n    "
    yield b"[]" if separator is opening else b"\n  ]"


def _item(fields: dict[str, object]) -> bytes:
    # A string has no line break in JSON, so that each one begins a line of the item.
    return encoded(fields).replace(b"\n", b"\n    ")

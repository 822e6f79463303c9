"""The report as JSON or YAML, piece by piece, so that it is written while the run goes on."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from adapters.cli.output.report import HEAD, CardLine, NodeTexts, PodLine, card_fields, pod_fields
from adapters.cli.output.rows import as_yaml, encoded

_NO_NODES = b"{}\n      }\n    }"
"""The end of a pod without reasons, in JSON."""

_NO_NODES_IN_YAML = b" {}\n"
"""The end of a pod without reasons, in YAML."""

_SIMPLE = re.compile(r"[ -~]{1,100}").fullmatch
"""Matches a key or text that YAML writes in the line in which it begins."""


def json_report(pods: Iterable[PodLine], cards: Iterable[CardLine]) -> Iterator[bytes]:
    """Return indented JSON with a newline at the end.

    Args:
        pods: read to their end first.
        cards: read after the pods.
    """
    yield encoded(HEAD).removesuffix(b"\n}")
    yield b',\n  "pods": '
    yield from _json_list(map(_JsonPods().pod, pods))
    yield b',\n  "cards": '
    yield from _json_list(_item(card_fields(card)) for card in cards)
    yield b"\n}\n"


class _JsonPods:
    """Encodes the names of the nodes once for all pods that have the same nodes."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()
        self._keys: list[bytes] = []

    def pod(self, line: PodLine) -> bytes:
        item = _item(pod_fields(line, {}))
        if not line.reasons:
            return item
        texts = line.reasons
        if texts.names != self._names:
            self._names = texts.names
            self._keys = [b"          %b: " % encoded(name) for name in texts.names]
        ends = [encoded(text) + b",\n" for text in texts.texts]
        pairs = zip(self._keys, map(ends.__getitem__, texts.ids), strict=True)
        lines = b"".join(chain.from_iterable(pairs))[:-2]
        return b"".join(
            (item.removesuffix(_NO_NODES), b"{\n", lines, b"\n        }\n      }\n    }")
        )


def _json_list(items: Iterable[bytes]) -> Iterator[bytes]:
    opening = b"[\n    "
    separator = opening
    for item in items:
        yield separator + item
        separator = b",\n    "
    yield b"[]" if separator is opening else b"\n  ]"


def _item(fields: dict[str, object]) -> bytes:
    # A string has no line break in JSON, so that each one begins a line of the item.
    return encoded(fields).replace(b"\n", b"\n    ")


def yaml_report(pods: Iterable[PodLine], cards: Iterable[CardLine]) -> Iterator[bytes]:
    """Return YAML in the order of the fields; long texts stay on one line.

    Args:
        pods: read to their end first.
        cards: read after the pods.
    """
    yield _dump(HEAD)
    yield from _yaml_list("pods", map(_YamlPods().pod, pods))
    yield from _yaml_list("cards", (_dump([card_fields(card)]) for card in cards))


class _YamlPods:
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
        return b"".join((item.removesuffix(_NO_NODES_IN_YAML), b"\n", lines))

    def _lines(self, texts: NodeTexts) -> bytes:
        """Return a line for each node; empty where a name or a text needs more than one."""
        if texts.names != self._names:
            self._names = texts.names
            self._are_simple = all(map(_SIMPLE, texts.names))
            self._keys = (
                [b"      " + _dump({name: 0}).removesuffix(b"0\n") for name in texts.names]
                if self._are_simple
                else []
            )
        if not self._are_simple or not all(
            text.isascii() and text.isprintable() for text in texts.texts
        ):
            return b""
        ends = [_dump({0: text}).removeprefix(b"0: ") for text in texts.texts]
        pairs = zip(self._keys, map(ends.__getitem__, texts.ids), strict=True)
        return b"".join(chain.from_iterable(pairs))


def _yaml_list(name: str, items: Iterable[bytes]) -> Iterator[bytes]:
    heading = b"%b:\n" % name.encode()
    before = heading
    for item in items:
        yield before + item
        before = b""
    if before is heading:
        yield b"%b: []\n" % name.encode()


def _dump(plain: object) -> bytes:
    return as_yaml(plain).encode()

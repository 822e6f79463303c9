"""The report as JSON or YAML, piece by piece, so that it is written while the run goes on."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from adapters.cli.output.report import HEAD, CardLine, PodLine, card_fields, pod_fields
from adapters.cli.output.rows import as_yaml, encoded

_NO_NODES = b"{}\n      }\n    }"
"""The end of a pod without reasons, in JSON."""

_NO_NODES_IN_YAML = b" {}\n"
"""The end of a pod without reasons, in YAML."""

_SIMPLE = re.compile(r"[ -~]{1,100}").fullmatch
"""Matches a key or text that YAML writes in the line in which it begins."""


Fields = Iterable[dict[str, object]]


def json_report(
    pods: Iterable[PodLine], cards: Iterable[CardLine], workloads: Fields = ()
) -> Iterator[bytes]:
    """Return indented JSON with a newline at the end; cards, workloads are read after all pods."""
    yield encoded(HEAD).removesuffix(b"\n}")
    yield b',\n  "pods": '
    yield from _json_list(_json_pods(pods))
    yield b',\n  "cards": '
    yield from _json_list(_item(card_fields(card)) for card in cards)
    found = [*map(_item, workloads)]
    if found:
        yield b',\n  "workloads": '
        yield from _json_list(found)
    yield b"\n}\n"


def _json_pods(lines: Iterable[PodLine]) -> Iterator[bytes]:
    """Encode the names of the nodes once for all pods that have the same nodes."""
    names: Sequence[str] = ()
    keys: list[bytes] = []
    for line in lines:
        item, texts = _item(pod_fields(line, {})), line.reasons
        if not texts:
            yield item
            continue
        if texts.names != names:
            names = texts.names
            keys = [b"          %b: " % encoded(name) for name in names]
        ends = [encoded(text) + b",\n" for text in texts.texts]
        pairs = zip(keys, map(ends.__getitem__, texts.ids), strict=True)
        nodes = b"".join(chain.from_iterable(pairs))[:-2]
        end = b"\n        }\n      }\n    }"
        yield b"".join((item.removesuffix(_NO_NODES), b"{\n", nodes, end))


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


def yaml_report(
    pods: Iterable[PodLine], cards: Iterable[CardLine], workloads: Fields = ()
) -> Iterator[bytes]:
    """Return YAML, long texts on one line; cards and workloads are read after all pods."""
    yield _dump(HEAD)
    yield from _yaml_list("pods", _yaml_pods(pods))
    yield from _yaml_list("cards", (_dump([card_fields(card)]) for card in cards))
    found = [*workloads]
    if found:
        yield _dump({"workloads": found})


def _yaml_pods(lines: Iterable[PodLine]) -> Iterator[bytes]:
    """Encode the names of the nodes once for all pods that have the same nodes.

    A name or a text of which YAML would make more than one line is left to the library.
    """
    names: Sequence[str] = ()
    keys: list[bytes] = []
    are_simple = False
    for line in lines:
        texts = line.reasons
        if texts and texts.names != names:
            names, are_simple = texts.names, all(map(_SIMPLE, texts.names))
            keys = [
                b"      " + _dump({name: 0}).removesuffix(b"0\n")
                for name in (names if are_simple else ())
            ]
        plain = all(text.isascii() and text.isprintable() for text in texts.texts)
        if not texts or not are_simple or not plain:
            yield _dump([pod_fields(line, dict(texts.items()))])
            continue
        ends = [_dump({0: text}).removeprefix(b"0: ") for text in texts.texts]
        pairs = zip(keys, map(ends.__getitem__, texts.ids), strict=True)
        item = _dump([pod_fields(line, {})]).removesuffix(_NO_NODES_IN_YAML)
        yield b"".join((item, b"\n", *chain.from_iterable(pairs)))


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

"""Numbers that no field of an object can have, put in the place of each number of a document."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, cast

Json = Any

EXTREMES: tuple[int | str, ...] = (
    -(10**30),
    -(1 << 63),
    -1,
    0,
    1 << 31,
    1 << 50,
    (1 << 63) - 1,
    (1 << 64) - 1,
    10**30,
    "-1",
    "0",
    "500m",
    "1e30",
)
"""Below zero, zero, and beyond the bits of each type; as numbers, and as quantities."""


def places(document: Json, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The place of each number of a document, and of each text that begins with a digit."""
    if isinstance(document, dict):
        for name, value in cast("dict[str, Json]", document).items():
            yield from places(value, (*place, name))
    elif isinstance(document, list):
        for number, value in enumerate(cast("Sequence[Json]", document)):
            yield from places(value, (*place, number))
    elif not isinstance(document, bool) and str(document)[:1].isdecimal():
        yield place


def replaced(document: Json, place: tuple[str | int, ...], value: Json) -> Json:
    """The document with another value at a place."""
    found = copy.deepcopy(document)
    inner = found
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return found

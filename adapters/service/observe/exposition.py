"""An exposition in parts, as plain text or as one gzip stream that is composed of cached pieces.

Deflate lets streams be joined where each ends in a full flush (RFC 1951, section 3.2.4; zlib.h,
``Z_FULL_FLUSH``), so that a piece of the text that has not changed is not compressed again. The
result is one gzip member (RFC 1952), which every client reads.
"""

import zlib
from asyncio import to_thread
from collections.abc import Iterator, Sequence
from struct import pack
from typing import NamedTuple

NODES = 64
"""Nodes whose lines of one family are compressed together: about 60 KB, two windows of deflate."""

_LEVEL = 1
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_END = b"\x03\x00"
"""The last block of a deflate stream, empty."""


class FamilyText(NamedTuple):
    """All samples of one name.

    Attributes:
        head: its HELP and TYPE lines.
        lines: by node; those of a node that has not changed are the same object as before.
    """

    head: bytes
    lines: Sequence[bytes]


Piece = tuple[bytes, ...]
"""A part of the text whose compressed form is kept."""


def plain(first: bytes, families: Sequence[FamilyText]) -> bytes:
    """Return the text.

    Args:
        first: text of other metrics.
        families: the rest.
    """
    return b"".join([first, *(part for piece in _pieces(families) for part in piece)])


class Compressor:
    """Compresses an exposition; keeps the pieces of the last one."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Piece, bytes]] = {}

    async def compress(self, first: bytes, families: Sequence[FamilyText]) -> bytes:
        """Return the text as gzip; the work is done on another thread.

        Args:
            first: text of other metrics, which changes with each call.
            families: the rest.
        """
        return await to_thread(self._compress, first, [*_pieces(families)])

    def _compress(self, first: bytes, pieces: Sequence[Piece]) -> bytes:
        check, size = zlib.crc32(first), len(first)
        kept: dict[int, tuple[Piece, bytes]] = {}
        for place, piece in enumerate(pieces):
            earlier = self._kept.get(place)
            # Tuples compare their items by identity first: equal pieces cost next to nothing.
            kept[place] = earlier if earlier and earlier[0] == piece else (piece, _deflated(piece))
            for part in piece:
                check = zlib.crc32(part, check)
                size += len(part)
        self._kept = kept
        bodies = (body for _, body in kept.values())
        return b"".join(
            [_HEADER, _deflated((first,)), *bodies, _END, pack("<II", check, size & 0xFFFFFFFF)]
        )


def escaped(text: str) -> str:
    """Return a label's value, as the text format has it between quotes."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _pieces(families: Sequence[FamilyText]) -> Iterator[Piece]:
    for head, lines in families:
        for start in range(0, max(len(lines), 1), NODES):
            part = tuple(lines[start : start + NODES])
            yield part if start else (head, *part)


def _deflated(parts: Piece) -> bytes:
    work = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join([*map(work.compress, parts), work.flush(zlib.Z_FULL_FLUSH)])

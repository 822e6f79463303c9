"""Thousands of names in one JSON array, found in an index without a string for each.

A filter names every node of a cluster. Strings for them, looked up one by one, take most of the
answer's time, and past some thousand names they exceed the processor's cache: the time grows faster
than the number of names. Here they stay bytes, and NumPy compares eight bytes of all of them at
once.
"""

from collections.abc import Sequence
from itertools import compress

import msgspec
import numpy as np
from numpy.typing import NDArray

from adapters.wire.body import BodyError
from core.feasibility.arrays import Mask, Numbers, Rows

Words = NDArray[np.uint64]

_WORD = 8
"""Bytes that are compared at once."""

_QUOTE = ord('"')
_PRINTABLE = range(0x20, 0x7F)

_PREFIX = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
"""By number of bytes: the mask of so many first bytes of a word."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 by the golden ratio: products with it spread over the high bits (Knuth, TAOCP 6.4)."""

_STRINGS = msgspec.json.Decoder(list[str])


class NameList:
    """A JSON array of names in the order in which they came.

    No name has a character that JSON escapes or that is not ASCII, like the names of Kubernetes
    (RFC 1123). The list keeps duplicates.
    """

    def __init__(self, compact: bytes) -> None:
        """Find the names.

        Args:
            compact: valid JSON.

        Raises:
            BodyError: it is no array of such names, or has white space between them.
        """
        self.compact = compact
        letters = np.frombuffer(compact, np.uint8)
        quotes = np.flatnonzero(letters == _QUOTE)
        self._starts, ends = quotes[::2] + 1, quotes[1::2]
        if not _is_plain(letters, quotes):
            raise BodyError("this is not an array of plain names")
        self._lengths = ends - self._starts

    @classmethod
    def of(cls, names: Sequence[str]) -> "NameList":
        """The array that has these names.

        Raises:
            BodyError: one of them is not plain.
        """
        try:
            return cls(msgspec.json.encode(names))
        except BodyError:
            number, name = next(
                (at, name) for at, name in enumerate(names) if not _is_plain_name(name)
            )
            raise BodyError(f"NodeNames[{number}]: {name!r} cannot be a node's name") from None

    def __len__(self) -> int:
        return self._lengths.size

    def strings(self) -> list[str]:
        """Each name."""
        return _STRINGS.decode(self.compact)

    def select(self, selected: Mask) -> list[str]:
        """The selected names."""
        return list(compress(self.strings(), selected.tobytes()))

    def json_array(self, selected: Mask) -> bytes:
        """The JSON array of the selected names."""
        edges = np.diff(selected.view(np.int8), prepend=0, append=0)
        first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
        begin = self._starts[first] - 1
        end = self._starts[last] + self._lengths[last] + 1
        runs = zip(begin.tolist(), end.tolist(), strict=True)
        return b"[%b]" % b",".join([self.compact[start:stop] for start, stop in runs])

    def words(self, count: int) -> tuple[list[Words], Mask]:
        """The first ``count`` words of all names, padded with zeros, and which names are longer.

        No name has a zero byte, so equal words mean equal names where there are no more.
        """
        padded = self.compact + bytes(_WORD)
        # One word begins at each byte.
        windows: Words = np.ndarray(len(padded) - _WORD + 1, np.dtype("<u8"), padded, strides=(1,))
        words: list[Words] = []
        for skipped in range(0, _WORD * count, _WORD):
            at = np.minimum(self._starts + skipped, len(self.compact))
            size = np.clip(self._lengths - skipped, 0, _WORD)
            words.append(windows[at] & _PREFIX[size])
        return words, self._lengths > _WORD * count


class NameIndex:
    """Finds the rows of names: their positions among those that the index was built of.

    A hash table with open addressing, in arrays: all names of a query probe one slot at a time,
    and those that meet another name probe the next.

    Attributes:
        unknown: the row of a name that the index does not have: one past the last.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Build the index; a query never finds a name that is not plain."""
        plain = NameList.of([name if _is_plain_name(name) else "" for name in names])
        self.unknown = len(names)
        longest = max(map(len, names), default=0)
        self._count = max(-(-longest // _WORD), 1)
        words, _ = plain.words(self._count)
        self._words = [np.append(word, np.uint64(0)) for word in words]
        size = 1 << (8 * len(names) + 1).bit_length()
        self._shift = np.uint64(64 - size.bit_length() + 1)
        self._last = size - 1
        self._slots: Rows = np.full(size, self.unknown, np.int32)
        self._fill(words, np.flatnonzero(words[0]))

    def rows(self, names: NameList) -> Rows:
        """The row of each name; ``unknown`` where it has none."""
        words, longer = names.words(self._count)
        slots = self._first(words)
        rows = self._slots[slots]
        probing = np.flatnonzero(self._missed(rows, words))
        while probing.size:
            slots[probing] = (slots[probing] + 1) & self._last
            rows[probing] = self._slots[slots[probing]]
            missed = self._missed(rows[probing], [word[probing] for word in words])
            probing = probing[missed]
        rows[longer] = self.unknown
        return rows

    def _fill(self, words: list[Words], rows: Numbers) -> None:
        slots = self._first(words)
        while rows.size:
            free = rows[self._slots[slots[rows]] == self.unknown]
            _, one_a_slot = np.unique(slots[free], return_index=True)
            settled = free[one_a_slot]
            self._slots[slots[settled]] = settled
            rows = rows[self._slots[slots[rows]] != rows]
            slots[rows] = (slots[rows] + 1) & self._last

    def _first(self, words: list[Words]) -> Numbers:
        mixed = words[0] * _ODD
        for word in words[1:]:
            mixed = (mixed ^ (mixed >> np.uint64(32)) ^ word) * _ODD
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _ODD
        return (mixed >> self._shift).astype(np.int64)

    def _missed(self, rows: Rows, words: list[Words]) -> Mask:
        """Which of some names met another name; an empty slot is an answer."""
        differs: Mask = self._words[0][rows] != words[0]
        for own, word in zip(self._words[1:], words[1:], strict=True):
            differs |= own[rows] != word
        differs &= rows != self.unknown
        return differs


def _is_plain(letters: NDArray[np.uint8], quotes: Numbers) -> bool:
    if letters.size < 2 or letters[0] != ord("[") or letters[-1] != ord("]"):
        return False
    if letters.max() >= _PRINTABLE.stop or letters.min() < _PRINTABLE.start:
        return False
    if not quotes.size:
        return letters.size == 2
    starts, ends = quotes[::2], quotes[1::2]
    return bool(
        starts.size == ends.size
        and starts[0] == 1
        and ends[-1] == letters.size - 2
        and (starts[1:] - ends[:-1] == 2).all()
        and not (letters == ord("\\")).any()
    )


def _is_plain_name(name: str) -> bool:
    return name.isascii() and name.isprintable() and '"' not in name and "\\" not in name

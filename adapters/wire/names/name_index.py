"""Thousands of names in one JSON array, found in an index without a string for each.

A filter names every node of a cluster. Strings for them, looked up one by one, take most of the
answer's time, and past some thousand names they exceed the processor's cache: the time grows faster
than the number of names. Here they stay bytes, and NumPy compares eight bytes of all of them at
once. A few hundred names are strings nonetheless: the calls of NumPy would take longer.
"""

from collections.abc import Sequence
from itertools import compress

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from adapters.wire.decode.body import BodyError
from adapters.wire.decode.decoder import Decoder, UnreadableError
from core.feasibility.arrays import Mask, Numbers, Rows

Words = NDArray[np.uint64]

_WORD = 8
"""Bytes that are compared at once."""

FEW = 16 << 10
"""Bytes of an array whose names are looked up as strings: about 500 names, where both ways take
the same time (measured)."""

FEW_RUNS = 64
"""Runs of selected names that are copied one by one; more of them are selected by NumPy."""

_QUOTE = ord('"')
_PRINTABLE = range(0x20, 0x7F)

_PREFIX = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
"""``_PREFIX[n]`` keeps the first n bytes of a word."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 by the golden ratio: products with it spread over the high bits (Knuth, TAOCP 6.4)."""

_HALF = np.uint64(32)
"""Half of a word's bits."""

_STRINGS = Decoder(list[str])
_FEW = Decoder(tuple[str, ...])


class NameList:
    """A JSON array of names in the order in which they came.

    No name has a character that JSON escapes or that is not ASCII, like the names of Kubernetes
    (RFC 1123). The list keeps duplicates.
    """

    def __init__(self, compact: bytes, few: int = FEW) -> None:
        """Find the names.

        Args:
            compact: valid JSON.
            few: number of bytes up to which the names are kept as strings.

        Raises:
            BodyError: it is no array of such names, or has white space between them.
        """
        self.compact = compact
        self.few = _few_names(compact) if len(compact) <= few else None
        if self.few is not None:
            self._size = len(self.few)
            return
        letters = np.frombuffer(compact, np.uint8)
        quotes = np.flatnonzero(letters == _QUOTE)
        if not _is_plain(letters, quotes):
            raise BodyError("this is not an array of plain names")
        self._starts = quotes[::2] + 1
        self._lengths = quotes[1::2] - self._starts
        self._size = self._lengths.size

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
        return self._size

    def strings(self) -> list[str]:
        """Each name."""
        return _STRINGS.decode(self.compact) if self.few is None else [*self.few]

    def string(self, position: int) -> str:
        """The name at a position."""
        if self.few is not None:
            return self.few[position]
        start = int(self._starts[position])
        return self.compact[start : start + int(self._lengths[position])].decode()

    def select(self, selected: Mask) -> list[str]:
        """The selected names."""
        return list(compress(self.strings(), selected.tobytes()))

    def selection(self, selected: Mask) -> "NameList":
        """The list of the selected names; this one where they are all."""
        if selected.all():
            return self
        made = NameList.__new__(NameList)
        made.compact = self.json_array(selected)
        made.few = None if self.few is None else tuple(compress(self.few, selected.tobytes()))
        made._size = int(np.count_nonzero(selected))
        if made.few is None:
            made._lengths = self._lengths[selected]
            # Around each name are two quotes, and a comma or bracket precedes it.
            made._starts = np.cumsum(made._lengths + 3) - made._lengths - 1
        return made

    def json_array(self, selected: Mask) -> bytes:
        """The JSON array of the selected names."""
        if self.few is not None:
            return orjson.dumps([*compress(self.few, selected.tobytes())])
        edges = np.diff(selected.view(np.int8), prepend=0, append=0)
        first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
        if first.size > FEW_RUNS:
            # Each item is a name, its quotes, and the comma or bracket that follows.
            letters = np.frombuffer(self.compact, np.uint8)[1:]
            items = letters[np.repeat(selected, self._lengths + 3)]
            return b"[%b]" % items[:-1].tobytes()
        begin = self._starts[first] - 1
        end = self._starts[last] + self._lengths[last] + 1
        runs = zip(begin.tolist(), end.tolist(), strict=True)
        return b"[%b]" % b",".join([self.compact[start:stop] for start, stop in runs])

    def words(self, count: int) -> tuple[list[Words], Mask]:
        """The first ``count`` words of all names, padded with zeros, and which names are longer.

        No name has a zero byte, so equal words mean equal names where there are no more. For lists
        that are not ``few``.
        """
        padded = self.compact + bytes(_WORD * count)
        # One word begins at each byte.
        windows: Words = np.ndarray(len(padded) - _WORD + 1, np.dtype("<u8"), padded, strides=(1,))
        shortest = int(self._lengths.min()) if self._size else 0
        words: list[Words] = []
        for skipped in range(0, _WORD * count, _WORD):
            word: Words = windows[self._starts + skipped]
            if shortest < skipped + _WORD:
                word &= _PREFIX[np.clip(self._lengths - skipped, 0, _WORD)]
            words.append(word)
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
        plain_names = [name if _is_plain_name(name) else "" for name in names]
        plain = NameList(msgspec.json.encode(plain_names), few=0)
        self.unknown = len(names)
        self._row_of = {name: row for row, name in enumerate(plain_names) if name}
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
        if names.few is not None:
            row_of, unknown = self._row_of.get, self.unknown
            return np.array([row_of(name, unknown) for name in names.few], np.int32)
        words, longer = names.words(self._count)
        slots = self._first(words)
        rows = self._slots.take(slots)
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
            mixed ^= mixed >> _HALF
            mixed ^= word
            mixed *= _ODD
        mixed ^= mixed >> _HALF
        mixed *= _ODD
        mixed >>= self._shift
        return mixed.view(np.int64)

    def _missed(self, rows: Rows, words: list[Words]) -> Mask:
        """Which of some names met another name; an empty slot is an answer."""
        differs: Mask = self._words[0].take(rows) != words[0]
        for own, word in zip(self._words[1:], words[1:], strict=True):
            differs |= own.take(rows) != word
        differs &= rows != self.unknown
        return differs


def _few_names(compact: bytes) -> tuple[str, ...]:
    """The names as strings.

    Raises:
        BodyError: they are not plain, or have white space between them.
    """
    try:
        names = _FEW.decode(compact)
    except UnreadableError as error:
        raise BodyError("this is not an array of plain names") from error
    text = "".join(names)
    # Quotes and commas around names, and nothing else: no escape, no white space.
    framed = len(text) + 3 * len(names) + (1 if names else 2)
    if framed != len(compact) or not _is_plain_name(text):
        raise BodyError("this is not an array of plain names")
    return names


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

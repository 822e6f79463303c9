"""Finds the rows of thousands of names at once, without a string for each name.

A dictionary answers each name with several visits to memory: the string, its hash's slot, the key
there. Thousands of strings exceed the processor's cache, so that the time for each name grows with
their number. Here all names are one text, and NumPy compares a *word*, eight bytes, of all of them
at once. Figures: ``core.feasibility.node_names``, which chooses the engine.

The table is a hash table with open addressing, in arrays: all names of a query probe one slot at a
time, and those that meet another name probe the next.

Index spaces: *row* as everywhere (``core.feasibility.columns``); *slot*, a position in the hash
table, inside this file alone. Slots hold rows; one past the last row marks an empty slot and
answers for an unknown name.

Oracle: a dictionary (``test_rows_are_those_of_a_dictionary``).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.feasibility.columns import Mask, Numbers, Rows

Words = NDArray[np.uint64]

_WORD = 8
"""Bytes that are compared at once."""

_PREFIX = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
"""``_PREFIX[n]`` keeps the first n bytes of a word."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 by the golden ratio: products with it spread over the high bits (Knuth, TAOCP 6.4)."""

_HALF = np.uint64(32)
"""Half of a word's bits."""


class NameTable:
    """The rows of different names, by their words."""

    def __init__(self, names: Sequence[str]) -> None:
        """Build the table.

        Args:
            names: by row. One with a character that is not ASCII, or with a zero, is not found.
        """
        self._unknown = len(names)
        plain = [name.isascii() and "\0" not in name for name in names]
        texts = [name.encode("ascii", "replace") for name in names]
        self._count = max(-(-max(map(len, texts), default=0) // _WORD), 1)
        text = b"".join([each.ljust(_WORD * self._count, b"\0") for each in texts])
        by_name = np.frombuffer(text, np.dtype("<u8")).reshape(len(names), self._count)
        words: list[Words] = [by_name[:, at].copy() for at in range(self._count)]
        self._words = [np.append(word, np.uint64(0)) for word in words]
        size = 1 << (8 * len(names) + 1).bit_length()
        self._shift = np.uint64(64 - size.bit_length() + 1)
        self._last = size - 1
        self._slots: Rows = np.full(size, self._unknown, np.int32)
        self._fill(words, np.flatnonzero(np.array(plain, np.bool_)))

    def rows(self, text: bytes, starts: Numbers, lengths: Numbers) -> Rows:
        """The row of each name; one past the last where it has none.

        Args:
            text: that has the names, in ASCII without zeros.
            starts: of each name, its position in the text.
            lengths: of each name, its bytes.
        """
        words = self._words_at(text, starts, lengths)
        slots = self._first(words)
        rows = self._slots.take(slots)
        probing = np.flatnonzero(self._missed(rows, words))
        while probing.size:
            slots[probing] = (slots[probing] + 1) & self._last
            rows[probing] = self._slots[slots[probing]]
            missed = self._missed(rows[probing], [word[probing] for word in words])
            probing = probing[missed]
        rows[lengths > _WORD * self._count] = self._unknown
        return rows

    def _words_at(self, text: bytes, starts: Numbers, lengths: Numbers) -> list[Words]:
        """The first words of each name, padded with zeros.

        No name has a zero byte, so equal words mean equal names where there are no more.
        """
        padded = text + bytes(_WORD * self._count)
        # One word begins at each byte.
        windows: Words = np.ndarray(len(padded) - _WORD + 1, np.dtype("<u8"), padded, strides=(1,))
        shortest = int(lengths.min()) if lengths.size else 0
        words: list[Words] = []
        for skipped in range(0, _WORD * self._count, _WORD):
            word: Words = windows[starts + skipped]
            if shortest < skipped + _WORD:
                word &= _PREFIX[np.clip(lengths - skipped, 0, _WORD)]
            words.append(word)
        return words

    def _fill(self, words: list[Words], rows: Numbers) -> None:
        slots = self._first(words)
        while rows.size:
            free = rows[self._slots[slots[rows]] == self._unknown]
            _, one_a_slot = np.unique(slots[free], return_index=True)
            settled = free[one_a_slot]
            self._slots[slots[settled]] = settled
            rows = rows[self._slots[slots[rows]] != rows]
            slots[rows] = (slots[rows] + 1) & self._last

    def _first(self, words: list[Words]) -> Numbers:
        """The slot at which the search for each name begins."""
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
        differs &= rows != self._unknown
        return differs

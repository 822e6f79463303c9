"""Lists of node names that were seen: a later body with the same one is not searched again.

kube-scheduler's extender sends the pod first and the names of the nodes last, so that the bodies of
many pods end alike: 115 KB of names after a few KB of pod, with 5,000 nodes. The endings are
compared byte by byte. The ending of a body is the names of its object, whatever precedes it: the
comma before the key ends no string and is escaped in none, so that the quote after it would end a
string in which it is, and ``NodeNames`` would follow where JSON allows no letter.
"""

from collections import deque

from adapters.wire.name_index import NameList

LISTS = 4
"""Lists that are kept, the ones that were asked about last: the nodes of the filters and of the
prioritize calls of two schedulers."""

MAX_ENDING = 2 << 20
"""Bytes of a list that is kept at most: 90,000 names of usual length."""

_ENDING = b',"NodeNames":%b}'

NO_NAMES = b"[]"
"""Replaces the names in a body that ends with a list that was seen."""


class SeenNames:
    """Lists of names, by the ending of a body that each of them is."""

    def __init__(self) -> None:
        self._latest: deque[tuple[bytes, NameList]] = deque(maxlen=LISTS)

    def find(self, content: bytes) -> tuple[bytes, NameList] | None:
        """The body with ``NO_NAMES`` as names, and its names; None where they were not seen."""
        for place, (ending, names) in enumerate(self._latest):
            if content.endswith(ending):
                del self._latest[place]
                self._latest.appendleft((ending, names))
                return content[: -len(ending)] + _ENDING % NO_NAMES, names
        return None

    def expect(self, names: NameList) -> None:
        """Keep the names of an answer: prioritize asks about the nodes that filter returned."""
        if any(known is names for _, known in self._latest):
            return
        ending = _ENDING % names.compact
        if len(ending) <= MAX_ENDING and all(ending != known for known, _ in self._latest):
            self._latest.appendleft((ending, names))

    def note(self, content: bytes, names: NameList) -> None:
        """Keep the names of a body, if the body is as Go writes it."""
        ending = _ENDING % names.compact
        if len(ending) <= MAX_ENDING and content.endswith(ending):
            self._latest.appendleft((ending, names))

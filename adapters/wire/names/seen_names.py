"""Lists of node names that were seen: a later body with the same names is not searched again.

kube-scheduler's extender sends the pod first and the names of the nodes last, so that the bodies of
many pods end alike: 115 KB of names after a few KB of pod, with 5,000 nodes. The ending of a body
is the names of its object, whatever precedes it: the comma before the key ends no string and is
escaped in none, so that the quote after it would end a string in which it is, and ``NodeNames``
would follow where JSON allows no letter.

``prioritize`` sends the names that ``filter`` answered, byte by byte. ``filter`` sends all nodes in
another order each time, the one in which goroutines have come to them. Source: kubernetes 1.37.1
pkg/scheduler/schedule_one.go, findNodesThatPassFilters.
"""

from collections import deque
from functools import cached_property

from adapters.wire.names.name_index import NameList

LISTS = 4
"""Lists that are kept, the ones that were asked about last: the nodes of the filters and of the
prioritize calls of two schedulers."""

MAX_ENDING = 2 << 20
"""Bytes of a list that is kept at most: 90,000 names of usual length."""

MAX_SET = 2_000
"""Names of a list that is known in another order. To find more of them by NumPy takes less time:
a filter of 1,000 names takes 0.8 of the time with the set, one of 5,000 took 2.3 times as long."""

_HEAD = b',"NodeNames":['
_ENDING = _HEAD[:-1] + b"%b}"
_BETWEEN = b'","'

NO_NAMES = b"[]"
"""Replaces the names in a body that ends with a list that was seen."""


class _SeenList:
    """A list of names, and the ending of a body that it is."""

    def __init__(self, names: NameList) -> None:
        self.names = names
        self.ending = _ENDING % names.compact

    @cached_property
    def as_set(self) -> frozenset[bytes]:
        """The names; empty if one of them comes twice."""
        parts = _parts(self.ending)
        found = frozenset(parts)
        return found if len(found) == len(parts) else frozenset()


class SeenNames:
    """Lists of names, by the ending of a body that each of them is."""

    def __init__(self) -> None:
        self._latest: deque[_SeenList] = deque(maxlen=LISTS)

    def find(self, content: bytes) -> tuple[bytes, NameList] | None:
        """The body with ``NO_NAMES`` as names, and its names; None where they were not seen.

        The names come in the order in which they were seen first.
        """
        found = next((seen for seen in self._latest if content.endswith(seen.ending)), None)
        if found is None:
            found = self._in_another_order(content)
        if found is None:
            return None
        self._latest.remove(found)
        self._latest.appendleft(found)
        return content[: -len(found.ending)] + _ENDING % NO_NAMES, found.names

    def expect(self, names: NameList) -> None:
        """Keep the names of an answer: prioritize asks about the nodes that filter returned."""
        if any(seen.names is names for seen in self._latest):
            return
        made = _SeenList(names)
        if len(made.ending) <= MAX_ENDING and all(
            made.ending != seen.ending for seen in self._latest
        ):
            self._latest.appendleft(made)

    def note(self, content: bytes, names: NameList) -> None:
        """Keep the names of a body, if the body is as Go writes it."""
        made = _SeenList(names)
        if len(made.ending) <= MAX_ENDING and content.endswith(made.ending):
            self._latest.appendleft(made)

    def _in_another_order(self, content: bytes) -> _SeenList | None:
        """The list whose names are those at the end of a body, each once."""
        parts: dict[int, list[bytes]] = {}
        for seen in self._latest:
            size = len(seen.ending)
            if len(seen.names) > MAX_SET or not content[-size:].startswith(_HEAD):
                continue
            if size not in parts:
                parts[size] = _parts(content[-size:])
            if len(parts[size]) == len(seen.as_set.intersection(parts[size])):
                return seen
        return None


def _parts(ending: bytes) -> list[bytes]:
    """What quotes and commas separate: each name if the ending is as Go writes it."""
    return ending.removeprefix(_HEAD + b'"').removesuffix(b'"]}').split(_BETWEEN)

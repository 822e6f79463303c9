"""The names of nodes that schedulers send, as JSON: read once for a filter and its prioritize.

A filter names every node of the cluster, in another order each time: the one in which goroutines
have come to them. ``prioritize`` then sends the names that ``filter`` answered, byte by byte.
Source: kubernetes 1.37.1 pkg/scheduler/schedule_one.go, findNodesThatPassFilters.
"""

from collections import deque
from collections.abc import Sequence

from adapters.wire.bounded import MOST_ITEMS
from adapters.wire.decode.body import BodyError
from adapters.wire.decode.decoder import Decoder, UnreadableError
from core.feasibility.node_names import NodeNames

ANSWERS = 4
"""Answers that are kept, the ones that were asked about last: of the filters of two schedulers, and
of as many that no prioritize follows."""

LONGEST_ANSWER = 2 << 20
"""Bytes of an answer that is kept at most: 90,000 names of usual length."""

LONGEST_NAMES = 32 << 20
"""Bytes of an array of node names; 100,000 of the longest ones have 26 MB."""

_NAMES = Decoder(tuple[str, ...])

_PLAIN = bytes(code for code in range(0x20, 0x7F) if code not in b'"\\')
"""Printable ASCII that JSON does not escape."""


def plain_names(names: Sequence[str]) -> NodeNames:
    """Names without a character that JSON escapes or that is not ASCII, as RFC 1123 demands.

    So they can be joined to JSON without looking at each (``extender_answer``).

    Raises:
        BodyError: one of them has such a character.
    """
    if not _is_plain("".join(names)):
        at, name = next((at, name) for at, name in enumerate(names) if not _is_plain(name))
        raise BodyError(f"NodeNames[{at}]: {name!r} cannot be a node's name")
    return NodeNames(names)


class FilterAnswers:
    """The latest lists of names that filter has answered, by their JSON.

    A ``NodeNames`` remembers its rows, so neither names nor rows are computed again.
    """

    def __init__(self) -> None:
        self._latest: deque[tuple[bytes, NodeNames]] = deque(maxlen=ANSWERS)

    def encode(self, names: NodeNames) -> bytes:
        """The JSON array of names that filter answers."""
        array = names.array()
        if len(array) <= LONGEST_ANSWER:
            self._latest.appendleft((array, names))
        return array

    def read(self, array: bytes) -> NodeNames:
        """The names of a JSON array; the same object as those of a kept answer.

        Raises:
            BodyError: it is no array of texts, is too long, or one of them is not plain.
        """
        for seen in self._latest:
            if seen[0] == array:
                self._latest.remove(seen)
                self._latest.appendleft(seen)
                return seen[1]
        if array.count(b",") >= MOST_ITEMS or len(array) > LONGEST_NAMES:
            problem = f"more than {MOST_ITEMS} names or {LONGEST_NAMES} bytes"
            raise BodyError(f"NodeNames has {problem}")
        try:
            names = _NAMES.decode(array)
        except UnreadableError as error:
            raise BodyError(f"NodeNames cannot be read: {error}") from error
        return plain_names(names)


def _is_plain(text: str) -> bool:
    return not text.encode().translate(None, _PLAIN)

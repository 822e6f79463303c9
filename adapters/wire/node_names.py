"""The names of nodes that schedulers send, as JSON.

A filter names every node of the cluster, in another order each time: the one in which goroutines
have come to them. ``prioritize`` then sends the names that ``filter`` answered, byte by byte.
Source: kubernetes 1.37.1 pkg/scheduler/schedule_one.go, findNodesThatPassFilters.
"""

from collections.abc import Sequence

from adapters.wire.bounded import MOST_ITEMS
from adapters.wire.decode.body import BodyError
from adapters.wire.decode.decoder import Decoder, UnreadableError
from core.feasibility.node_names import NodeNames

LONGEST_NAMES = 32 << 20
"""Bytes of an array of node names; 100,000 of the longest ones have 26 MB."""

_NAMES = Decoder(tuple[str, ...])

_PLAIN = bytes(code for code in range(0x20, 0x7F) if code not in b'"\\')
"""Printable ASCII that JSON does not escape."""


def read_names(array: bytes) -> NodeNames:
    """Return the names of a JSON array.

    Raises:
        BodyError: it is no array of texts, is too long, or one of them is not plain.
    """
    if array.count(b",") >= MOST_ITEMS or len(array) > LONGEST_NAMES:
        raise BodyError(f"NodeNames has more than {MOST_ITEMS} names or {LONGEST_NAMES} bytes")
    try:
        names = _NAMES.decode(array)
    except UnreadableError as error:
        raise BodyError(f"NodeNames cannot be read: {error}") from error
    return plain_names(names)


def plain_names(names: Sequence[str]) -> NodeNames:
    """Return names without a character that JSON escapes or that is not ASCII (RFC 1123).

    So they can be joined to JSON without looking at each (``extender_answer``).

    Raises:
        BodyError: one of them has such a character.
    """
    if not _is_plain("".join(names)):
        at, name = next((at, name) for at, name in enumerate(names) if not _is_plain(name))
        raise BodyError(f"NodeNames[{at}]: {name!r} cannot be a node's name")
    return NodeNames(names)


def _is_plain(text: str) -> bool:
    return not text.encode().translate(None, _PLAIN)

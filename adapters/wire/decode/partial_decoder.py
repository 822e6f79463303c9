"""Decodes objects of which only some fields are read, whatever the others are."""

import re
from typing import TypeVar

from adapters.wire.decode.decoder import Decoder, MalformedError, Text

KindT = TypeVar("KindT")

DEEPEST = 32
"""Objects and arrays in each other; no field that is read lies as deep."""

# An escaped character, which may be half of one. The other half follows the first at once.
_HALF = re.compile(
    rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL
)
_UNKNOWN = rb"\ufffd"


class PartialDecoder(Decoder[KindT]):
    """Decodes an object of which only some fields are read.

    The API server passes the parameters of a claim on as the author wrote them: nested deeply, and
    with escapes of half a character, which Go reads as U+FFFD and others do not read. What lies
    deeper than any field that is read is ignored, and such an escape is read as Go does.
    """

    __slots__ = ()

    def decode(self, text: Text) -> KindT:
        """Decode a text, at a second try without what no field reads.

        Raises:
            MalformedError: it is not JSON, or no object of the type.
        """
        try:
            return super().decode(text)
        except MalformedError:
            content = text.encode() if isinstance(text, str) else bytes(text)
            whole = _HALF.sub(lambda escape: _UNKNOWN if escape["half"] else escape[0], content)
            return super().decode(shallow(whole, DEEPEST))


def shallow(text: bytes, most: int) -> bytes:
    """Return JSON with ``null`` in place of each object and array that is nested too deeply.

    What was malformed stays so. 20 ms for 1.5 MiB: an event loop must not wait for an author.
    """
    import numpy as np  # here: it is large

    plain = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    letters = np.frombuffer(plain, np.uint8)
    kind = np.zeros(256, np.int8)
    kind[[*b"[{"]], kind[[*b"]}"]] = 1, -1
    step = kind[letters]
    step[np.cumsum(letters == ord('"')) % 2 == 1] = 0  # in a string
    depth = np.cumsum(step, dtype=np.int32)
    starts = np.flatnonzero((step == 1) & (depth == most + 1)).tolist()
    ends = np.flatnonzero((step == -1) & (depth == most)).tolist()
    kept: list[bytes] = []
    position = 0
    for start, end in zip(starts, [*ends, len(text)], strict=False):
        kept += [text[position:start], b"null"]
        position = end + 1
    return b"".join([*kept, text[position:]])

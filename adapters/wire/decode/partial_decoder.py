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
            from adapters.wire.decode.shallow import shallow  # has NumPy, which is large

            content = text.encode() if isinstance(text, str) else bytes(text)
            return super().decode(shallow(_HALF.sub(_whole, content), DEEPEST))


def _whole(escape: re.Match[bytes]) -> bytes:
    return _UNKNOWN if escape["half"] else escape[0]

"""Dragoman's own record of an allocation, for what an ecosystem's record cannot say.

Written beside the ecosystem's own annotation where that would lose which container has which
share; read in its place when it is there.
"""

import msgspec

from adapters.dialects.dialect import DialectError
from adapters.wire.grant import GrantRecord, grant, grant_record
from core.requests.grant import Grant

KEY = "dragoman.dev/allocation"

MARK = "DRAGOMAN_SHARE"
"""A variable that admission sets on each container that asks for a share; its value is not read."""

_decoder = msgspec.json.Decoder(list[GrantRecord])


def encode(grants: tuple[Grant, ...]) -> str:
    """Grants as compact JSON."""
    return msgspec.json.encode([grant_record(each) for each in grants]).decode()


def decode(text: str) -> tuple[Grant, ...]:
    """The grants of an encoded text.

    Raises:
        DialectError: the text is not such a record.
    """
    try:
        return tuple(map(grant, _decoder.decode(text)))
    except msgspec.MsgspecError as error:
        raise DialectError(f"metadata.annotations[{KEY}]", text, f"not readable: {error}") from None

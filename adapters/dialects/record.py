"""Dragoman's own record of an allocation, for what an ecosystem's record cannot say.

Written beside the ecosystem's own annotation where that would lose which container has which
share; read in its place when it is there.
"""

import msgspec

from adapters.dialects.dialect import DialectError
from core.grant import Grant
from core.mig import Slice
from core.request import Phase

KEY = "dragoman.dev/allocation"

MARK = "DRAGOMAN_SHARE"
"""A variable that admission sets on each container that asks for a share; its value is not read."""


class _Slice(msgspec.Struct, frozen=True, rename="camel"):
    profile: str
    start: int
    size: int
    memory: int
    compute: int
    layout: str
    position: int


class _Grant(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    container: str
    card: str
    memory: int
    compute: int
    exclusive: bool = False
    phase: Phase = Phase.MAIN
    slice: _Slice | None = None


def encode(grants: tuple[Grant, ...]) -> str:
    """Grants as compact JSON."""
    return msgspec.json.encode(
        [
            _Grant(
                container=grant.container,
                card=grant.card,
                memory=grant.memory,
                compute=grant.compute,
                exclusive=grant.exclusive,
                phase=grant.phase,
                slice=None
                if grant.slice is None
                else msgspec.convert(grant.slice, _Slice, from_attributes=True),
            )
            for grant in grants
        ]
    ).decode()


def decode(text: str) -> tuple[Grant, ...]:
    """The grants of an encoded text.

    Raises:
        DialectError: the text is not such a record.
    """
    try:
        found = msgspec.json.decode(text, type=list[_Grant])
    except msgspec.MsgspecError as error:
        raise DialectError(f"metadata.annotations[{KEY}]", text, f"not readable: {error}") from None
    return tuple(
        Grant(
            grant.container,
            grant.card,
            grant.memory,
            grant.compute,
            grant.exclusive,
            grant.phase,
            None
            if grant.slice is None
            else msgspec.convert(grant.slice, Slice, from_attributes=True),
        )
        for grant in found
    )

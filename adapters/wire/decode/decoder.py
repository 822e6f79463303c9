"""Decodes what others wrote: objects, annotations, settings, records, requests.

All JSON of the service and the agent is decoded here, so that each failure is the same error for
each caller. No text, however malformed, raises another one: none that is nested too deeply, has a
number that no field can have, or is no UTF-8.
"""

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar, overload

import msgspec

KindT = TypeVar("KindT")

Text = bytes | str | msgspec.Raw

Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A field of this type has no number that the API server, etcd or JSON's other readers lack."""

_FAILURES = (ValueError, RecursionError)
# MsgspecError and UnicodeError are ValueErrors.


class UnreadableError(ValueError):
    """Text or a value that cannot be decoded; the error says why."""


class MalformedError(UnreadableError):
    """Text that is nested too deeply, or is no JSON, whatever is read of it."""


class Decoder(Generic[KindT]):
    """Decodes JSON to one kind of value."""

    __slots__ = ("_decode",)

    @overload
    def __init__(self, kind: type[KindT]) -> None: ...

    @overload
    def __init__(self, kind: Any) -> None: ...

    def __init__(self, kind: Any) -> None:
        """Decode to this type."""
        self._decode: Callable[[Text], KindT] = msgspec.json.Decoder(kind).decode

    def decode(self, text: Text) -> KindT:
        """Return the value of a text.

        Raises:
            UnreadableError: the text has no such value.
        """
        try:
            return self._decode(text)
        except _FAILURES as error:
            raise _unreadable(error) from None


def convert(value: object, kind: type[KindT], *, strict: bool = True) -> KindT:
    """Return the value that a decoded one is in another kind.

    Raises:
        UnreadableError: it is of another form.
    """
    try:
        return msgspec.convert(value, kind, strict=strict)
    except _FAILURES as error:
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> UnreadableError:
    """Return the error without the text, which may be long."""
    if isinstance(error, RecursionError):
        return MalformedError("nested too deeply")
    if isinstance(error, UnicodeDecodeError | UnicodeEncodeError):
        return UnreadableError(f"not UTF-8: {error.reason}")
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
        return MalformedError(str(error))
    return UnreadableError(str(error))

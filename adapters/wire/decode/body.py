"""Bodies of requests: decoded into the fields that are needed, or rejected with a sentence."""

from typing import TypeVar

from adapters.wire.decode.decoder import Decoder, UnreadableError

T = TypeVar("T")


class BodyError(ValueError):
    """A body that cannot be used; the text says what is wrong with it."""


def read(body: bytes, decoder: Decoder[T]) -> T:
    """The value of a body.

    Raises:
        BodyError: it is no JSON in UTF-8, is cut off, or a field has the wrong type.
    """
    if not body:
        raise BodyError("the body is empty")
    try:
        return decoder.decode(body)
    except UnreadableError as error:
        raise BodyError(f"the body cannot be read: {error}") from error

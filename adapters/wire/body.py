"""Bodies of requests: decoded into the fields that are needed, or rejected with a sentence."""

from typing import TypeVar

import msgspec

T = TypeVar("T")


class BodyError(ValueError):
    """A body that cannot be used; the text says what is wrong with it."""


def read(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """The value of a body.

    Raises:
        BodyError: it is no JSON in UTF-8, is cut off, or a field has the wrong type.
    """
    if not body:
        raise BodyError("the body is empty")
    try:
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise BodyError(f"the body is not UTF-8: {error.reason}") from error
    except msgspec.MsgspecError as error:
        raise BodyError(f"the body cannot be read: {error}") from error
    except RecursionError as error:
        raise BodyError("the body is nested too deeply") from error

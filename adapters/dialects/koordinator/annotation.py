"""JSON that stands in annotations."""

from typing import TypeVar

import msgspec

from adapters.dialects.dialect import DialectError
from adapters.wire.kube import Text

_Shape = TypeVar("_Shape")


def annotation_path(key: str) -> str:
    """Where an annotation stands, for error messages."""
    return f"metadata.annotations[{key}]"


def decode(annotations: Text, key: str, shape: type[_Shape]) -> _Shape | None:
    """What an annotation says; None where there is none, or ``null``.

    Raises:
        DialectError: it is no JSON of this shape.
    """
    text = annotations.get(key)
    if text is None or text.strip() == "null":
        return None
    try:
        return msgspec.json.decode(text, type=shape)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DialectError(annotation_path(key), text, f"not readable: {error}") from None

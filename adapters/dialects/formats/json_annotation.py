"""JSON in annotations."""

from typing import TypeVar

from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.annotation_values import annotation_path
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Text

_Shape = TypeVar("_Shape")


def decode(annotations: Text, key: str, shape: type[_Shape]) -> _Shape | None:
    """Parse an annotation; None where it does not exist, or is ``null``.

    Raises:
        DialectError: it is not JSON of this shape.
    """
    text = annotations.get(key)
    if text is None or text.strip() == "null":
        return None
    try:
        return Decoder(shape).decode(text)
    except UnreadableError as error:
        raise DialectError(annotation_path(key), text, f"cannot be parsed: {error}") from None

"""Parses values of a pod's annotations: an invalid value is an error, never a default."""

from typing import TypeVar

from adapters.dialects.dialect import DialectError
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Text

# strconv.ParseBool
_WORDS = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


def parse_bool(text: str) -> bool | None:
    """Parse a boolean; None where the text is not one."""
    return _WORDS.get(text)


def annotation_path(key: str) -> str:
    """Return the path of an annotation, for error texts."""
    return f"metadata.annotations[{key}]"


def one_word(annotations: Text, key: str, *words: str) -> str | None:
    """Return one of these words, in this spelling; None where the annotation does not exist.

    Raises:
        DialectError: the value is another word.
    """
    value = annotations.get(key)
    if value is None or value in words:
        return value
    raise DialectError(annotation_path(key), value, f"must be {' or '.join(words)}")


def several_words(annotations: Text, key: str, *known: str) -> tuple[str, ...]:
    """Return the words in a list with commas, each once; empty where the annotation does not exist.

    Raises:
        DialectError: the list has another word, or none.
    """
    value = annotations.get(key)
    if value is None:
        return ()
    found = tuple(dict.fromkeys(item.strip() for item in value.split(",")))
    if not set(found) <= set(known):
        problem = f"must be {' or '.join(known)}, or several of them, separated by commas"
        raise DialectError(annotation_path(key), value, problem)
    return found


def boolean(annotations: Text, key: str) -> bool | None:
    """Return a boolean as Go parses it; None where the annotation does not exist.

    Raises:
        DialectError: the value is not a boolean.
    """
    value = annotations.get(key)
    if value is None:
        return None
    parsed = parse_bool(value)
    if parsed is None:
        raise DialectError(annotation_path(key), value, "must be true or false")
    return parsed


def names(annotations: Text, key: str) -> frozenset[str]:
    """Return names in a list with commas, without empty ones."""
    items = (item.strip() for item in annotations.get(key, "").split(","))
    return frozenset(item for item in items if item)


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

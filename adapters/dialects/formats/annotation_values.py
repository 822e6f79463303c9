"""Parses values of a pod's annotations: an invalid value is an error, never a default."""

from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.go_bool import parse_bool
from adapters.wire.kube import Text


def annotation_path(key: str) -> str:
    """The path of an annotation, for error texts."""
    return f"metadata.annotations[{key}]"


def one_word(annotations: Text, key: str, *words: str) -> str | None:
    """One of these words, in this spelling; None where the annotation does not exist.

    Raises:
        DialectError: the value is another word.
    """
    value = annotations.get(key)
    if value is None or value in words:
        return value
    raise DialectError(annotation_path(key), value, f"must be {' or '.join(words)}")


def several_words(annotations: Text, key: str, *known: str) -> tuple[str, ...]:
    """The words in a list with commas, each once; empty where the annotation does not exist.

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
    """A boolean as Go parses it; None where the annotation does not exist.

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
    """Names in a list with commas, without empty ones."""
    items = (item.strip() for item in annotations.get(key, "").split(","))
    return frozenset(item for item in items if item)

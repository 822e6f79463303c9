"""The values of a pod's annotations: what cannot be meant is an error, never a default."""

from adapters.dialects.dialect import DialectError
from adapters.wire.kube import Text

# Go strconv.ParseBool
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def annotation_path(key: str) -> str:
    """Where an annotation stands, for error messages."""
    return f"metadata.annotations[{key}]"


def one_word(annotations: Text, key: str, *words: str) -> str | None:
    """One of some words, exactly as they are written here; None where nothing is said.

    Raises:
        DialectError: another word.
    """
    value = annotations.get(key)
    if value is None or value in words:
        return value
    raise DialectError(annotation_path(key), value, f"must be {' or '.join(words)}")


def several_words(annotations: Text, key: str, *known: str) -> tuple[str, ...]:
    """Some of the words, separated by commas, each once; empty where nothing is said.

    Raises:
        DialectError: another word, or none.
    """
    value = annotations.get(key)
    if value is None:
        return ()
    found = tuple(dict.fromkeys(item.strip() for item in value.split(",")))
    if not set(found) <= set(known):
        problem = f"must be {' or '.join(known)}, or several of them with commas between"
        raise DialectError(annotation_path(key), value, problem)
    return found


def boolean(annotations: Text, key: str) -> bool | None:
    """A boolean as Go reads it; None where nothing is said.

    Raises:
        DialectError: no boolean.
    """
    value = annotations.get(key)
    if value is None:
        return None
    if value not in _BOOLEANS:
        raise DialectError(annotation_path(key), value, "must be true or false")
    return _BOOLEANS[value]


def names(annotations: Text, key: str) -> frozenset[str]:
    """Names separated by commas; a blank list says nothing."""
    items = (item.strip() for item in annotations.get(key, "").split(","))
    return frozenset(item for item in items if item)

"""YAML that keeps its comments, its order and its quotes from reading to writing."""

import io
import re
from collections import Counter
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from adapters.cli.input.document import Location, check_object
from adapters.cli.input.source import InputError

Layout = tuple[int, int]
"""Columns of a list's items from their parent, and columns of the hyphens."""

_LIST = re.compile(r"^((?: |- )*)[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n( *)-( +)\S", re.MULTILINE)
"""A key without a value, and the first item of the list below it."""

_SEPARATOR = re.compile(r"^---[ \t]*(?:#.*)?(?:\r?\n|\Z)", re.MULTILINE)

_FAILURES = (ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What the library raises too, such as for a mapping as a key."""

Body = CommentedMap
"""A mapping that keeps its comments."""


def split(text: str) -> list[tuple[str, str, str]]:
    """Return each document of a stream, between the text in front of it and the text behind it."""
    separators = list(_SEPARATOR.finditer(text))
    starts = [0, *(each.end() for each in separators)]
    ends = [*(each.start() for each in separators), len(text)]
    return [(text[:i], text[i:j], text[j:]) for i, j in zip(starts, ends, strict=True)]


def load(text: str, location: Location) -> tuple[Any, Layout]:
    """Return the content of one document, and how its lists are indented.

    Raises:
        InputError: the text is not YAML, or exceeds a limit.
    """
    check_object(text, location)
    try:
        return _yaml().load(text), _layout(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputError(location(line), f"is not YAML: {error.problem}") from error
    except (YAMLError, *_FAILURES) as error:
        raise InputError(location(1), f"is not YAML: {error}") from error


def dump(content: Any, layout: Layout) -> str:
    """Return the text of a document, without a separator in front of it."""
    yaml = _yaml()
    yaml.indent(mapping=2, sequence=layout[0], offset=layout[1])
    out = io.StringIO()
    yaml.dump(content, out)
    return out.getvalue()


def plain(content: Any) -> Any:
    """Return content in Python's own types, which JSON knows and which compare by value."""
    if isinstance(content, dict):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, list):
        return [plain(value) for value in content]
    if content is None or isinstance(content, bool):
        return content
    for kind in (int, float):
        if isinstance(content, kind):
            return kind(content)
    return str(content)


def _layout(text: str) -> Layout:
    """Return the indentation that most lists of a text have; all are written alike."""
    found = Counter(
        (len(match[2]) - len(match[1]), len(match[3])) for match in _LIST.finditer(text)
    )
    hyphen, blanks = found.most_common(1)[0][0] if found else (0, 1)
    hyphen = max(hyphen, 0)
    return hyphen + 1 + blanks, hyphen


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.width = 1 << 20  # no line is broken
    return yaml

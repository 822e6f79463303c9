"""The documents of a text: parsed, and written back where they changed.

Documents without a resource of a dialect are not parsed and stay as they are, byte by byte.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from adapters.cli.input.document import check_json, check_yaml
from adapters.cli.input.source import InputError, InputLocation, Source
from adapters.cli.input.yaml_text import dump, load, split
from adapters.dialects import registry

Check = Callable[[Any], None]
"""Checks a changed document, as it reads from its text."""

Rewrite = Callable[[Any, str], Check | None]
"""Changes the content of a document at a place, which errors name; None where it stays as it is."""

_SPACE = re.compile(r"\s*")
_INDENT = re.compile(r"^[{\[]\n( +)")


def changed(source: Source, rewrite: Rewrite) -> str:
    """Return the text of a source with changed documents.

    Raises:
        InputError: a document with a resource of a dialect is neither YAML nor JSON, or exceeds a
            limit; or ``rewrite`` raises it.
    """
    try:
        parts = _json(source.text, rewrite, source.name) or _yaml(source, rewrite)
        text = "".join(parts)
        text.encode()
    except RecursionError:
        check_yaml(source.text, lambda line: InputLocation(source.name, line))
        raise InputError(source.name, "is nested too deeply") from None
    except UnicodeEncodeError as error:
        problem = f"contains {error.object[error.start]!r}, which is no character"
        raise InputError(source.name, problem) from None
    return text


def _yaml(source: Source, rewrite: Rewrite) -> Iterator[str]:
    end = 0
    for before, text, _ in split(source.text):
        yield source.text[end : len(before)]
        yield _yaml_document(text, source.name, before.count("\n"), rewrite)
        end = len(before) + len(text)


def _yaml_document(text: str, name: str, line: int, rewrite: Rewrite) -> str:
    if not _concerned(text):
        return text

    def location(row: int) -> InputLocation:
        return InputLocation(name, line + row)

    content, layout = load(text, location)
    check = rewrite(content, str(location(1)))
    if check is None:
        return text
    after = dump(content, layout)
    check(load(after, location)[0])
    return after


def _json(text: str, rewrite: Rewrite, name: str) -> list[str]:
    """Return the parts of a stream of JSON objects; none where the text is no such stream."""
    if not text.lstrip().startswith("{"):
        return []
    documents, place, decoder = list[tuple[str, Any, int]](), 0, json.JSONDecoder()
    while True:
        start = _after_space(text, place)
        if start == len(text):
            break
        try:
            content, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError:
            if name.endswith(".json"):
                line = text.count("\n", 0, start) + 1
                raise InputError(InputLocation(name, line), "is not JSON") from None
            return []
        documents.append((text[place:start], content, start))
        place = end
    parts: list[str] = []
    ends = [*(start - len(space) for space, _, start in documents[1:]), place]
    for (space, content, start), end in zip(documents, ends, strict=True):
        original = text[start:end]
        location = InputLocation(name, text.count("\n", 0, start) + 1)
        if _concerned(original):
            check_json(original.encode(errors="surrogatepass"), location)
            check = rewrite(content, str(location))
            if check is not None:
                check(content)
                original = _json_text(content, original)
        parts += [space, original]
    return [*parts, text[place:]]


def _json_text(content: object, original: str) -> str:
    found = _INDENT.match(original)
    indent = len(found[1]) if found else None
    return json.dumps(content, indent=indent, ensure_ascii=False)


def _after_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return start if found is None else found.end()


def _concerned(text: str) -> bool:
    return any(word in text for word in registry.resources())

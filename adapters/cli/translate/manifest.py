"""The documents of a text: parsed, their pods found, and written back where they changed.

Documents without a resource of a dialect are not parsed and stay as they are, byte by byte; of a
changed one, all but the requests stays.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from adapters.cli.input.document import check_json, check_yaml
from adapters.cli.input.source import InputError, InputLocation, Source
from adapters.cli.input.yaml_text import Body, dump, load, plain, split
from adapters.dialects import registry
from adapters.wire.kube import Pod

Check = Callable[[Any], None]
"""Checks a changed document, as it reads from its text."""

Rewrite = Callable[[Any, str], Check | None]
"""Changes the content of a document at a place, which errors name; None where it stays as it is."""

_TEXT = re.compile(r"\S|\Z")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_INDENT = re.compile(r"^[{\[]\n( +)")


def changed(source: Source, rewrite: Rewrite) -> str:
    """Return the text of a source with changed documents.

    Raises:
        InputError: a document with a resource of a dialect is neither YAML nor JSON, or exceeds a
            limit; or ``rewrite`` raises it.
    """
    try:
        text = "".join(_json(source, rewrite) or _yaml(source, rewrite))
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
        end = len(before) + len(text)
        if _concerned(text):
            location = partial(_line, source.name, before.count("\n"))
            content, layout = load(text, location)
            check = rewrite(content, str(location(1)))
            if check is not None:
                written = dump(content, layout)
                check(load(written, location)[0])
                yield written
                continue
        yield text


def _line(name: str, above: int, row: int) -> InputLocation:
    return InputLocation(name, above + row)


def _json(source: Source, rewrite: Rewrite) -> list[str]:
    """Return the parts of a stream of JSON objects; none where the text is no such stream."""
    text, name = source.text, source.name
    if not text.lstrip().startswith("{"):
        return []
    documents, place, decoder = list[tuple[str, Any, int]](), 0, json.JSONDecoder()
    while True:
        start = next(_TEXT.finditer(text, place)).start()
        if start == len(text):
            break
        try:
            content, end = decoder.raw_decode(text, start)
        except ValueError as error:
            is_json = not isinstance(error, json.JSONDecodeError)
            if not is_json and not name.endswith(".json"):
                return []
            line = text.count("\n", 0, start) + 1
            problem = "has a number of more than 4,300 digits" if is_json else "is not JSON"
            raise InputError(InputLocation(name, line), problem) from None
        documents.append((text[place:start], content, start))
        place = end
    parts: list[str] = []
    ends = [*(start - len(space) for space, _, start in documents[1:]), place]
    for (space, content, start), end in zip(documents, ends, strict=True):
        original = text[start:end]
        if _concerned(original):
            location = InputLocation(name, text.count("\n", 0, start) + 1)
            check_json(original.encode(errors="surrogatepass"), location)
            check = rewrite(content, str(location))
            if check is not None:
                check(content)
                found = _INDENT.match(original)
                indent = len(found[1]) if found else None
                original = json.dumps(content, indent=indent, ensure_ascii=False)
        parts += [space, original]
    return [*parts, text[place:]]


def _concerned(text: str) -> bool:
    return any(word in text for word in registry.resources())


def words_left(content: Any, words: Collection[str], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the word of each key that is one of the words, or text that has one.

    What an object's status says is not a request, nor is kubectl's copy of the last manifest.
    """
    if isinstance(content, list):
        for index, value in enumerate(content):
            yield from words_left(value, words, f"{path}[{index}]")
    elif isinstance(content, dict):
        for key, value in content.items():
            name = str(key)
            # a ResourceQuota has requests.NAME
            word = name.removeprefix("requests.").removeprefix("limits.")
            if word in words:
                yield path, word
            elif name not in ("status", _LAST_APPLIED):
                yield from words_left(value, words, f"{path}.{name}" if path else name)
    elif isinstance(content, str):
        yield from ((path, word) for word in sorted(words) if _has_word(content, word))


def _has_word(text: str, word: str) -> bool:
    return word in text and re.search(rf"(?<![\w./-]){re.escape(word)}(?![\w/-])", text) is not None


def as_pod(content: dict[str, Any], place: str) -> Pod:
    """Return the pod that a mapping describes.

    Raises:
        InputError: a field has another type than in Kubernetes, or two containers have one name.
    """
    try:
        given = {key: content.get(key) for key in ("metadata", "spec")}
        pod = msgspec.convert(plain({k: v for k, v in given.items() if v is not None}), Pod)
    except msgspec.ValidationError as error:
        raise InputError(place, str(error)) from error
    names = [each.name for each in (*(pod.spec.init_containers or ()), *pod.spec.containers)]
    if len(set(names)) < len(names):
        raise InputError(place, f"spec.containers: {', '.join(names)}: names must be unique")
    return pod


def rewrite_resources(
    pod: dict[str, Any],
    gone: Collection[str],
    wanted: Mapping[str, Mapping[str, int | str]],
) -> None:
    """Replace resources of containers by those wanted, by container, in limits and in requests."""
    spec = pod["spec"]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        resources = container.get("resources") or {}
        for section in ("limits", "requests"):
            amounts = resources.get(section)
            if amounts and not amounts.keys().isdisjoint(gone):
                _replace(amounts, gone, wanted.get(str(container.get("name", "")), {}))
                if not amounts:
                    del resources[section]


def rewrite_texts(pod: dict[str, Any], gone: Collection[str], wanted: Mapping[str, str]) -> None:
    """Remove annotations and labels, and write annotations."""
    metadata = pod.get("metadata")
    if metadata is None:
        if not wanted:
            return
        pod["metadata"] = metadata = Body()
    for section, texts in (("annotations", wanted), ("labels", {})):
        found = metadata.get(section)
        if found is None:
            if not texts:
                continue
            metadata[section] = found = Body()
        _replace(found, {*gone, *texts}, texts)
        if not found:
            del metadata[section]


def _replace(
    mapping: dict[str, Any], gone: Collection[str], wanted: Mapping[str, int | str]
) -> None:
    """Put entries in the place of others; comments move along."""
    old = [key for key in mapping if key in gone]
    place = list(mapping).index(old[0]) if old else len(mapping)
    if not isinstance(mapping, Body):
        items = [(key, value) for key, value in mapping.items() if key not in gone]
        items[place:place] = wanted.items()
        mapping.clear()
        mapping.update(items)
        return
    comments = [mapping.ca.items.get(key) for key in old]
    for key in old:
        del mapping[key]
    for offset, (key, value) in enumerate(wanted.items()):
        mapping.insert(place + offset, key, value)
    for key, comment in zip(reversed(list(wanted)), reversed(comments), strict=False):
        if comment is not None:
            mapping.ca.items[key] = comment

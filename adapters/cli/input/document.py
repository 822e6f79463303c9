"""One manifest, YAML or JSON, with its line numbers; errors name the field and its line.

How large, how deep and how often repeated a foreign text may be is checked before it is parsed.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import yaml

from adapters.cli.input.source import InputError, InputLocation, Source, content, mib
from adapters.wire.decode import yaml_decoding
from adapters.wire.decode.yaml_decoding import DEEPEST, TOO_DEEP, YamlLimitError

T = TypeVar("T")

LARGEST_OBJECT = 3 << 20
"""Bytes of a YAML document that is written back: an API server accepts no larger object.

Source: k8s.io/apiserver pkg/server/config.go, MaxRequestBodyBytes.
"""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = [(each in b"[{") - (each in b"]}") for each in range(256)]

Location = Callable[[int], InputLocation | str]
"""The location of a line of a text, counted from 1, for errors."""

_MAPPING = "a manifest is a mapping with apiVersion, kind and metadata, but this is {}"


class DocumentHead(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that decide how to parse the rest; not validated yet, so of any type."""

    api_version: object = None
    kind: object = None


class Document(Protocol):
    """One manifest."""

    @property
    def location(self) -> InputLocation:
        """The first line."""

    def head(self) -> DocumentHead:
        """Return the fields that decide how to parse the rest."""

    def read(self, form: type[T]) -> T:
        """Convert the manifest to a typed value; fields that the type does not name are ignored.

        Raises:
            InputError: a field has another type than in Kubernetes, or is nested too deeply.
        """

    def items(self) -> "tuple[int, Iterator[Document]]":
        """Return how many items a list has, and these one by one: a dump can have hundreds of MB.

        Raises:
            InputError: ``items`` is not a list.
        """


def documents(source: Source) -> Iterator[Document]:
    """Parse the manifests of a text, in order; empty documents are ignored.

    Raises:
        InputError: the text is neither YAML nor JSON or exceeds a limit, or a document is not a
            mapping.
    """
    if source.text.lstrip().startswith("{"):
        try:
            yield from _json_documents(source)
        except RecursionError:
            # Its events name the field; no parser is nested as deep.
            check_yaml(source.text, lambda line: InputLocation(source.name, line))
            raise InputError(source.name, "is nested too deeply") from None
        except InputError:
            if source.name.endswith(".json"):
                raise
        else:
            return
    yield from _yaml_documents(source)


@dataclass(frozen=True, slots=True)
class _Yaml:
    location: InputLocation
    node: yaml.MappingNode
    content: dict[object, object]

    def head(self) -> DocumentHead:
        return self.read(DocumentHead)

    def read(self, form: type[T]) -> T:
        try:
            return msgspec.convert(self.content, form)
        except msgspec.ValidationError as error:
            raise validation_error(error, self.location, self.node) from error

    def items(self) -> tuple[int, Iterator[Document]]:
        found = self.content.get("items")
        if found is None:
            return 0, iter(())
        place = next((v for k, v in self.node.value if k.value == "items"), None)
        if not isinstance(found, list) or not isinstance(place, yaml.SequenceNode):
            raise InputError(self.location, "items must be a list")
        pairs = zip(place.value, found, strict=True)
        return len(found), (_yaml(self.location.file, node, content) for node, content in pairs)


def _yaml(file: str, node: yaml.Node, content: object) -> Document:
    place = InputLocation(file, node.start_mark.line + 1)
    if not isinstance(node, yaml.MappingNode) or not isinstance(content, dict):
        what = "a list" if isinstance(content, list) else f"{str(content)[:40]!r}"
        raise InputError(place, _MAPPING.format(what))
    return _Yaml(place, node, content)


def _yaml_documents(source: Source) -> Iterator[Document]:
    check_yaml(source.text, lambda line: InputLocation(source.name, line))
    reader = yaml_decoding.Loader(source.text)
    try:
        while reader.check_node():
            node = reader.get_node()
            content = None if node is None else reader.construct_document(node)
            if node is not None and content is not None:
                yield _yaml(source.name, node, content)
    except InputError:
        raise
    except yaml_decoding.FAILURES as error:
        line, problem = yaml_decoding.explain(error, source.text)
        raise InputError(InputLocation(source.name, line), problem) from error
    finally:
        reader.dispose()


@dataclass(frozen=True, slots=True)
class _Json:
    location: InputLocation
    text: str

    def head(self) -> DocumentHead:
        return self._decode(DocumentHead)

    def read(self, form: type[T]) -> T:
        check_json(self.text.encode(), self.location)
        return self._decode(form)

    def _decode(self, form: type[T]) -> T:
        try:
            return msgspec.json.decode(self.text, type=form)
        except msgspec.ValidationError as error:
            node: yaml.Node | None = None
            with suppress(*yaml_decoding.FAILURES):
                # JSON is YAML, but for tabs, which JSON has between values only.
                node = yaml_decoding.Loader(self.text.replace("\t", " ")).get_single_node()
            raise validation_error(error, self.location, node, self.location.line - 1) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(self.location, f"is not JSON: {error}") from error

    def items(self) -> tuple[int, Iterator[Document]]:
        # The list is not checked as a whole: it is large, and its members are.
        found = self._decode(_Items).items
        begins = bytes(memoryview(found)[:_FOUND]).decode(errors="ignore")
        if begins in ("", "null"):
            return 0, iter(())
        if not begins.startswith("["):
            raise InputError(self.location, "items must be a list")
        members = msgspec.json.decode(found, type=list[msgspec.Raw])

        def documents() -> Iterator[Document]:
            line, seen, after = self.location.line, 0, self.text.index(begins)
            for member in members:
                text = bytes(member).decode()
                start = self.text.index(text, after)
                line += self.text.count("\n", seen, start)
                seen, after = start, start + len(text)
                yield _json(InputLocation(self.location.file, line), text)

        return len(members), documents()


_FOUND = 4096
"""Bytes by which the beginning of a list is found again, for line numbers."""


class _Items(msgspec.Struct, frozen=True):
    items: msgspec.Raw = msgspec.Raw(b"")


def _json(place: InputLocation, text: str) -> Document:
    if not text.startswith("{"):
        raise InputError(place, _MAPPING.format(f"{text[:40]!r}"))
    return _Json(place, text)


def _json_documents(source: Source) -> Iterator[Document]:
    text, line, seen = source.text, 1, 0
    first = _after_space(text, 0)
    spans = [(first, len(text))]
    try:
        msgspec.json.decode(text[first:], type=DocumentHead)
    except (msgspec.DecodeError, RecursionError):
        # All are found before the first is read: a text that is no JSON to its end may be YAML.
        spans.clear()
        reader = json.JSONDecoder(parse_int=str)  # a number of any length has its place
        while first < len(text):
            try:
                _, end = reader.raw_decode(text, first)
            except json.JSONDecodeError as error:
                problem = f"is not JSON: {error.msg[0].lower()}{error.msg[1:]}"
                raise InputError(InputLocation(source.name, error.lineno), problem) from error
            spans.append((first, end))
            first = _after_space(text, end)
    for start, end in spans:
        line += text.count("\n", seen, start)
        seen = start
        yield _json(InputLocation(source.name, line), text[start:end])


_SPACE = re.compile(r"[ \t\r\n]*")


def _after_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return start if found is None else found.end()


# The text of msgspec: "Expected `str`, got `int` - at `$.metadata.labels[...]`", where [...] is any
# value of a mapping, and "`key` in" before the path means one of its keys.
_AT = re.compile(r"(?P<what>.*) - at (?P<key>`key` in )?`\$(?P<path>.*)`")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")
_TYPES = re.compile(r"Expected `(?P<wanted>.*)`, got `(?P<got>.*)`")
_BOUNDS = re.compile(
    r"Expected `\w+` (?P<length>of length )?(?P<kind>>=|<=|matching regex) (?P<bound>.+)"
)
_MISSING = re.compile(r"Object missing required field `(?P<field>.+)`")
_NOT_LISTED = re.compile(r"Invalid enum value (?P<value>.+)")

_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "a mapping",
}
_TAGS = {"array": "seq", "object": "map"}
_UNQUOTED = frozenset({"int", "float", "bool", "null"})


def validation_error(
    error: msgspec.ValidationError, place: InputLocation, node: yaml.Node | None, above: int = 0
) -> InputError:
    """Translate an error of msgspec into the terms of a manifest.

    Args:
        error: what msgspec raised.
        place: the first line of the manifest.
        node: the manifest as YAML; None where only its beginning is known.
        above: number of lines of the file before the text that ``node`` was read from.
    """
    at = _AT.fullmatch(str(error))
    what, path = (at["what"], at["path"]) if at else (str(error), "")
    types = _TYPES.fullmatch(what)
    got = types["got"] if types else ""
    steps = [step["name"] or step["index"] for step in _STEP.finditer(path)]
    if at and at["key"]:
        steps.append("key")
    line, found = place.line, ""
    for step in steps:
        node, label = _step(node, step, yaml_decoding.TAG + _TAGS.get(got, got))
        found += label
        line = line if node is None else above + node.start_mark.line + 1
    if types:
        wanted = types["wanted"]
        words = " or ".join(dict.fromkeys(_WORDS.get(word, word) for word in wanted.split(" | ")))
        quotes = "; put it in quotes" if wanted == "str" and got in _UNQUOTED else ""
        what = f"must be {words}, but is {_WORDS.get(got, got)}{quotes}"
    else:
        what = _of_value(what, node)
    return InputError(
        InputLocation(place.file, line), f"{found.lstrip('.') or 'the manifest'} {what}"
    )


def _of_value(what: str, node: yaml.Node | None) -> str:
    """Return the sentence for a value of the right type that it cannot have."""
    bounds, missing, listed = (form.fullmatch(what) for form in (_BOUNDS, _MISSING, _NOT_LISTED))
    if missing:
        return f"misses the field {missing['field']}"
    if listed:
        return f"cannot be {listed['value']}"
    if bounds is None:
        return what
    bound, unit = bounds["bound"], " long" if bounds["length"] else ""
    right = {
        ">=": f"at least {bound}{unit}",
        "<=": f"at most {bound}{unit}",
        "matching regex": f"text that matches {bound}",
    }
    found = f", but is {node.value!r}" if isinstance(node, yaml.ScalarNode) else ""
    return f"must be {right[bounds['kind']]}{found}"


def _step(node: yaml.Node | None, step: str, tag: str) -> tuple[yaml.Node | None, str]:
    if step.isdigit():
        inside = node.value[int(step)] if isinstance(node, yaml.SequenceNode) else None
        return inside, f"[{step}]"
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if step == key.value:
            return value, f".{step}"
        if (step == "..." and value.tag == tag) or (step == "key" and key.tag == tag):
            return value, f"[{key.value}]"
    return None, f"[{step}]" if step in {"...", "key"} else f".{step}"


def check_file(path: Path) -> None:
    """Check a YAML file that another module parses; one that cannot be read passes.

    Raises:
        InputError: it exceeds a limit.
    """
    try:
        with path.open("rb") as file:
            text = content(file, str(path)).decode(errors="replace")
    except OSError:
        return
    check_yaml(text, lambda line: InputLocation(str(path), line))


def check_object(text: str, location: Location) -> None:
    """Check a YAML document that is written back, by the limits of YAML and by its size.

    Raises:
        InputError: it exceeds a limit.
    """
    if len(text) > LARGEST_OBJECT:
        problem = f"is larger than {mib(LARGEST_OBJECT)}, the most that an API server accepts"
        raise InputError(location(1), f"the document {problem} of one object; split it")
    check_yaml(text, location)


def check_json(raw: bytes, location: InputLocation) -> None:
    """Check that JSON is not nested deeper than ``DEEPEST``; what is no JSON passes.

    Raises:
        InputError: it is.
    """
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return
    brackets = _STRING.sub(b"", raw).translate(None, _NO_BRACKET)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > DEEPEST:
        raise InputError(location, TOO_DEEP)


def check_yaml(text: str, location: Location) -> None:
    """Check how deep a text is nested and how much its aliases copy; what is no YAML passes.

    Raises:
        InputError: it exceeds a limit, or an alias stands inside of what it names; the error names
            the field.
    """
    try:
        yaml_decoding.check(text)
    except YamlLimitError as error:
        raise InputError(location(error.line), str(error)) from None


def load_yaml(text: str, location: Location) -> object:
    """Return the content of a text that is one document.

    Raises:
        InputError: the text is not YAML, or exceeds a limit.
    """
    check_yaml(text, location)
    try:
        return yaml.load(text, yaml_decoding.Loader)  # noqa: S506 - a safe loader
    except yaml_decoding.FAILURES as error:
        line, problem = yaml_decoding.explain(error, text)
        raise InputError(location(line), problem) from error

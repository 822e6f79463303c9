"""One manifest, YAML or JSON, with its line numbers."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec
import yaml

from adapters.cli.input.limits import check_json, check_yaml
from adapters.cli.input.source import InputError, InputLocation, Source
from adapters.cli.input.validation_error import validation_error
from adapters.wire.decode import yaml_decoding

T = TypeVar("T")


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
        ...

    def head(self) -> DocumentHead:
        """The fields that decide how to parse the rest."""
        ...

    def read(self, form: type[T]) -> T:
        """Convert the manifest to a typed value; fields that the type does not name are ignored.

        Raises:
            InputError: a field has another type than in Kubernetes, or is nested too deeply.
        """
        ...

    def items(self) -> "tuple[int, Iterator[Document]]":
        """How many items a list has, and these one after the other: a dump can have hundreds of MB.

        Raises:
            InputError: ``items`` is not a list.
        """
        ...


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
            raise validation_error(
                error, self.location, _node(self.text), self.location.line - 1
            ) from error
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
        return len(members), self._members(members, self.text.index(begins))

    def _members(self, members: list[msgspec.Raw], after: int) -> Iterator[Document]:
        line, seen = self.location.line, 0
        for member in members:
            text = bytes(member).decode()
            start = self.text.index(text, after)
            line += self.text.count("\n", seen, start)
            seen, after = start, start + len(text)
            yield _json(InputLocation(self.location.file, line), text)


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
    for start, end in _spans(source):
        line += text.count("\n", seen, start)
        seen = start
        yield _json(InputLocation(source.name, line), text[start:end])


def _spans(source: Source) -> list[tuple[int, int]]:
    text = source.text
    start = _after_space(text, 0)
    try:
        msgspec.json.decode(text[start:], type=DocumentHead)
    except (msgspec.DecodeError, RecursionError):
        return list(_several(source, start))
    return [(start, len(text))]


def _several(source: Source, start: int) -> Iterator[tuple[int, int]]:
    decoder, text = json.JSONDecoder(), source.text
    while start < len(text):
        try:
            _, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            problem = f"is not JSON: {error.msg[0].lower()}{error.msg[1:]}"
            raise InputError(InputLocation(source.name, error.lineno), problem) from error
        yield start, end
        start = _after_space(text, end)


_SPACE = re.compile(r"[ \t\r\n]*")


def _after_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return start if found is None else found.end()


def _node(text: str) -> yaml.Node | None:
    # JSON is YAML, but for tabs, which JSON has between values only.
    try:
        return yaml_decoding.Loader(text.replace("\t", " ")).get_single_node()
    except yaml_decoding.FAILURES:
        return None

"""A scheduler configuration inside of a text: found, parsed, and written back.

The text is the configuration itself, a ConfigMap that has it under a key, or a stream of documents
one of which is either. The other documents of the stream stay as they are, byte by byte.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ruamel.yaml.scalarstring import LiteralScalarString

from adapters.cli.configure.record import Record, split_record
from adapters.cli.input.source import InputError, InputLocation, Source
from adapters.cli.input.yaml_text import Body, Layout, dump, load, split


@dataclass(frozen=True, slots=True)
class Kind:
    """What one scheduler takes for its configuration.

    Attributes:
        name: for people, such as ``KubeSchedulerConfiguration``.
        mark: a word that the text of every configuration of this kind has.
        matches: whether a mapping is one.
        remedy: for a text that has none.
    """

    name: str
    mark: str
    matches: Callable[[Mapping[str, Any]], bool]
    remedy: str


@dataclass(frozen=True, slots=True)
class Holder:
    """The ConfigMap around a configuration, and the key that has it."""

    content: Body
    layout: Layout
    key: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """One scheduler configuration, and the text around it.

    Attributes:
        name: of the file and, in a ConfigMap, the key.
        body: the configuration; callers change it.
        record: what earlier runs changed; callers add to it.
        layout: of the body.
        before: the text in front of its document.
        after: the text behind its document.
        holder: the ConfigMap around it; None for a bare configuration.
    """

    name: str
    body: Body
    record: Record
    layout: Layout
    before: str = ""
    after: str = ""
    holder: Holder | None = None

    def render(self) -> str:
        """The whole text, with the configuration as it is now."""
        text = self.record.render() + dump(self.body, self.layout)
        if self.holder is not None:
            self.holder.content["data"][self.holder.key] = LiteralScalarString(text)
            text = dump(self.holder.content, self.holder.layout)
        return f"{self.before}{text}{self.after}"


def read(source: Source, kind: Kind, key: str | None = None) -> Configuration:
    """The one configuration of a kind in a text.

    Args:
        source: the text.
        kind: of the scheduler.
        key: of ``data``, for a ConfigMap with several configurations; None for its only one.

    Raises:
        InputError: the text has none or more than one, or is not YAML.
    """
    found, others = [], []
    for before, text, after in split(source.text):
        if text.strip():
            configurations, what = _search(source.name, text, before.count("\n"), kind, key)
            found += [replace(each, before=before, after=after) for each in configurations]
            others.append(what)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.name for each in found)
        remedy = "give a file with one of them, or name the ConfigMap's key with --key"
        raise InputError(source.name, f"has {len(found)} of {kind.name} ({names}); {remedy}")
    what = ", ".join(sorted(set(others))) or "nothing"
    raise InputError(source.name, f"has no {kind.name}, but {what}; {kind.remedy}")


def _search(
    name: str, text: str, line: int, kind: Kind, key: str | None
) -> tuple[list[Configuration], str]:
    """The configurations of one document, and what the document is, for people.

    A document without the mark is not parsed by the library that keeps comments: an installer's
    manifest is a megabyte, and that library needs a minute for it.
    """
    if kind.mark not in text:
        return [], _what(text)
    record, bare = split_record(text, name)
    content, layout = load(bare, lambda row: InputLocation(name, line + row))
    if not isinstance(content, Body):
        return [], "no mapping"
    if kind.matches(content):
        return [Configuration(name, content, record, layout)], kind.name
    data = content.get("data")
    if content.get("kind") != "ConfigMap" or not isinstance(data, dict):
        return [], _what(text)
    found = []
    for each, value in data.items():
        if isinstance(value, str) and kind.mark in value and key in {None, each}:
            found += _inside(f"{name}: data[{each}]", value, kind, Holder(content, layout, each))
    return found, _what(text)


def _inside(place: str, text: str, kind: Kind, holder: Holder) -> list[Configuration]:
    record, bare = split_record(text, place)
    body, layout = load(bare, lambda row: f"{place}, line {row}")
    if not isinstance(body, Body) or not kind.matches(body):
        return []
    return [Configuration(place, body, record, layout, holder=holder)]


def _what(text: str) -> str:
    """The kind of a document, as its first level says it."""
    found = re.search(
        r'^"?kind"?:[ \t]*"?([A-Za-z]+)|"kind":[ \t]*"([A-Za-z]+)"', text, re.MULTILINE
    )
    return f"a {found[1] or found[2]}" if found else "a document without a kind"

"""How large, how deep and how often repeated a foreign text may be, checked before it is parsed.

The parsers of YAML recurse in C without a bound, and copy what aliases and merge keys name as often
as a text says so: a text of a kilobyte can end the process, or take hours.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import yaml

from adapters.cli.input.source import InputError, InputLocation, content, mib

DEEPEST = 200
"""Levels; the deepest schema of a CustomResourceDefinition has a quarter of them."""

MOST_COPIES = 200_000
"""Values that the aliases of one text stand for, those of merge keys included: two seconds."""

LARGEST_OBJECT = 3 << 20
"""Bytes of a YAML document that is written back: an API server accepts no larger object.

Source: k8s.io/apiserver pkg/server/config.go, MaxRequestBodyBytes.
"""

_NAMED = 6
"""Parts of a path that an error names."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = [(each in b"[{") - (each in b"]}") for each in range(256)]

Location = Callable[[int], InputLocation | str]
"""The location of a line of a text, counted from 1."""


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
        raise InputError(location, _too_deep())


def check_yaml(text: str, location: Location) -> None:
    """Check how deep a text is nested and how much its aliases copy; what is no YAML passes.

    Raises:
        InputError: it exceeds a limit, or an alias stands inside of what it names; the error names
            the field.
    """
    try:
        _Walk(location).walk(text)
    except yaml.YAMLError:
        return


@dataclass(slots=True)
class _Value:
    """A value that has begun.

    Attributes:
        values: inside of it so far and itself, aliases expanded.
        height: levels of it so far, aliases expanded; 0 for a scalar.
        items: how many a list has had; None for a mapping or a scalar.
        name: of the last key of a mapping, or the number of the last item.
        is_key: whether the next scalar of a mapping is a key.
    """

    values: int = 1
    height: int = 0
    items: int | None = None
    name: str = ""
    is_key: bool = True

    def begin(self, text: str) -> None:
        """The next member begins."""
        if self.items is not None:
            self.name, self.items = f"[{self.items}]", self.items + 1
        elif self.is_key:
            self.name, self.is_key = text, False
        else:
            self.is_key = True

    def end(self, member: "_Value") -> None:
        """A member ends."""
        self.values += member.values
        self.height = max(self.height, member.height + 1)


_SCALAR = _Value()


class _Walk:
    """One pass over the events of a text, which build nothing of what they stand for."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._opened: list[_Value] = []
        self._anchors: dict[str, _Value] = {}
        self._copies = 0

    def walk(self, text: str) -> None:
        for event in _events(text):
            if isinstance(event, yaml.CollectionEndEvent):
                self._end(self._opened.pop())
            elif isinstance(event, yaml.NodeEvent):
                if self._opened:
                    self._opened[-1].begin(getattr(event, "value", "?"))
                self._begin(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()

    def _begin(self, event: yaml.NodeEvent) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._end(self._copied(event))
            return
        begun = _SCALAR
        if isinstance(event, yaml.CollectionStartEvent):
            begun = _Value(1, 1, 0 if isinstance(event, yaml.SequenceStartEvent) else None)
        if event.anchor is not None:
            self._anchors[event.anchor] = begun
        if begun is _SCALAR:
            self._end(begun)
        else:
            self._opened.append(begun)
            self._check_depth(0, event)

    def _end(self, value: _Value) -> None:
        if self._opened:
            self._opened[-1].end(value)

    def _copied(self, event: yaml.AliasEvent) -> _Value:
        named = self._anchors.get(event.anchor or "", _SCALAR)
        if any(each is named for each in self._opened):
            raise self._error(event, f"the alias *{event.anchor} stands inside of what it names")
        self._copies += named.values
        if self._copies > MOST_COPIES:
            problem = (
                f"the aliases up to here stand for more than {MOST_COPIES:,} values; write out what"
                " is needed, or remove what refers to copies again and again"
            )
            raise self._error(event, problem)
        self._check_depth(named.height, event)
        return named

    def _check_depth(self, height: int, event: yaml.Event) -> None:
        if len(self._opened) + height > DEEPEST:
            raise self._error(event, _too_deep())

    def _error(self, event: yaml.Event, problem: str) -> InputError:
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        parts = [each.name[:60] for each in self._opened[:_NAMED]]
        path = ".".join(parts).replace(".[", "[")
        return InputError(self._location(line), f"{path}: {problem}")


def _too_deep() -> str:
    return (
        f"is nested more than {DEEPEST} levels deep, and no field of Kubernetes needs as many:"
        " close the brackets, or remove what opens them again and again"
    )


def _events(text: str) -> "Iterator[yaml.Event]":
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    yield from yaml.parse(text, Loader=loader)

"""How deep and how often repeated a foreign YAML text may be, checked before it is parsed.

The parsers of YAML recurse in C without a bound, and copy what aliases and merge keys name as often
as a text says so: a text of a kilobyte can end the process, or take hours.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

DEEPEST = 200
"""Levels; the deepest schema of a CustomResourceDefinition has a quarter of them."""

MOST_COPIES = 200_000
"""Values that the aliases of one text stand for, those of merge keys included: two seconds."""

TOO_DEEP = (
    f"is nested more than {DEEPEST} levels deep, and no field of Kubernetes needs as many:"
    " close the brackets, or remove what opens them again and again"
)

_NAMED = 6
"""Parts of a path that an error names."""


class YamlLimitError(ValueError):
    """A text that exceeds a limit; the error names the field.

    Attributes:
        line: of the field, counted from 1.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


def check(text: str) -> None:
    """Check how deep a text is nested and how much its aliases copy; what is no YAML passes.

    Raises:
        YamlLimitError: it exceeds a limit, or an alias stands inside of what it names.
    """
    try:
        _Walk().walk(text)
    except (yaml.YAMLError, UnicodeError):
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

    def __init__(self) -> None:
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
            raise self._error(event, TOO_DEEP)

    def _error(self, event: yaml.Event, problem: str) -> YamlLimitError:
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        parts = [each.name[:60] for each in self._opened[:_NAMED]]
        path = ".".join(parts).replace(".[", "[")
        return YamlLimitError(line, f"{path}: {problem}")


def _events(text: str) -> "Iterator[yaml.Event]":
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    yield from yaml.parse(text, Loader=loader)

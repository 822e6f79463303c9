"""Decodes YAML that others wrote, as Kubernetes' own tools read it, within limits.

The parsers of YAML recurse in C without a bound, and copy what aliases and merge keys name as often
as a text says so: a text of a kilobyte can end the process, or take hours. So depth and repetition
are checked before a text is parsed.

YAML 1.1 without the parts that they omit too: no base 60 (``0000:17:00.0`` is text), no dates. A
duplicate key is an error, and so is a value that JSON does not have, such as a set.
Source: gopkg.in/yaml.v2 resolve.go, decode.go.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from adapters.wire.decode.decoder import UnreadableError

if TYPE_CHECKING:
    from yaml import SafeLoader as _SafeLoader
else:  # libyaml's where PyYAML was built with it: same results, six times as fast
    _SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

DEEPEST = 200
"""Levels; the deepest schema of a CustomResourceDefinition has a quarter of them."""

MOST_COPIES = 200_000
"""Values that the aliases of one text stand for, those of merge keys included: two seconds."""

TOO_DEEP = (
    f"is nested more than {DEEPEST} levels deep, and no field of Kubernetes needs as many:"
    " close the brackets, or remove what opens them again and again"
)

FAILURES = (yaml.YAMLError, RecursionError, ValueError, OverflowError)
"""Exceptions that parsing a text can raise: of a character that is none, the last two, where PyYAML
was built without libyaml."""

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
    except YamlLimitError:
        raise
    except FAILURES:
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
        """Count the next member."""
        if self.items is not None:
            self.name, self.items = f"[{self.items}]", self.items + 1
        elif self.is_key:
            self.name, self.is_key = text, False
        else:
            self.is_key = True

    def end(self, member: "_Value") -> None:
        """Leave a member."""
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
        for event in yaml.parse(text, Loader=_SafeLoader):
            if isinstance(event, yaml.CollectionEndEvent):
                self._end(self._opened.pop())
            elif isinstance(event, yaml.NodeEvent):
                if self._opened:
                    self._opened[-1].begin(getattr(event, "value", "?"))
                if isinstance(event, yaml.AliasEvent):
                    self._end(self._copied(event))
                    continue
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
            elif isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()

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
        path = ".".join([each.name[:60] for each in self._opened[:_NAMED]]).replace(".[", "[")
        return YamlLimitError(line, f"{path}: {problem}")


TAG = "tag:yaml.org,2002:"
"""The prefix of the tags of plain values."""

LARGEST = 1 << 18
"""Characters of a scheduler's settings file. Half a second of the event loop; the longest that a
chart writes has a tenth of them."""

_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
"""Whole numbers that Go reads."""

_KINDS = frozenset(("null", "bool", "int", "float", "str", "seq", "map", "merge"))

_FORMS = (
    (
        "bool",
        r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF",
        "ynYNtTfFoO",
    ),
    ("int", r"[-+]?(?:0b[01]+|0x[0-9a-fA-F]+|0[0-7]*|[1-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
)


class Loader(_SafeLoader):
    """Reads one text, document by document."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    yaml_constructors = {  # noqa: RUF012
        tag: constructor
        for tag, constructor in _SafeLoader.yaml_constructors.items()
        if tag is None or tag.removeprefix(TAG) in _KINDS
    }

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's
    ) -> dict[Hashable, object]:
        """Construct a mapping without duplicate keys."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is duplicated", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(
        self,
        node: yaml.Node,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's
    ) -> object:
        """Construct a value; one that does not match its tag is an error with a line too."""
        try:
            found = super().construct_object(node, deep)
            if isinstance(found, int) and not _LEAST <= found <= _MOST:
                raise ValueError("has more than 64 bits")  # noqa: TRY301
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            problem = f"{str(node.value)[:40]!r} is not of type {node.tag.removeprefix(TAG)}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error
        return found


for _name, _form, _first in _FORMS:
    Loader.add_implicit_resolver(
        TAG + _name, re.compile(rf"^(?:{_form})$"), [c.strip("\0") for c in _first]
    )


def decode(text: str) -> object:
    """Return the value of a text that is one document, of the kinds that JSON has.

    Raises:
        UnreadableError: the text is not YAML, or exceeds a limit; the error says where.
    """
    if len(text) > LARGEST:
        raise UnreadableError(f"is longer than {LARGEST} characters")
    try:
        check(text)
        return yaml.load(text, Loader)  # noqa: S506 - a safe loader
    except YamlLimitError as error:
        raise UnreadableError(f"line {error.line}: {error}") from None
    except FAILURES as error:
        line, problem = explain(error, text)
        raise UnreadableError(f"line {line}: {problem}") from None


def explain(error: Exception, text: str) -> tuple[int, str]:
    """Return the line of a failure in a text, counted from 1, and the problem."""
    match error:
        case yaml.MarkedYAMLError(problem_mark=mark) if mark is not None:
            (line, *_) = [*text.splitlines()[mark.line :], ""]
            if "\t" in line[: len(line) - len(line.lstrip())]:
                return mark.line + 1, "is not YAML: the line has a tab; indent with spaces"
            return mark.line + 1, f"is not YAML: {error.problem}"
        case yaml.reader.ReaderError():
            before = text.encode(errors="surrogatepass")[: error.position]
            return before.count(b"\n") + 1, f"is not YAML: {error.reason}"
        case RecursionError():
            return 1, "is nested too deeply"
        case _:
            return 1, f"is not YAML: {error}"

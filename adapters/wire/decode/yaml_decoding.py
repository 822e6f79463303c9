"""Decodes YAML that others wrote, as Kubernetes' own tools read it.

YAML 1.1 without the parts that they omit too: no base 60 (``0000:17:00.0`` is text), no dates. A
duplicate key is an error, and so is a value that JSON does not have, such as a set.
Source: gopkg.in/yaml.v2 resolve.go, decode.go.
"""

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING

import yaml

from adapters.wire.decode import yaml_limits
from adapters.wire.decode.decoder import UnreadableError

if TYPE_CHECKING:
    from yaml import SafeLoader as _SafeLoader
else:  # libyaml's where PyYAML was built with it: same results, six times as fast
    _SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

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
    """The value of a text that is one document, of the kinds that JSON has.

    Raises:
        UnreadableError: the text is not YAML, or exceeds a limit; the error says where.
    """
    if len(text) > LARGEST:
        raise UnreadableError(f"is longer than {LARGEST} characters")
    try:
        yaml_limits.check(text)
        return yaml.load(text, Loader)  # noqa: S506 - a safe loader
    except yaml_limits.YamlLimitError as error:
        raise UnreadableError(f"line {error.line}: {error}") from None
    except FAILURES as error:
        line, problem = explain(error, text)
        raise UnreadableError(f"line {line}: {problem}") from None


FAILURES = (yaml.YAMLError, RecursionError, UnicodeError)
"""Exceptions that parsing a text can raise."""


def explain(error: Exception, text: str) -> tuple[int, str]:
    """The line of a failure in a text, counted from 1, and the problem."""
    match error:
        case yaml.MarkedYAMLError(problem_mark=mark) if mark is not None:
            if _indented_by_tab(text.splitlines()[mark.line : mark.line + 1]):
                return mark.line + 1, "is not YAML: the line has a tab; indent with spaces"
            return mark.line + 1, f"is not YAML: {error.problem}"
        case yaml.reader.ReaderError():
            line = text.encode(errors="surrogatepass")[: error.position].count(b"\n") + 1
            return line, f"is not YAML: {error.reason}"
        case RecursionError():
            return 1, "is nested too deeply"
        case _:
            return 1, f"is not YAML: {error}"


def _indented_by_tab(lines: list[str]) -> bool:
    return any("\t" in line[: len(line) - len(line.lstrip())] for line in lines)

"""How large, how deep and how often repeated a foreign text may be, checked before it is parsed."""

import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from adapters.cli.input.source import InputError, InputLocation, content, mib
from adapters.wire.decode import yaml_limits
from adapters.wire.decode.yaml_limits import DEEPEST, TOO_DEEP, YamlLimitError

LARGEST_OBJECT = 3 << 20
"""Bytes of a YAML document that is written back: an API server accepts no larger object.

Source: k8s.io/apiserver pkg/server/config.go, MaxRequestBodyBytes.
"""

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
        raise InputError(location, TOO_DEEP)


def check_yaml(text: str, location: Location) -> None:
    """Check how deep a text is nested and how much its aliases copy; what is no YAML passes.

    Raises:
        InputError: it exceeds a limit, or an alias stands inside of what it names; the error names
            the field.
    """
    try:
        yaml_limits.check(text)
    except YamlLimitError as error:
        raise InputError(location(error.line), str(error)) from None

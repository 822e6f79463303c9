"""What people use of kubectl's ``-o jsonpath`` and ``custom-columns``: paths, ranges and texts.

Source: kubernetes client-go util/jsonpath/parser.go, kubectl pkg/cmd/get/customcolumn.go. An index
that a list does not have is no value; kubectl fails there.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import orjson

from adapters.cli.input.source import InputError
from adapters.cli.output.rows import Column, Row, table
from adapters.wire.visible import escaped, visible

Path = Callable[[object], list[object]]
"""Returns what a value has at a path."""

Part = str | Path | tuple[Path, "list[Part]"]
"""A piece of a template: a text, a path, or a range with what is written for each value."""

_PART = re.compile(r"""\{((?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*)\}|([^{]+)|.""")
_STEP = re.compile(
    r"""\.((?:[^\s.\[\](){}'"*\\]|\\.)+)|(\.\*|\[\*\])|\['([^']+)'\]|\[(-?\d{1,9}|-?\d{0,9}:-?\d{0,9})\]"""
)
_QUOTED = re.compile(r"""(["'])((?:(?!\1)[^\\]|\\.)*)\1""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_RANGES = 20
"""Ranges in each other, at most."""

_CONTROL = {"n": "\n", "t": "\t", "r": "\r"}


def columns(spec: str) -> list[tuple[str, Path]]:
    """Return the headers and paths of ``custom-columns``.

    Raises:
        InputError: one of them is not valid.
    """
    found: list[tuple[str, Path]] = []
    for each in spec.split(","):
        header, _, text = each.partition(":")
        text = text.removeprefix("{").removesuffix("}")
        if not header or not text:
            raise InputError("-o custom-columns", f"{each!r}: must be HEADER:.FIELD")
        found.append((header, _path(text if text[0] in ".[" else f".{text}")))
    return found


def column_table(
    columns: Sequence[tuple[str, Path]], items: Sequence[object], *, headers: bool
) -> str:
    """Return a row for each item; several values of a cell stand between commas."""

    def cell(values: Sequence[object]) -> str:
        return ",".join(map(_printed, values)) or "<none>"

    rows = [Row("", tuple(cell(path(each)) for _, path in columns), {}) for each in items]
    return table([Column(header) for header, _ in columns], rows, headers=headers)


def template(text: str) -> list[Part]:
    """Return the parts of a template.

    Raises:
        InputError: it is empty or not valid.
    """
    if not text:
        raise InputError("-o jsonpath", "is empty; must be such as {.items[*].name}")
    found: list[Part] = []
    ranges = [found]
    for token in _PART.finditer(text):
        expression = (token[1] or "").strip()
        right = "{...}" if token[0] == "{" else "in fewer ranges" if len(ranges) > _RANGES else ""
        if expression == "end" and len(ranges) == 1:
            right = "after {range ...}"
        if right:
            raise InputError("-o jsonpath", f"{text[token.start() :]!r}: must be {right}")
        if expression == "end":
            ranges.pop()
        elif token[1] is None:
            ranges[-1].append(token[0])
        elif quoted := _QUOTED.fullmatch(expression):
            plain = _ESCAPE.sub(lambda one: _CONTROL.get(one[1], one[1]), quoted[2])
            ranges[-1].append(plain)
        elif expression.startswith("range "):
            inner: list[Part] = []
            ranges[-1].append((_path(expression[6:].strip()), inner))
            ranges.append(inner)
        else:
            ranges[-1].append(_path(expression))
    return found


def written(parts: Sequence[Part], value: object) -> str:
    """Return what a template says of a value; several values of a path stand between blanks."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, tuple):
            texts += (written(part[1], each) for each in part[0](value))
        else:
            texts.append(" ".join(map(_text, part(value))))
    return "".join(texts)


def _path(text: str) -> Path:
    steps: list[str | slice] = []
    at = int(text[:1] in ("@", "$") or text == ".")
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            right = ".FIELD, ['FIELD'], [*], [NUMBER] or [FROM:TO]"
            raise InputError("-o", f"{text!r}: {text[at:]!r}: must be {right}")
        field, every, quoted, index = match.groups()
        ends = [int(each) if each else None for each in (index or "").split(":")]
        only = slice(ends[0], (ends[0] or 0) + 1 or None) if len(ends) == 1 else slice(*ends)
        steps.append(only if index else "*" if every else quoted or _ESCAPE.sub(r"\1", field))
        at = match.end()

    def path(value: object) -> list[object]:
        found = [value]
        for step in steps:
            found = [below for each in found for below in _below(each, step)]
        return found

    return path


def _below(value: object, step: str | slice) -> Sequence[object]:
    """Return what a value has at one step of a path."""
    if isinstance(value, list | tuple):
        return value if step == "*" else value[step] if isinstance(step, slice) else ()
    if not isinstance(value, Mapping):
        return ()
    if step == "*":
        return [*value.values()]
    return [value[step]] if step in value else []


def _text(value: object) -> str:
    if isinstance(value, str):
        return visible(value)
    return escaped(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())


def _printed(value: object) -> str:
    """Return a value as ``fmt`` of Go prints it."""
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{_text(k)}:{_printed(v)}' for k, v in sorted(value.items()))}]"
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(_printed, value))}]"
    return "<nil>" if value is None else _text(value)

"""Values and rows of them: aligned columns as kubectl prints them, JSON, YAML, CSV or names.

Lines have no blanks at their end, and without headers none belongs to another, so that other
programs can read them; no character is written that is not printable.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import orjson
import yaml

from adapters.cli.output.page import TextColumn, TextPage, span
from adapters.wire.visible import escaped, visible, visible_cell

GAP = 3
"""Blanks between two columns."""

NONE = "-"
"""Shown for a value that there is none of."""


class RowFormat(Enum):
    """The format of rows."""

    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        header: in upper case, with the unit where the cells have none, as kubectl top writes it.
        wide: printed only in wide tables.
        right: numbers, aligned to the right.
    """

    header: str
    wide: bool = False
    right: bool = False


def columns(*headers: str, wide: bool = False, right: bool = False) -> tuple[Column, ...]:
    """Return columns that are shown and aligned alike."""
    return tuple(Column(header, wide, right) for header in headers)


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        name: for ``-o name``, such as ``node/n1``.
        cells: one for each column, wide ones included, as a person reads them.
        fields: for JSON, YAML and CSV, in plain units.
        lines: the last cell of a table with headers, where it has several lines.
    """

    name: str
    cells: tuple[str, ...]
    fields: Mapping[str, object]
    lines: tuple[str, ...] = ()


def table(
    columns: Sequence[Column], rows: Sequence[Row], *, wide: bool = False, headers: bool = True
) -> str:
    """Aligned columns, with a newline at the end; empty without rows and headers."""
    shown = [number for number, column in enumerate(columns) if wide or not column.wide]
    lines = [[columns[number].header for number in shown]] if headers else []
    for row in rows:
        cells = [row.cells[number] or NONE for number in shown]
        texts = row.lines if headers and row.lines else cells[-1:]
        lines += [
            [*cells[:-1], texts[0]],
            *([""] * (len(cells) - 1) + [each] for each in texts[1:]),
        ]
    if not lines:
        return ""
    written: list[str] = []
    sides = [TextColumn(right=columns[number].right) for number in shown]
    TextPage(written.append).table(sides, [[*map(span, line)] for line in lines], GAP)
    return "".join(written)


def formatted(
    kind: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    output: RowFormat | None,
    *,
    headers: bool = True,
) -> str:
    """Return the rows in a format; None is the table.

    The object of JSON and YAML has a kind; table and CSV may begin with a line of headers.
    """
    match output:
        case RowFormat.JSON:
            return as_json(listed(kind, rows))
        case RowFormat.YAML:
            return as_yaml(listed(kind, rows))
        case RowFormat.CSV:
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            if headers and rows:
                writer.writerow(rows[0].fields)
            for row in rows:
                writer.writerow([_plain(value) for value in row.fields.values()])
            return text.getvalue()
        case RowFormat.NAME:
            return "".join(f"{visible(row.name)}\n" for row in rows)
        case RowFormat.WIDE | None:
            return table(columns, rows, wide=output is not None, headers=headers)


def listed(kind: str, rows: Sequence[Row]) -> dict[str, object]:
    """Return the object of some rows."""
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": kind,
        "items": [dict(row.fields) for row in rows],
    }


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        value = " ".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    if isinstance(value, str):
        return visible_cell(value)
    return "" if value is None else value


def as_json(plain: object) -> str:
    """Return indented JSON with a newline at the end."""
    return f"{encoded(plain).decode()}\n"


def encoded(plain: object) -> bytes:
    """Return indented JSON."""
    found = orjson.dumps(plain, option=orjson.OPT_INDENT_2)
    if found.isascii() and b"\x7f" not in found:
        return found
    return escaped(found.decode()).encode()


def as_yaml(plain: object) -> str:
    """Return YAML, in the order of the keys; long texts stay on one line."""
    text = _dumped(plain, as_it_is=True)
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return _dumped(plain, as_it_is=False)


def _dumped(plain: object, *, as_it_is: bool) -> str:
    """Return YAML, in which each character beyond ASCII is an escape or as it is."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        plain, Dumper=dumper, sort_keys=False, allow_unicode=as_it_is, width=1 << 20
    )
    return text

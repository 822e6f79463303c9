"""A list of rows with its columns, and how it is sorted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from adapters.cli.input.source import InputError
from adapters.cli.output.rows import Column, Row


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows.

    Attributes:
        kind: of the JSON or YAML object.
        columns: of the table.
        rows: in order.
        keys: fields by which the rows can be sorted; those of every row.
    """

    kind: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    keys: tuple[str, ...]


def sort(listing: Listing, key: str | None) -> Listing:
    """The rows by a field: numbers descending, texts ascending; unsorted for None.

    Raises:
        InputError: there is no such field.
    """
    if key is None:
        return listing
    if key not in listing.keys:
        raise InputError("--sort", f"{key!r} is no field; fields: {', '.join(listing.keys)}")
    return replace(listing, rows=tuple(sorted(listing.rows, key=_order(key))))


def in_namespaces(rows: Sequence[Row], namespace: str | None) -> tuple[Row, ...]:
    """The rows of one namespace; all for None."""
    return tuple(row for row in rows if namespace in (None, row.fields["namespace"]))


def _order(key: str) -> Callable[[Row], tuple[int, int, str]]:
    def order(row: Row) -> tuple[int, int, str]:
        value = row.fields[key]
        if isinstance(value, int):
            return 0, -value, ""
        return 1, 0, str(value or "")

    return order

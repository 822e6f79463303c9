"""A list of rows with its columns, and how it is sorted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from adapters.cli.input.source import InputError
from adapters.cli.output.rows import Column, Row, RowFormat, as_json, as_yaml, formatted, listed
from adapters.cli.view import jsonpath


@dataclass(frozen=True, slots=True)
class FurtherRows:
    """Rows of another shape, which follow those of a list.

    Attributes:
        title: above their table.
        field: of the JSON or YAML object, beside ``items``.
        columns: of the table.
        rows: in order.
        keys: fields by which the rows can be sorted.
    """

    title: str
    field: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows.

    Attributes:
        kind: of the JSON or YAML object.
        columns: of the table.
        rows: in order.
        keys: fields by which the rows can be sorted; those of every row.
        further: rows of what is in no ledger; None where this list has none of them.
        notes: for the user, as sentences.
        elsewhere: rows that were left out, because they are of other namespaces.
    """

    kind: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    keys: tuple[str, ...]
    further: FurtherRows | None = None
    notes: tuple[str, ...] = ()
    elsewhere: int = 0

    @property
    def empty(self) -> bool:
        """Whether it has no row."""
        return not self.rows and not (self.further and self.further.rows)

    @property
    def sort_keys(self) -> tuple[str, ...]:
        """Fields by which its rows, or its further rows, can be sorted."""
        further = self.further
        more = further.keys if further is not None and further.rows else ()
        return tuple(dict.fromkeys((*self.keys, *more)))

    def with_rows(self, change: Callable[[tuple[Row, ...]], tuple[Row, ...]]) -> "Listing":
        """Return the list with other rows, and other further rows."""
        more = self.further
        further = None if more is None else replace(more, rows=change(more.rows))
        return replace(self, rows=change(self.rows), further=further)


def sort(listing: Listing, key: str | None) -> Listing:
    """Return the rows by a field: numbers descending, texts ascending; unsorted for None.

    Raises:
        InputError: there is no such field.
    """
    if key is None:
        return listing
    further = listing.further
    if key not in listing.sort_keys and (further is None or key not in further.keys):
        raise InputError("--sort", f"{key!r} is no field; fields: {', '.join(listing.sort_keys)}")
    return listing.with_rows(lambda rows: tuple(sorted(rows, key=_order(key))))


def writer(output: str | None, *, headers: bool = True) -> Callable[[Listing], str]:
    """Return what writes a list in a format, as ``formatted_listing`` does or as kubectl.

    Raises:
        InputError: there is no such format, or its expression is not valid.
    """
    kind, _, text = (output or "").partition("=")
    if kind == "jsonpath":
        parts = jsonpath.template(text)
        return lambda listing: jsonpath.written(parts, _plain(listing))
    if kind == "custom-columns":
        columns = jsonpath.columns(text)
        return lambda listing: jsonpath.column_table(
            columns,
            [row.fields for each in (listing, listing.further) if each for row in each.rows],
            headers=headers,
        )
    try:
        form = None if output is None else RowFormat(output)
    except ValueError:
        known = ", ".join(each.value for each in RowFormat)
        right = f"must be {known}, jsonpath=... or custom-columns=..."
        raise InputError("-o", f"{output!r}: {right}") from None
    return lambda listing: formatted_listing(listing, form, headers=headers)


def _plain(listing: Listing) -> dict[str, object]:
    plain, further = listed(listing.kind, listing.rows), listing.further
    if further is not None:
        plain[further.field] = [dict(row.fields) for row in further.rows]
    return plain


def formatted_listing(listing: Listing, output: RowFormat | None, *, headers: bool = True) -> str:
    """Return the list in a format, its further rows last; None is the table.

    With ``headers`` tables have titles, and tables and CSV lines of headers.
    """
    further = listing.further
    if output in (RowFormat.JSON, RowFormat.YAML):
        plain = _plain(listing)
        return as_json(plain) if output is RowFormat.JSON else as_yaml(plain)
    texts: list[str] = []
    if listing.rows or listing.empty:
        rows = listing.rows
        texts.append(formatted(listing.kind, listing.columns, rows, output, headers=headers))
    if further is not None and further.rows:
        titled = headers and output in (RowFormat.WIDE, None)
        text = formatted(listing.kind, further.columns, further.rows, output, headers=headers)
        texts.append(f"{further.title}\n{text}" if titled else text)
    return ("\n" if headers and output is not RowFormat.NAME else "").join(texts)


def elsewhere(what: str, namespace: str | None, others: int) -> str:
    """Return a sentence for a list without a row, such as ``no pods wait``, of a namespace or all.

    ``others`` counts the rows that the list has for all other namespaces.
    """
    if namespace is None:
        return what
    return f"{what} in namespace {namespace}{f'; {others} in others, see -A' if others else ''}"


def in_namespaces(rows: Sequence[Row], namespace: str | None) -> tuple[Row, ...]:
    """Return the rows of one namespace; all for None."""
    return tuple(row for row in rows if namespace in (None, row.fields["namespace"]))


def of_namespace(listing: Listing, namespace: str | None) -> Listing:
    """Return the list with the rows of one namespace only; with all for None."""
    return listing.with_rows(lambda rows: in_namespaces(rows, namespace))


def _order(key: str) -> Callable[[Row], tuple[int, int, str]]:
    def order(row: Row) -> tuple[int, int, str]:
        value = row.fields.get(key)
        if isinstance(value, int):
            return 0, -value, ""
        return 1, 0, str(value or "")

    return order

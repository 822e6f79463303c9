"""Labels and ages of what a list shows: kubectl's ``-l`` and its column AGE."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from adapters.answer.node_rules import labelled
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.input.source import InputError
from adapters.cli.output.rows import Column, Row
from adapters.cli.view.listing import Listing
from adapters.wire.kube import Pod, SelectorRequirement, labels

_KEY = r"[\w./-]+"
_TERM = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_KEY})|(?P<key>{_KEY})\s*(?:(?P<sign>==?|!=)\s*(?P<value>[\w.-]*)"
    r"|(?<=\s)(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,\s*(?=\S)|$)"
)
_WORDS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", None: "Exists"}

Selector = tuple[SelectorRequirement, ...]
"""Conditions of labels, which hold together."""


def parse_selector(text: str) -> Selector:
    """Return the conditions of a selector such as ``app=web,tier in (a,b),!old``.

    Source: k8s.io/apimachinery pkg/labels/selector.go, Parse; without ``<`` and ``>``.

    Raises:
        InputError: it is none.
    """
    found: list[SelectorRequirement] = []
    at = 0
    while at < len(text) or not found:
        term = _TERM.match(text, at)
        if term is None:
            problem = "must be labels such as app=web,tier!=db,env in (a,b),!old"
            raise InputError("-l", f"{text!r}: {problem}")
        at = term.end()
        if term["absent"]:
            found.append(SelectorRequirement(term["absent"], "DoesNotExist"))
            continue
        one = (term["value"],) if term["sign"] else None
        values = one or (tuple(map(str.strip, (term["values"] or "").split(","))))
        operator = _WORDS[term["sign"] or term["word"]]
        found.append(
            SelectorRequirement(term["key"], operator, None if operator == "Exists" else values)
        )
    return tuple(found)


def selects(selector: Selector, has: Mapping[str, str]) -> bool:
    """Return whether labels meet all conditions."""
    return all(labelled(each, has) for each in selector)


def selected(listing: Listing, selector: Selector, fleet: Fleet) -> Listing:
    """Return the rows of pods with some labels; of nodes and cards, those of such nodes."""

    def kept(rows: tuple[Row, ...]) -> tuple[Row, ...]:
        return tuple(row for row in rows if selects(selector, _labels(row, fleet)))

    return listing.with_rows(kept)


def _labels(row: Row, fleet: Fleet) -> Mapping[str, str]:
    if "pod" not in row.fields:
        return labels(fleet.nodes[str(row.fields["node"])].kube)
    pod = _pod(row, fleet.pods)
    return {} if pod is None else pod.metadata.labels or {}


def _pod(row: Row, pods: Mapping[str, Pod]) -> Pod | None:
    """Return the pod of a row; None for a claim, or where the input has it no more."""
    return pods.get(f"{row.fields['namespace']}/{row.fields['pod']}")


def with_ages(listing: Listing, pods: Mapping[str, Pod]) -> Listing:
    """Return a list of pods with the column AGE, and ``created``; other lists as they are."""
    if "pod" not in listing.keys:
        return listing
    columns, rows = _aged(listing.columns, listing.rows, pods)
    further = listing.further
    if further is not None:
        more, others = _aged(further.columns, further.rows, pods)
        further = replace(further, columns=more, rows=others, keys=(*further.keys, "created"))
    keys = (*listing.keys, "created")
    return replace(listing, columns=columns, rows=rows, keys=keys, further=further)


def _aged(
    columns: tuple[Column, ...], rows: tuple[Row, ...], pods: Mapping[str, Pod]
) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
    # Last, as kubectl has it, but before what can be long.
    headers = [column.header for column in columns]
    at = headers.index("REQUEST") if "REQUEST" in headers else len(headers)
    now = datetime.now(UTC)
    aged: list[Row] = []
    for row in rows:
        pod = _pod(row, pods)
        created = None if pod is None else pod.metadata.creation_timestamp
        cells = (*row.cells[:at], age(created, now), *row.cells[at:])
        aged.append(replace(row, cells=cells, fields={**row.fields, "created": created}))
    return (*columns[:at], Column("AGE", right=True), *columns[at:]), tuple(aged)


def age(created: str | None, now: datetime) -> str:
    """Return how long ago a time was as kubectl prints it; empty where it is not known.

    Source: k8s.io/apimachinery pkg/util/duration/duration.go, HumanDuration.
    """
    try:
        since = now - datetime.fromisoformat(created or "")
    except (ValueError, TypeError):  # no time, or one without a zone
        return ""
    seconds = max(int(since.total_seconds()), 0)
    minutes, hours = seconds // 60, seconds // 3600
    days, years = hours // 24, hours // 24 // 365
    for amount, below, unit, rest, smaller in (
        (seconds, 120, "s", 0, ""),
        (minutes, 10, "m", seconds % 60, "s"),
        (minutes, 180, "m", 0, ""),
        (hours, 8, "h", minutes % 60, "m"),
        (hours, 48, "h", 0, ""),
        (days, 8, "d", hours % 24, "h"),
        (days, 730, "d", 0, ""),
        (years, 8, "y", days % 365, "d"),
    ):
        if amount < below:
            return f"{amount}{unit}{f'{rest}{smaller}' if rest else ''}"
    return f"{years}y"

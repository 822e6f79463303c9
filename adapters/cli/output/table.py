"""The report as a table: the pods, why some were not placed, and a bar for each card."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from adapters.cli.output.bar import color
from adapters.cli.output.card_table import write_cards
from adapters.cli.output.names import named, short
from adapters.cli.output.page import Row, Spans, TextColumn, TextPage, lines, span
from adapters.cli.output.report import (
    EVERYTHING,
    NOT_PLACED,
    CardLine,
    PodLine,
    PodResult,
    ReportPart,
    ShareLine,
)
from core.hardware.quantity import format_bytes

MAX_REASONS = 8
"""Different reasons that are printed, at most."""

_MARKS = {
    PodResult.PLACED: ("✓", "+", "green"),
    PodResult.REJECTED: ("✗", "x", "red"),
    PodResult.INVALID: ("✗", "x", "red"),
    PodResult.BOUND: ("●", "o", "cyan"),
    PodResult.SKIPPED: ("-", "-", "grey50"),
}
"""A result's symbol with Unicode, without it, and its color."""

_COLUMNS = (TextColumn(),) * 5


class Reported(Protocol):
    """A run, whose parts are read once, in this order."""

    complete: bool

    def pods(self) -> Iterator[PodLine]:
        """The pods in order of the input."""
        ...

    def cards(self) -> Iterator[CardLine]:
        """The cards by node."""
        ...

    def warnings(self) -> Sequence[str]:
        """Warnings for the user, as sentences."""
        ...


def write_report(
    run: Reported, page: TextPage, *, with_warnings: bool = True, part: ReportPart = EVERYTHING
) -> None:
    """Write a part of the report; of a pod no more is kept than its row and its reasons.

    The sum at the end counts all pods.
    """
    rows = _PodRows(ascii_only=page.ascii_only)
    counts: Counter[PodResult] = Counter()
    not_placed: list[tuple[str, list[str]]] = []
    for pod in run.pods():
        counts[pod.result] += 1
        if not part.shows(pod):
            continue
        rows.add(pod)
        if pod.result in NOT_PLACED:
            not_placed.append((short(pod.full_name), _reasons(pod)))
    if rows:
        page.table(_COLUMNS, rows)
    if not_placed:
        _title("Not placed", page)
    for name, reasons in not_placed:
        page.line(span(name, "red"), indent=2)
        for text in reasons:
            page.line(span(text), indent=4)
    if part.cards:
        page.part()
        write_cards(run.cards(), page)
    warnings = run.warnings() if with_warnings else ()
    if warnings:
        _title("Warnings", page)
    for text in warnings:
        page.line(span(text), indent=2)
    page.part()
    page.line(_sum(counts, complete=run.complete))


def _title(text: str, page: TextPage) -> None:
    page.part()
    page.line(span(text, "bold"))


class _PodRows(Iterable[Row]):
    """The rows of the pods, which are made of their texts each time that they are read."""

    def __init__(self, *, ascii_only: bool) -> None:
        self._ascii_only = ascii_only
        self._texts: list[tuple[PodResult, str, str | None, str | None, tuple[str, ...]]] = []

    def add(self, pod: PodLine) -> None:
        """Append a row."""
        name = short(pod.full_name)
        self._texts.append((pod.result, name, pod.dialect, pod.node, _shares(pod)))

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[Row]:
        """A line of headers, then the pods."""
        yield tuple(span(text, "bold") for text in ("", "Pod", "Dialect", "Node", "Cards"))
        for result, name, dialect, node, shares in self._texts:
            mark, plain, style = _MARKS[result]
            yield (
                span(plain if self._ascii_only else mark, style),
                span(name),
                span(dialect or "-", color(dialect) if dialect else "grey50"),
                span(node or "-"),
                lines(shares, _shares_style(result)),
            )


def _shares(pod: PodLine) -> tuple[str, ...]:
    if pod.result is PodResult.REJECTED:
        return ("does not fit",)
    if pod.result is PodResult.INVALID:
        return ("is not valid",)
    several = len(pod.containers) > 1
    found = [
        f"{f'{name}: ' if several else ''}{_share(share)}"
        for name, shares in pod.containers.items()
        for share in shares
    ]
    return tuple(found or [pod.summary])


def _shares_style(result: PodResult) -> str:
    if result in NOT_PLACED:
        return "red"
    return "grey50" if result is PodResult.SKIPPED else ""


def _share(share: ShareLine) -> str:
    card = "?" if share.index is None else f"#{share.index}"
    part = f" {share.slice.profile}@{share.slice.start}" if share.slice else ""
    return f"{card + part:3}{format_bytes(share.memory):>10}{share.compute:>5}%"


def _reasons(pod: PodLine) -> list[str]:
    if not pod.groups:
        return [pod.summary]
    lines = [
        f"{named(each.examples, each.nodes)}: {each.text}" for each in pod.groups[:MAX_REASONS]
    ]
    if len(pod.groups) > MAX_REASONS:
        lines.append(f"and {len(pod.groups) - MAX_REASONS} more reasons; -o json has all")
    return lines


def _sum(counts: Counter[PodResult], *, complete: bool) -> Spans:
    requesting = counts[PodResult.PLACED] + counts[PodResult.REJECTED] + counts[PodResult.INVALID]
    parts = [f"{counts[PodResult.PLACED]} of {requesting} pods placed"]
    if counts[PodResult.BOUND]:
        parts.append(f"{counts[PodResult.BOUND]} already bound")
    if counts[PodResult.SKIPPED]:
        parts.append(f"{counts[PodResult.SKIPPED]} skipped")
    style = "green" if complete else "yellow"
    return (", ".join(parts), style), ("; -o yaml shows their annotations", "grey50")

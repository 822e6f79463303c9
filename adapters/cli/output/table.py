"""The report as a table: the pods, why some were not placed, and a bar for each card.

A bar shows how full a card is, with one stretch for each dialect that has a part of it allocated.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from adapters.cli.output.page import Row, Spans, TextColumn, TextPage, lines, span
from adapters.cli.output.report import (
    EVERYTHING,
    NOT_PLACED,
    CardLine,
    PodLine,
    PodResult,
    ReportPart,
    WorkloadLine,
    named,
    short,
)
from adapters.dialects import registry
from adapters.dialects.info import DialectStyle
from core.hardware.quantity import GIB, format_bytes

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

_SHARES_STYLES = {**dict.fromkeys(NOT_PLACED, "red"), PodResult.SKIPPED: "grey50"}
"""By result, the style of what is said of a pod's cards; plain for others."""

_COLUMNS = (TextColumn(),) * 5

WIDE = 120
"""Columns of a terminal that has room for the card's uuid beside its bar."""

WIDEST_BAR = 40
"""Columns of a bar, at most."""

_INDEX = TextColumn(right=True, least=4)
_MEMORY = TextColumn(right=True, least=16, folds=False)
_COMPUTE = TextColumn(right=True, least=12, folds=False)
_UUID = TextColumn(folds=False)

UNPARSED = "red"
"""The color of allocations that could not be parsed."""

_UNREAD = DialectStyle(UNPARSED, UNPARSED, "■", "#")


def write_report(
    pods: Iterable[PodLine],
    cards: Iterable[CardLine],
    warnings: Iterable[str],
    page: TextPage,
    *,
    part: ReportPart = EVERYTHING,
    workloads: Iterable[WorkloadLine] = (),
    over_allocated: bool = False,
) -> None:
    """Write a part of the report; of a pod no more is kept than its row and its reasons.

    The pods are read first, then the cards, by node, the warnings, and the workloads. The sum at
    the end counts all pods; ``over_allocated`` says whether bound ones have more of a card than
    there is.
    """
    rows = _PodRows(ascii_only=page.ascii_only)
    counts: Counter[PodResult] = Counter()
    not_placed: list[tuple[str, list[str]]] = []
    for pod in pods:
        counts[pod.result] += 1
        if not part.shows(pod):
            continue
        rows.add(pod)
        if pod.result in NOT_PLACED:
            shown = pod.groups[:MAX_REASONS]
            reasons = [f"{named(each.examples, each.nodes)}: {each.text}" for each in shown]
            if len(pod.groups) > MAX_REASONS:
                more = len(pod.groups) - MAX_REASONS
                reasons.append(f"and {more} more reasons; -o json has all")
            not_placed.append((short(str(pod.pod)), reasons or [pod.summary]))
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
        write_cards(cards, page)
    sentences = [*warnings]
    if sentences:
        _title("Warnings", page)
    for text in sentences:
        page.line(span(text), indent=2)
    page.part()
    for each in part.workloads(workloads):
        style = "green" if each.fit == each.asked else "yellow"
        page.line(span(each.text(), style))
    placed, refused = counts[PodResult.PLACED], sum(counts[each] for each in NOT_PLACED)
    parts = [f"{placed} of {placed + refused} pods placed"]
    if counts[PodResult.BOUND]:
        parts.append(f"{counts[PodResult.BOUND]} already bound")
    if counts[PodResult.SKIPPED]:
        parts.append(f"{counts[PodResult.SKIPPED]} skipped")
    style = "yellow" if over_allocated or refused else "green"
    page.line(((", ".join(parts), style), ("; -o yaml shows their annotations", "grey50")))


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
        name = short(str(pod.pod))
        self._texts.append((pod.result, name, pod.dialect, pod.node, _shares(pod)))

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[Row]:
        """Yield a line of headers, then the pods."""
        yield tuple(span(text, "bold") for text in ("", "Pod", "Dialect", "Node", "Cards"))
        for result, name, dialect, node, shares in self._texts:
            mark, plain, style = _MARKS[result]
            yield (
                span(plain if self._ascii_only else mark, style),
                span(name),
                span(dialect or "-", color(dialect) if dialect else "grey50"),
                span(node or "-"),
                lines(shares, _SHARES_STYLES.get(result, "")),
            )


def _shares(pod: PodLine) -> tuple[str, ...]:
    if pod.result is PodResult.REJECTED:
        return ("does not fit",)
    if pod.result is PodResult.INVALID:
        return ("is not valid",)
    several = len(pod.containers) > 1
    texts: list[str] = []
    for name, shares in pod.containers.items():
        for share in shares:
            card = "?" if share.index is None else f"#{share.index}"
            part = f" {share.slice.profile}@{share.slice.start}" if share.slice else ""
            compute = f"{share.compute}%" if share.compute else "-"
            text = f"{card + part:3}{format_bytes(share.memory):>10}{compute:>6}"
            texts.append(f"{name}: {text}" if several else text)
    return tuple(texts or [pod.summary])


def write_cards(lines: Iterable[CardLine], page: TextPage) -> None:
    """Write the nodes with a card in use, the names of the others, and the meaning of the bars.

    The lines are by node; nothing is written where there is none.
    """
    unused: dict[str, list[str]] = {"Idle": [], "Unusable": []}
    dialects: set[str] = set()
    for node, group in groupby(lines, key=lambda line: line.card.node):
        here = list(group)
        if any(line.sharers for line in here):
            _write_node(here, page)
            dialects |= {sharer.dialect for line in here for sharer in line.sharers}
        else:
            unused["Idle" if any(map(_is_usable, here)) else "Unusable"].append(node)
    for word, nodes in unused.items():
        if nodes:
            page.line(span(f"{word}: {named(nodes)}", "grey50"))
    if not dialects:
        return
    spans: list[tuple[str, str]] = []
    names = [name for name in registry.names() if name in dialects]
    for dialect in (*names, *sorted(dialects.difference(names))):
        mark = fill(dialect, colored=page.colored, ascii_only=page.ascii_only)
        spans += (mark * 2, color(dialect)), (f" {dialect}  ", "")
    free = "." if page.ascii_only else "░"
    page.line((*spans, (free * 2, "grey50"), (" free", "")))


def _write_node(lines: Sequence[CardLine], page: TextPage) -> None:
    node = lines[0].card.node
    models = ", ".join(dict.fromkeys(line.card.model for line in lines))
    known = ", ".join(sorted({name for line in lines for name in line.card.dialects}))
    described = f", described by {known}" if known else ""
    page.line(((node, "bold"), (f"  {models}{described}", "grey50")))
    wide = page.width is None or page.width >= WIDE
    width = WIDEST_BAR if page.width is None else min(max(10, page.width // 5), WIDEST_BAR)
    uuids = (_UUID,) if wide else ()
    rows = [
        (
            span(f"#{line.card.index}"),
            bar(line, width, colored=page.colored, ascii_only=page.ascii_only),
            span(f"{line.memory / GIB:.1f} of {line.card.memory / GIB:.1f} GiB"),
            span(f"{line.compute}% compute"),
            *((span(line.card.uuid, "grey50"),) if wide else ()),
            _sharers(line),
        )
        for line in lines
        if line.sharers
    ]
    columns = (_INDEX, TextColumn(least=width), _MEMORY, _COMPUTE, *uuids, TextColumn())
    page.table(columns, rows)
    for word, usable in (("idle", True), ("unusable", False)):
        cards = [line for line in lines if not line.sharers and _is_usable(line) is usable]
        if cards:
            numbers = " ".join(f"#{line.card.index}" for line in cards)
            page.line(span(f"{word}: {numbers}", "grey50"), indent=2)


def _is_usable(line: CardLine) -> bool:
    return line.card.healthy and not line.card.problem


def _sharers(line: CardLine) -> Spans:
    spans: list[tuple[str, str]] = []
    for sharer in line.sharers:
        if spans:
            spans.append((", ", ""))
        if sharer.blocking:
            spans.append((f"{short(sharer.pod)} (unknown: blocks the card)", UNPARSED))
        else:
            spans.append((short(sharer.pod), color(sharer.dialect)))
    return tuple(spans)


def color(dialect: str | None) -> str:
    """Return the terminal color of a dialect; that of ``_UNREAD`` where none has this name."""
    return _style(dialect).terminal_color


def fill(dialect: str, *, colored: bool, ascii_only: bool) -> str:
    """Return the character that draws a dialect's part of a bar."""
    if ascii_only:
        return _style(dialect).letter
    return "█" if colored else _style(dialect).fill


def bar(line: CardLine, width: int, *, colored: bool, ascii_only: bool) -> Spans:
    """Draw a card's memory: what each dialect has allocated, then what is free.

    A dialect with any allocation is at least one character wide as long as there is room. The
    width is 1 or more.
    """
    allocated: dict[str, int] = {}
    for sharer in line.sharers:
        amount = line.card.memory if sharer.blocking else sharer.memory
        allocated[sharer.dialect] = allocated.get(sharer.dialect, 0) + amount
    drawn: list[tuple[str, str]] = []
    room = width
    for dialect, amount in allocated.items():
        share = round(amount * width / line.card.memory) if line.card.memory else width
        length = min(max(share, 1), room)
        character = fill(dialect, colored=colored, ascii_only=ascii_only)
        drawn.append((character * length, color(dialect)))
        room -= length
    free = "." if ascii_only else "░"
    return (*drawn, (free * room, "grey50"))


def _style(dialect: str | None) -> DialectStyle:
    info = registry.named(dialect or "")
    return _UNREAD if info is None else info.style

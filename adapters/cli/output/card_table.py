"""The cards of a report: a bar for each card in use, node by node."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from adapters.cli.output.bar import UNPARSED, bar, color, fill
from adapters.cli.output.names import named, short
from adapters.cli.output.page import Row, Spans, TextColumn, TextPage, span
from adapters.cli.output.report import CardLine
from adapters.dialects import registry
from core.hardware.quantity import GIB

WIDE = 120
"""Columns of a terminal that has room for the card's uuid beside its bar."""

WIDEST_BAR = 40
"""Columns of a bar, at most."""

_INDEX = TextColumn(right=True, least=4)
_MEMORY = TextColumn(right=True, least=16, folds=False)
_COMPUTE = TextColumn(right=True, least=12, folds=False)
_UUID = TextColumn(folds=False)


def write_cards(lines: Iterable[CardLine], page: TextPage) -> None:
    """Write the nodes with a card in use, the names of the others, and the meaning of the bars.

    Args:
        lines: by node.
        page: gets nothing where there is no card.
    """
    idle: list[str] = []
    dialects: set[str] = set()
    for node, group in groupby(lines, key=lambda line: line.card.node):
        here = list(group)
        if any(line.sharers for line in here):
            page.line(_heading(node, here))
            _write_node(here, page)
            dialects |= {sharer.dialect for line in here for sharer in line.sharers}
        else:
            idle.append(node)
    if idle:
        page.line(span(f"Idle: {named(idle)}", "grey50"))
    if dialects:
        page.line(_legend(dialects, page))


def _heading(node: str, lines: Sequence[CardLine]) -> Spans:
    models = ", ".join(dict.fromkeys(line.card.model for line in lines))
    known = ", ".join(sorted({name for line in lines for name in line.card.dialects}))
    return (node, "bold"), (f"  {models}, described by {known}", "grey50")


def _write_node(lines: Sequence[CardLine], page: TextPage) -> None:
    wide = page.width is None or page.width >= WIDE
    width = WIDEST_BAR if page.width is None else min(max(10, page.width // 5), WIDEST_BAR)
    drawn = TextColumn(least=width)
    uuids = (_UUID,) if wide else ()
    rows = [_row(line, width, page, wide=wide) for line in lines if line.sharers]
    page.table((_INDEX, drawn, _MEMORY, _COMPUTE, *uuids, TextColumn()), rows)
    idle = " ".join(f"#{line.card.index}" for line in lines if not line.sharers)
    if idle:
        page.line(span(f"idle: {idle}", "grey50"), indent=2)


def _row(line: CardLine, width: int, page: TextPage, *, wide: bool) -> Row:
    return (
        span(f"#{line.card.index}"),
        bar(line, width, colored=page.colored, ascii_only=page.ascii_only),
        span(f"{line.memory / GIB:.1f} of {line.card.memory / GIB:.1f} GiB"),
        span(f"{line.compute}% compute"),
        *((span(line.card.uuid, "grey50"),) if wide else ()),
        _sharers(line),
    )


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


def _legend(dialects: set[str], page: TextPage) -> Spans:
    spans: list[tuple[str, str]] = []
    names = registry.names()
    for dialect in (
        *(name for name in names if name in dialects),
        *sorted(dialects.difference(names)),
    ):
        mark = fill(dialect, colored=page.colored, ascii_only=page.ascii_only)
        spans += (mark * 2, color(dialect)), (f" {dialect}  ", "")
    free = "." if page.ascii_only else "░"
    return (*spans, (free * 2, "grey50"), (" free", ""))

"""The report as a table: the pods, why some were not placed, and a bar for each card."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from adapters.cli.output.bar import UNPARSED, bar, color, fill
from adapters.cli.output.report import CardLine, PodLine, PodResult, ScheduleReport, ShareLine
from adapters.dialects import registry
from core.hardware.quantity import GIB, format_bytes

WIDE = 120
"""Columns of a terminal that has room for the card's uuid beside its bar."""

WIDEST_BAR = 40
"""Columns of a bar, at most."""

MAX_NODE_NAMES = 3
"""Nodes with the same reason that are named, at most."""

MAX_REASONS = 8
"""Different reasons that are printed, at most."""

_MARKS = {
    PodResult.PLACED: ("✓", "+", "green"),
    PodResult.REJECTED: ("✗", "x", "red"),
    PodResult.INVALID: ("✗", "x", "red"),
    PodResult.BOUND: ("●", "o", "cyan"),
    PodResult.SKIPPED: ("-", "-", "grey50"),
}
"""With Unicode, without, and the color."""


def show_report(report: ScheduleReport, console: Console) -> None:
    """Print the whole report."""
    for number, part in enumerate(_parts(report, console)):
        if number:
            console.print()
        console.print(part)


def _parts(report: ScheduleReport, console: Console) -> Iterator[RenderableType]:
    if report.pods:
        yield _pods(report.pods, console)
    not_placed = [
        pod for pod in report.pods if pod.result in (PodResult.REJECTED, PodResult.INVALID)
    ]
    if not_placed:
        yield Group(_title("Not placed"), *(_reasons(pod) for pod in not_placed))
    if report.cards:
        yield cards(report.cards, console)
    if report.warnings:
        lines = (Padding(Text(text), (0, 0, 0, 2)) for text in report.warnings)
        yield Group(_title("Warnings"), *lines)
    yield _sum(report)


def _title(text: str) -> Text:
    return Text(text, style="bold")


def _pods(pods: Sequence[PodLine], console: Console) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("")
    for name in ("Pod", "Dialect", "Node"):
        table.add_column(name, overflow="fold")
    table.add_column("Cards", overflow="fold", ratio=1)
    for pod in pods:
        mark, plain, style = _MARKS[pod.result]
        table.add_row(
            Text(plain if _ascii(console) else mark, style=style),
            _short(pod.full_name),
            Text(pod.dialect or "-", style=color(pod.dialect) if pod.dialect else "grey50"),
            pod.node or "-",
            _shares(pod),
        )
    return table


def _shares(pod: PodLine) -> Text:
    if pod.result is PodResult.REJECTED:
        return Text("does not fit", style="red")
    if pod.result is PodResult.INVALID:
        return Text("is not valid", style="red")
    several = len(pod.containers) > 1
    lines = [
        f"{f'{name}: ' if several else ''}{_share(share)}"
        for name, shares in pod.containers.items()
        for share in shares
    ]
    return Text("\n".join(lines)) if lines else Text(pod.summary, style="grey50")


def _share(share: ShareLine) -> str:
    card = "?" if share.index is None else f"#{share.index}"
    part = f" {share.slice.profile}@{share.slice.start}" if share.slice else ""
    return f"{card + part:3}{format_bytes(share.memory):>10}{share.compute:>5}%"


def _short(full_name: str) -> str:
    return full_name.removeprefix("default/")


def _reasons(pod: PodLine) -> RenderableType:
    name = Text("  ").append(_short(pod.full_name), style="red")
    if not pod.reasons:
        return Group(name, Padding(Text(pod.summary), (0, 0, 0, 4)))
    nodes: dict[str, list[str]] = {}
    for node, text in pod.reasons.items():
        nodes.setdefault(text, []).append(node)
    ordered = sorted(nodes.items(), key=lambda item: -len(item[1]))
    lines = [Text(f"{_named(names)}: {text}") for text, names in ordered[:MAX_REASONS]]
    if len(ordered) > MAX_REASONS:
        lines.append(
            Text(f"and {len(ordered) - MAX_REASONS} more reasons; -o json has all", "grey50")
        )
    return Group(name, *(Padding(line, (0, 0, 0, 4)) for line in lines))


def _named(nodes: Sequence[str]) -> str:
    if len(nodes) <= MAX_NODE_NAMES:
        return ", ".join(nodes)
    return f"{', '.join(nodes[:MAX_NODE_NAMES])} and {len(nodes) - MAX_NODE_NAMES} more nodes"


def cards(lines: Sequence[CardLine], console: Console) -> RenderableType:
    """Draw a bar for each card in use, node by node."""
    used = [line for line in lines if line.sharers]
    parts: list[RenderableType] = []
    idle: list[str] = []
    for node, group in groupby(lines, key=lambda line: line.card.node):
        here = list(group)
        if any(line.sharers for line in here):
            parts += [_heading(node, here), _node(here, console)]
        else:
            idle.append(node)
    if idle:
        parts.append(Text(f"Idle: {_named(idle)}", style="grey50"))
    if used:
        parts.append(_legend(used, console))
    return Group(*parts)


def _heading(node: str, lines: Sequence[CardLine]) -> Text:
    models = ", ".join(dict.fromkeys(line.card.model for line in lines))
    known = ", ".join(sorted({name for line in lines for name in line.card.dialects}))
    return Text(node, style="bold").append(
        f"  {models}, described by {known}", style="not bold grey50"
    )


def _node(lines: Sequence[CardLine], console: Console) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    width = min(max(10, console.width // 5), WIDEST_BAR)
    table.add_column(justify="right", min_width=4)
    table.add_column(min_width=width)
    table.add_column(justify="right", min_width=16, no_wrap=True)
    table.add_column(justify="right", min_width=12, no_wrap=True)
    if console.width >= WIDE:
        table.add_column(style="grey50", no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        if line.sharers:
            table.add_row(
                f"#{line.card.index}",
                bar(line, width, colored=_colored(console), ascii_only=_ascii(console)),
                f"{line.memory / GIB:.1f} of {line.card.memory / GIB:.1f} GiB",
                f"{line.compute}% compute",
                *([line.card.uuid] if console.width >= WIDE else []),
                _sharers(line),
            )
    idle = " ".join(f"#{line.card.index}" for line in lines if not line.sharers)
    if not idle:
        return table
    return Group(table, Padding(Text(f"idle: {idle}", style="grey50"), (0, 0, 0, 2)))


def _sharers(line: CardLine) -> Text:
    names = [
        Text(_short(sharer.pod), style=color(sharer.dialect))
        if not sharer.blocking
        else Text(f"{_short(sharer.pod)} (unknown: blocks the card)", style=UNPARSED)
        for sharer in line.sharers
    ]
    return Text(", ").join(names)


def _legend(used: Sequence[CardLine], console: Console) -> Text:
    legend = Text()
    known = {sharer.dialect for line in used for sharer in line.sharers}
    names = registry.names()
    for dialect in (*(name for name in names if name in known), *sorted(known.difference(names))):
        mark = fill(dialect, colored=_colored(console), ascii_only=_ascii(console))
        legend.append(mark * 2, style=color(dialect)).append(f" {dialect}  ")
    free = "." if _ascii(console) else "░"
    return legend.append(free * 2, style="grey50").append(" free")


def _sum(report: ScheduleReport) -> Text:
    counts = {result: sum(pod.result is result for pod in report.pods) for result in PodResult}
    requesting = counts[PodResult.PLACED] + counts[PodResult.REJECTED] + counts[PodResult.INVALID]
    parts = [f"{counts[PodResult.PLACED]} of {requesting} pods placed"]
    if counts[PodResult.BOUND]:
        parts.append(f"{counts[PodResult.BOUND]} already bound")
    if counts[PodResult.SKIPPED]:
        parts.append(f"{counts[PodResult.SKIPPED]} skipped")
    style = "green" if report.complete else "yellow"
    hint = "; -o yaml shows their annotations"
    return Text(", ".join(parts), style=style).append(hint, style="grey50")


def _colored(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def _ascii(console: Console) -> bool:
    return console.options.ascii_only

"""Draws how full a card is: one stretch for each dialect that has a part of it allocated."""

from adapters.cli.output.page import Spans
from adapters.cli.output.report import CardLine
from adapters.dialects import registry
from adapters.dialects.info import DialectStyle

UNPARSED = "red"
"""The color of allocations that could not be parsed."""

_UNREAD = DialectStyle(UNPARSED, UNPARSED, "■", "#")


def color(dialect: str | None) -> str:
    """The terminal color of a dialect; ``UNREAD`` where no dialect has this name."""
    return _style(dialect).terminal_color


def fill(dialect: str, *, colored: bool, ascii_only: bool) -> str:
    """The character that draws a dialect's part of a bar."""
    if ascii_only:
        return _style(dialect).letter
    return "█" if colored else _style(dialect).fill


def bar(line: CardLine, width: int, *, colored: bool, ascii_only: bool) -> Spans:
    """Draw a card's memory: what each dialect has allocated, then what is free.

    A dialect with any allocation is at least one character wide as long as there is room.

    Args:
        line: the card.
        width: characters, 1 or more.
        colored: the terminal has colors.
        ascii_only: the terminal shows ASCII only.
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

"""Lines and tables of styled text, written one after another: for a terminal, or for a program.

A terminal has a width, to which lines and columns are folded. Another program gets lines of any
length. No line has blanks at its end. Styled text may be foreign: of each character that is not
printable an escape is written.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import zip_longest

from adapters.wire.visible import visible

Spans = tuple[tuple[str, str], ...]
"""Texts one after the other, each with its style as rich names it; an empty style is plain."""

Row = Sequence[Spans]
"""A cell for each column."""

BREAK = ("\n", "")
"""A text of its own that begins another line of a cell; in other texts a line break is foreign."""

GAP = 2
"""Blanks between two columns."""


def span(text: str, style: str = "") -> Spans:
    """Return a text of one style."""
    return ((text, style),)


def lines(texts: Sequence[str], style: str = "") -> Spans:
    """Return texts of one style, each on a line of its own."""
    joined = [each for text in texts for each in (BREAK, (text, style))]
    return tuple(joined[1:])


def unpainted(text: str, style: str) -> str:  # noqa: ARG001
    """Return the text without its style."""
    return text


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a table.

    Attributes:
        right: aligned to the right.
        least: characters that it has at least, where there is room.
        folds: gives way where there is no room.
    """

    right: bool = False
    least: int = 0
    folds: bool = True


@dataclass(eq=False, slots=True)
class TextPage:
    """What was written so far is not kept.

    Attributes:
        width: characters of a line; None for any number.
        colored: whether styles are shown.
        ascii_only: whether the reader shows ASCII only.
    """

    _write: Callable[[str], object]
    width: int | None = None
    _paint: Callable[[str, str], str] = unpainted
    _: KW_ONLY
    ascii_only: bool = False
    colored: bool = field(init=False)
    _empty: bool = True
    _begins: bool = False

    def __post_init__(self) -> None:
        self.colored = self._paint is not unpainted

    def part(self) -> None:
        """Begin a part: a blank line precedes its first line, if other lines do."""
        self._begins = not self._empty

    def line(self, spans: Spans, indent: int = 0) -> None:
        """Write a text, folded to the width."""
        room = None if self.width is None else max(self.width - indent, 1)
        for folded in fold(_visible(spans), room):
            self._put([(" " * indent, ""), *folded])

    def table(self, columns: Sequence[TextColumn], rows: Iterable[Row], gap: int = GAP) -> None:
        """Write aligned columns; the rows are read twice, for the widths first."""

        def shown() -> Iterator[Row]:
            for row in rows:
                yield [*map(_visible, row)]

        room = None if self.width is None else self.width - gap * (len(columns) - 1)
        widths = column_widths(columns, shown(), room)
        sides = [(column.right, width) for column, width in zip(columns, widths, strict=True)]
        for row in shown():
            folded = (fold(cell, width) for cell, width in zip(row, widths, strict=True))
            for cells in zip_longest(*folded, fillvalue=()):
                self._put(_joined(cells, sides, gap))

    def _put(self, spans: Iterable[tuple[str, str]]) -> None:
        line = "".join([self._paint(text, style) for text, style in spans])
        self._write(f"\n{line}\n" if self._begins else f"{line}\n")
        self._begins = self._empty = False


def column_widths(
    columns: Sequence[TextColumn], rows: Iterable[Row], room: int | None
) -> list[int]:
    """Return the width of each column: its longest line, or less where all exceed the room.

    The widest column gives way first: of those that fold, as far as their least width; then of all.
    """
    widths = [column.least for column in columns]
    for row in rows:
        for at, cell in enumerate(row):
            text = "".join([part for part, _ in cell])
            longest = max(map(len, text.split("\n"))) if "\n" in text else len(text)
            widths[at] = max(widths[at], longest)
    if room is None:
        return widths
    floors = [max(column.least, 1) if column.folds else room for column in columns]
    for least in (floors, [1] * len(columns)):
        while sum(widths) > room:
            giving = [at for at, width in enumerate(widths) if width > least[at]]
            if not giving:
                break
            widths[max(giving, key=widths.__getitem__)] -= 1
    return widths


def fold(spans: Spans, width: int | None) -> list[Spans]:
    """Return the lines of a text: they end at line breaks, else at a blank, else at the width."""
    text = "".join([part for part, _ in spans])
    if "\n" not in text and (width is None or len(text) <= width):
        return [spans]
    folded: list[Spans] = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        while width is not None and end - start > width:
            blank = text.rfind(" ", start + 1, start + width + 1)
            cut = start + width if blank < 0 else blank
            folded.append(_between(spans, start, cut))
            start = cut
            while start < end and text[start] == " ":
                start += 1
        folded.append(_between(spans, start, end))
        start = end + 1
    return folded


def _between(spans: Spans, start: int, end: int) -> Spans:
    found: list[tuple[str, str]] = []
    at = 0
    for text, style in spans:
        part = text[max(start - at, 0) : max(end - at, 0)]
        if part:
            found.append((part, style))
        at += len(text)
    return tuple(found)


def _joined(
    cells: Sequence[Spans], sides: Sequence[tuple[bool, int]], gap: int
) -> Iterator[tuple[str, str]]:
    blanks = 0
    for cell, (right, width) in zip(cells, sides, strict=True):
        missing = width - sum([len(text) for text, _ in cell])
        if right:
            blanks += missing
        if missing < width:
            yield " " * blanks, ""
            yield from cell
            blanks = 0
        blanks += gap if right else missing + gap


def _visible(spans: Spans) -> Spans:
    return tuple([each if each == BREAK else (visible(each[0]), each[1]) for each in spans])

"""How full a card is, drawn: one stretch for each vocabulary that holds a part of it."""

from rich.text import Text

from adapters.cli.output.report import CardLine

COLORS = {"volcano": "dark_orange", "koordinator": "dodger_blue1", "metax": "medium_purple1"}
"""Of the vocabularies; of what nobody can read, see ``UNREAD``."""

UNREAD = "red"

FILLS = {"volcano": "█", "koordinator": "▓", "metax": "▒"}
"""Where there is no colour, the vocabularies are told apart by these."""

_ASCII = {"volcano": "V", "koordinator": "K", "metax": "M"}


def color(dialect: str | None) -> str:
    """The colour of a vocabulary."""
    return COLORS.get(dialect or "", UNREAD)


def fill(dialect: str, *, colored: bool, ascii_only: bool) -> str:
    """The character that a vocabulary's part of a bar is drawn with."""
    if ascii_only:
        return _ASCII.get(dialect, "#")
    return "█" if colored else FILLS.get(dialect, "■")


def bar(line: CardLine, width: int, *, colored: bool, ascii_only: bool) -> Text:
    """A card's memory, as wide as the card is large: what each vocabulary holds, then the rest.

    Whoever holds anything is at least one character wide as long as there is room.

    Args:
        line: the card.
        width: characters, 1 or more.
        colored: the terminal has colours.
        ascii_only: the terminal has nothing but ASCII.
    """
    held: dict[str, int] = {}
    for sharer in line.sharers:
        amount = line.card.memory if sharer.blocking else sharer.memory
        held[sharer.dialect] = held.get(sharer.dialect, 0) + amount
    drawn = Text()
    for dialect, amount in held.items():
        share = round(amount * width / line.card.memory) if line.card.memory else width
        length = min(max(share, 1), width - len(drawn))
        character = fill(dialect, colored=colored, ascii_only=ascii_only)
        drawn.append(character * length, style=color(dialect))
    free = "." if ascii_only else "░"
    return drawn.append(free * (width - len(drawn)), style="grey50")

"""A picture of the nodes that a plan of moves changes, before and after, as SVG."""

from collections.abc import Iterator, Mapping, Set
from html import escape

from adapters.wire.visible import visible
from core.hardware.card import Card
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage

MOST = 60
"""Nodes that are drawn; of more, the first ones."""

CARD, HEIGHT, ROW, GAP = 44, 34, 46, 40
"""Pixels of the width and height of a card, of a row, and between both states."""

LETTER, LETTERS = 7.3, 60
"""Pixels of a letter of a node's name, and how many are shown: of a longer name, the last ones."""

LEAST = 300
"""Pixels of the width, so that the legend has room."""

STAYS, MOVES, COMES, FREE = "#9aa5b1", "#e8833a", "#2f9e63", "#f4f6f8"

LEGEND = ((STAYS, "stays"), (MOVES, "moves"), (COMES, "fits then"))


Ledgers = Mapping[str, NodeLedger]


def picture(before: Ledgers, after: Ledgers, moved: Set[str]) -> str:
    """The picture; a card's height is its memory.

    Args:
        before: the ledgers of some nodes, by name.
        after: of the same ones; a node is drawn where it is another object.
        moved: uids of the pods that move.
    """
    nodes = [name for name in before if before[name] is not after[name]]
    shown = {name: _label(name) for name in nodes[:MOST]}
    most = max((len(before[name].node.cards) for name in shown), default=0)
    left = 20 + round(LETTER * max(map(len, shown.values()), default=0))
    right = left + most * CARD + GAP
    width, height = max(right + most * CARD + 10, LEAST), 60 + len(shown) * ROW
    heads = [_text(left, 44, "before"), _text(right, 44, "after")]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *_legend(),
            *(heads if shown else [_text(5, 44, "no node changes")]),
            *(
                line
                for row, name in enumerate(shown)
                for line in _row(
                    (before[name], after[name]), moved, 52 + row * ROW, shown[name], (left, right)
                )
            ),
            *([_text(5, height - 4, f"{len(nodes) - MOST} more nodes")] if nodes[MOST:] else ()),
            "</svg>\n",
        )
    )


def _label(node: str) -> str:
    name = visible(node)
    return name if len(name) <= LETTERS else f"...{name[-LETTERS:]}"


def _legend() -> Iterator[str]:
    for number, (color, text) in enumerate(LEGEND):
        yield f'<rect x="{5 + number * 100}" y="8" width="14" height="14" fill="{color}"/>'
        yield _text(24 + number * 100, 20, text)


def _row(
    states: tuple[NodeLedger, NodeLedger],
    moved: Set[str],
    top: int,
    label: str,
    at: tuple[int, int],
) -> Iterator[str]:
    before, after = states
    yield _text(5, top + HEIGHT // 2 + 4, label, ' font-family="monospace"')
    moving = dict.fromkeys(moved, MOVES)
    new = after.allocations.keys() - moved - before.allocations.keys()
    left, right = at
    yield from _cards(before, left, top, moving)
    yield from _cards(after, right, top, moving | dict.fromkeys(new, COMES))


def _cards(ledger: NodeLedger, left: int, top: int, colors: Mapping[str, str]) -> Iterator[str]:
    names = {uid: one.pod for uid, one in ledger.allocations.items()}
    for number, (card, use) in enumerate(zip(ledger.node.cards, ledger.usages, strict=True)):
        x = left + number * CARD
        yield (
            f'<rect x="{x}" y="{top}" width="{CARD - 4}" height="{HEIGHT}" fill="{FREE}"'
            ' stroke="#5b6670"/>'
        )
        yield from _shares(card, use, x, top, colors, names)


def _shares(
    card: Card,
    use: CardUsage,
    x: int,
    top: int,
    colors: Mapping[str, str],
    names: Mapping[str, str],
) -> Iterator[str]:
    bottom = top + HEIGHT
    for share in use.shares:
        memory = card.memory if share.blocked else share.memory
        size = min(max(memory * HEIGHT // max(card.memory, 1), 1), bottom - top)
        bottom -= size
        yield (
            f'<rect x="{x + 1}" y="{bottom}" width="{CARD - 6}" height="{size}"'
            f' fill="{colors.get(share.uid, STAYS)}" stroke="#ffffff">'
            f"<title>{escape(visible(names.get(share.uid, share.uid)))}</title></rect>"
        )


def _text(x: int, y: int, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" fill="#1f2933"{more}>{escape(text)}</text>'

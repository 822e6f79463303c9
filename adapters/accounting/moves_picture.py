"""A picture of the nodes that a plan of moves changes, before and after, as SVG."""

from collections.abc import Iterator, Mapping, Set
from html import escape

from adapters.wire.visible import visible
from core.ledger.node_ledger import NodeLedger

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
    """Return the picture; a card's height is its memory.

    Args:
        before: the ledgers of some nodes, by name.
        after: of the same ones; a node is drawn where it is another object.
        moved: uids of the pods that move.
    """
    nodes = [name for name in before if before[name] is not after[name]]
    shown: dict[str, str] = {}
    for name in nodes[:MOST]:
        text = visible(name)
        shown[name] = text if len(text) <= LETTERS else f"...{text[-LETTERS:]}"
    most = max((len(before[name].node.cards) for name in shown), default=0)
    left = 20 + round(LETTER * max(map(len, shown.values()), default=0))
    right = left + most * CARD + GAP
    width, height = max(right + most * CARD + 10, LEAST), 60 + len(shown) * ROW
    lines: list[str] = []
    for number, (color, text) in enumerate(LEGEND):
        x = 5 + number * 100
        lines.append(f'<rect x="{x}" y="8" width="14" height="14" fill="{color}"/>')
        lines.append(_text(x + 19, 20, text))
    heads = [_text(left, 44, "before"), _text(right, 44, "after")]
    lines += heads if shown else [_text(5, 44, "no node changes")]
    moving = dict.fromkeys(moved, MOVES)
    for row, (name, label) in enumerate(shown.items()):
        top, was, is_then = 52 + row * ROW, before[name], after[name]
        new = is_then.allocations.keys() - moved - was.allocations.keys()
        lines.append(_text(5, top + HEIGHT // 2 + 4, label, ' font-family="monospace"'))
        lines += _cards(was, left, top, moving)
        lines += _cards(is_then, right, top, moving | dict.fromkeys(new, COMES))
    if nodes[MOST:]:
        lines.append(_text(5, height - 4, f"{len(nodes) - MOST} more nodes"))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *lines,
            "</svg>\n",
        )
    )


def _cards(ledger: NodeLedger, left: int, top: int, colors: Mapping[str, str]) -> Iterator[str]:
    names = {uid: one.pod for uid, one in ledger.allocations.items()}
    for number, (card, use) in enumerate(zip(ledger.node.cards, ledger.usages, strict=True)):
        x = left + number * CARD
        yield (
            f'<rect x="{x}" y="{top}" width="{CARD - 4}" height="{HEIGHT}" fill="{FREE}"'
            ' stroke="#5b6670"/>'
        )
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

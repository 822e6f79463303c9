"""A picture of the nodes that a plan touches, before and after, as SVG."""

from collections.abc import Iterator, Mapping
from html import escape

from adapters.cli.defrag.planning import Planned
from adapters.wire.visible import visible
from core.hardware.card import Card
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardUsage

MOST = 60
"""Nodes that are drawn; of more, the first ones."""

LABEL, CARD, HEIGHT, ROW, GAP = 170, 44, 34, 46, 40
"""Pixels of a node's name, of the width and height of a card, of a row, and between both states."""

STAYS, MOVES, COMES, FREE = "#9aa5b1", "#e8833a", "#2f9e63", "#f4f6f8"

LEGEND = ((STAYS, "stays"), (MOVES, "moves"), (COMES, "fits then"))


def picture(plan: Planned) -> str:
    """The picture; a card's height is its memory."""
    nodes = [name for name in plan.before if plan.before[name] is not plan.after[name]]
    shown = nodes[:MOST]
    most = max((len(plan.before[name].node.cards) for name in shown), default=0)
    width, height = LABEL + 2 * most * CARD + GAP + 10, 60 + len(shown) * ROW
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *_legend(),
            _text(LABEL, 44, "before"),
            _text(LABEL + most * CARD + GAP, 44, "after"),
            *(line for row, name in enumerate(shown) for line in _row(plan, name, row, most)),
            *([_text(5, height - 4, f"{len(nodes) - MOST} more nodes")] if nodes[MOST:] else ()),
            "</svg>\n",
        )
    )


def _legend() -> Iterator[str]:
    for number, (color, text) in enumerate(LEGEND):
        yield f'<rect x="{5 + number * 100}" y="8" width="14" height="14" fill="{color}"/>'
        yield _text(24 + number * 100, 20, text)


def _row(plan: Planned, name: str, row: int, most: int) -> Iterator[str]:
    moved = {move.pod.request.uid: MOVES for move in plan.moves}
    top = 52 + row * ROW
    yield _text(5, top + HEIGHT // 2 + 4, visible(name)[:26])
    new = plan.after[name].allocations.keys() - moved.keys() - plan.before[name].allocations.keys()
    then = moved | dict.fromkeys(new, COMES)
    yield from _cards(plan.before[name], LABEL, top, moved)
    yield from _cards(plan.after[name], LABEL + most * CARD + GAP, top, then)


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
        size = min(max(memory * HEIGHT // card.memory, 1), bottom - top)
        bottom -= size
        yield (
            f'<rect x="{x + 1}" y="{bottom}" width="{CARD - 6}" height="{size}"'
            f' fill="{colors.get(share.uid, STAYS)}" stroke="#ffffff">'
            f"<title>{escape(visible(names.get(share.uid, share.uid)))}</title></rect>"
        )


def _text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" fill="#1f2933">{escape(text)}</text>'

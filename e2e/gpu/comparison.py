"""Compares what the agent reads with what the driver's own tool says."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from e2e.gpu.driver_tool import ToolCard, ToolReading
from e2e.gpu.reading import ReadCard, Reading

TOLERANCE = 64
"""MiB by which memory in use may differ: both round, and it changes between two readings."""

_ONE_TREE = ("PIX", "PXB")
"""Cells of the matrix for two cards without a host bridge between them."""


class Check(Struct, frozen=True):
    """One thing that was compared.

    Attributes:
        what: such as ``card 0: memory``.
        agent: what the agent reads.
        tool: what the tool says.
        equal: whether both mean the same.
    """

    what: str
    agent: str
    tool: str
    equal: bool


def compare(before: Reading, tool: ToolReading, after: Reading) -> tuple[Check, ...]:
    """Return all comparisons; none where there is no tool.

    Args:
        before: read before the tool was asked.
        tool: its answers.
        after: read after them: what was different in between is in use by what came or went.
    """
    if tool.problem:
        return ()
    later = {card.uuid: card for card in after.cards}
    return (
        *_cards(before, tool),
        *(
            check
            for card in before.cards
            if card.uuid in tool.cards
            for check in _card(card, tool.cards[card.uuid], later.get(card.uuid, card))
        ),
        *_links(before, tool),
    )


def _cards(reading: Reading, tool: ToolReading) -> Iterator[Check]:
    mine = [card.uuid for card in reading.cards if card.vendor == "nvidia"]
    yield Check(
        "cards",
        reading.problem or ", ".join(mine) or "none",
        ", ".join(tool.cards) or "none",
        set(mine) == set(tool.cards),
    )


def _card(card: ReadCard, said: ToolCard, later: ReadCard) -> Iterator[Check]:
    name = f"card {card.index}"
    yield _same(f"{name}: index", card.index, said.index)
    if card.model:
        yield _same(f"{name}: model", card.model, said.name)
    yield _same(f"{name}: memory, MiB", card.memory_mib, said.memory)
    yield _same(f"{name}: MIG mode", card.mode == "mig", said.mig)
    if card.bus:
        yield _same(f"{name}: bus", card.bus, said.bus)
        yield _same(f"{name}: MIG devices", _listed(card.parts), _listed(said.parts))
        yield _processes(name, card, said, later)
    if card.used_mib is not None and later.used_mib is not None and said.used is not None:
        least, most = sorted((card.used_mib, later.used_mib))
        yield Check(
            f"{name}: memory in use, MiB",
            str(card.used_mib),
            str(said.used),
            least - TOLERANCE <= said.used <= most + TOLERANCE,
        )


def _processes(name: str, card: ReadCard, said: ToolCard, later: ReadCard) -> Check:
    pids, after = ({each.pid for each in one.processes} for one in (card, later))
    return Check(
        f"{name}: processes",
        _listed(pids),
        _listed(said.processes),
        pids & after <= said.processes <= pids | after,
    )


def _links(reading: Reading, tool: ToolReading) -> Iterator[Check]:
    """Compare links: what the agent says of two cards must be in the matrix, not the reverse.

    But a card that the matrix links to another one must be in some group of linked cards.
    """
    scopes = {card.index: frozenset(card.links) for card in reading.cards if card.bus}
    for (left, right), cell in sorted(tool.links.items()):
        if left < right and left in scopes and right in scopes:
            yield from _pair(left, right, cell, scopes)


def _pair(
    left: int, right: int, cell: str, scopes: Mapping[int, frozenset[str]]
) -> Iterator[Check]:
    shared = scopes[left] & scopes[right]
    linked, near = (
        any(each.startswith(f"{level}:") for each in shared) for level in ("link", "pcie")
    )
    grouped = all(any(each.startswith("link:") for each in scopes[one]) for one in (left, right))
    by_link = cell.startswith("NV")
    mine = ", ".join(sorted(shared)) or ("linked to others" if grouped else "not connected")
    fits = (by_link if linked else not by_link or grouped) and (
        not near or by_link or cell in _ONE_TREE
    )
    yield Check(f"cards {left} and {right}: links", mine, cell, fits)


def _same(what: str, agent: object, tool: object) -> Check:
    return Check(what, str(agent), str(tool), agent == tool)


def _listed(values: "frozenset[str] | frozenset[int] | set[int] | tuple[str, ...]") -> str:
    return ", ".join(map(str, sorted(values))) or "none"

"""A probe for people: tables, and a line that says what it means."""

from collections.abc import Iterator, Sequence

from adapters.agent.probe.probe import Probe
from adapters.agent.probe.reading import ReadCard, ReadInstance
from adapters.wire.visible import visible

GAP = "   "
NONE = "-"
_CARDS = (
    "CARD", "UUID", "MODEL", "MEMORY(MiB)", "USED(MiB)", "COMPUTE", "MODE", "HEALTH", "NUMA",
    "BUS", "LINKS",
)  # fmt: skip


def as_text(found: Probe) -> str:
    """The whole probe, ending with a newline."""
    return "\n".join(line.rstrip() for line in _lines(found)) + "\n"


def _lines(found: Probe) -> Iterator[str]:
    cards = found.cards
    yield f"Node {visible(found.node)}, cards from {cards.source}"
    if cards.driver:
        yield f"Driver {cards.driver}, NVML {cards.library}"
    if cards.problem:
        yield f"The agent reads no cards: {visible(cards.problem)}"
    if cards.cards:
        yield ""
        yield from _table((_CARDS, *map(_card, cards.cards)))
    parts = [_part(card, each) for card in cards.cards for each in card.instances]
    if parts:
        yield ""
        yield from _table((("CARD", "MIG INSTANCE", "UUID"), *parts))
    running = [
        (str(card.index), str(each.pid), _known(each.memory_mib))
        for card in cards.cards
        for each in card.processes
    ]
    if running:
        yield ""
        yield from _table((("CARD", "PROCESS", "MEMORY(MiB)"), *running))
    yield ""
    facts = [("MISSING" if each.missing else "", each.what, each.found) for each in found.machine]
    yield from _table((("", "MACHINE", "FOUND"), *facts))
    yield ""
    if found.tool_problem:
        yield f"Not compared: {visible(found.tool_problem)}"
        return
    checks = [
        ("same" if each.equal else "DIFFERENT", each.what, each.agent, each.tool)
        for each in found.checks
    ]
    yield from _table((("", "COMPARED", "AGENT", found.tool.upper()), *checks))
    yield ""
    yield f"{len(checks)} compared, {len(found.differences)} different"


def _card(card: ReadCard) -> tuple[str, ...]:
    return (
        str(card.index), card.uuid, card.model, str(card.memory_mib), _known(card.used_mib),
        NONE if card.compute is None else f"{card.compute}%", card.mode,
        "healthy" if card.healthy else card.problem or "unhealthy", _known(card.numa),
        card.bus or NONE, ",".join(card.links) or NONE,
    )  # fmt: skip


def _part(card: ReadCard, part: ReadInstance) -> tuple[str, str, str]:
    name = f"{part.profile} at {part.start}"
    return str(card.index), name, part.uuid or "no container can get it"


def _known(value: int | None) -> str:
    return NONE if value is None else str(value)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        yield GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))

"""One probe of a machine: readings, comparisons, tables, and the exit status.

``python -m e2e.gpu.probe [--config FILE] [-o table|json]`` prints it.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from adapters.agent.config import AgentConfig, ConfigError, node_name, read
from adapters.agent.main import hardware_source
from adapters.wire.visible import visible
from e2e.gpu.comparison import Check, compare
from e2e.gpu.driver_tool import PROGRAM, Run, read_tool, run
from e2e.gpu.machine import Fact, read_machine
from e2e.gpu.reading import ReadCard, Reading, ReadInstance, read_cards

SAME, DIFFERENT, BAD_INPUT, NO_CARD = 0, 1, 2, 3


GAP = "   "
NONE = "-"
_CARDS = (
    "CARD", "UUID", "MODEL", "MEMORY(MiB)", "USED(MiB)", "COMPUTE", "MODE", "HEALTH", "NUMA",
    "BUS", "LINKS",
)  # fmt: skip


class Probe(Struct, frozen=True, rename="camel"):
    """All that the probe found.

    Attributes:
        cards: as the agent reads them.
        machine: what else the agent needs.
        tool: name of the driver's own tool.
        tool_problem: why it was not compared; empty where it was.
        checks: the comparisons.
    """

    node: str
    cards: Reading
    machine: tuple[Fact, ...]
    tool: str
    tool_problem: str
    checks: tuple[Check, ...]

    @property
    def differences(self) -> tuple[Check, ...]:
        """The comparisons that differ."""
        return tuple(check for check in self.checks if not check.equal)

    @property
    def exit_status(self) -> int:
        """``DIFFERENT``, ``SAME``, or ``NO_CARD`` where neither agent nor tool knows a card."""
        if self.differences:
            return DIFFERENT
        return SAME if self.cards.cards else NO_CARD


def probe(config: AgentConfig, run: Run = run, root: Path = Path("/")) -> Probe:
    """Read the machine once, and ask the tool.

    Args:
        config: of the agent.
        run: runs the tool.
        root: of the machine's files, except those that the sources of cards read.
    """
    node = node_name(config)
    source = hardware_source(config.inventory, node)
    before = read_cards(config.inventory.source, source)
    tool = read_tool(run)
    after = read_cards(config.inventory.source, source)
    return Probe(
        node,
        before,
        read_machine(config, before, root),
        PROGRAM,
        tool.problem,
        compare(before, tool, after),
    )


def as_text(found: Probe) -> str:
    """Return the whole probe, ending with a newline."""
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


def main(words: Sequence[str]) -> int:
    """Probe this machine, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", metavar="FILE", help="the agent's; default: its defaults")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args(words)
    try:
        config = AgentConfig() if given.config is None else read(Path(given.config))
    except ConfigError as error:
        sys.stderr.write(f"dragoman: {error}\n")
        return BAD_INPUT
    found = probe(config)
    if given.output == "json":
        plain = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "NodeProbe"}
        fields = {**plain, **msgspec.to_builtins(found), "status": found.exit_status}
        text = msgspec.json.format(msgspec.json.encode(fields), indent=2).decode() + "\n"
    else:
        text = as_text(found)
    sys.stdout.write(text)
    return found.exit_status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

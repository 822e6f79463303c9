"""One probe of a machine: readings, comparisons, and what follows for the exit status."""

from pathlib import Path

from msgspec import Struct

from adapters.agent.config import AgentConfig, node_name
from adapters.agent.hardware_source import hardware_source
from adapters.agent.probe.comparison import Check, compare
from adapters.agent.probe.driver_tool import PROGRAM, Run, read_tool, run
from adapters.agent.probe.machine import Fact, read_machine
from adapters.agent.probe.reading import Reading, read_cards

SAME, DIFFERENT, NO_CARD = 0, 1, 3


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

"""NVIDIA's own tool, nvidia-smi: runs it and reads what it prints.

Source of the fields: ``nvidia-smi --help-query-gpu`` and ``--help-query-compute-apps``; of the
matrix: ``nvidia-smi topo -m``, whose legend explains the cells.
"""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

PROGRAM = "nvidia-smi"
PATIENCE = 60.0
"""Seconds for one call; without persistence mode the driver initializes each card first."""

FIELDS = (
    "index", "uuid", "name", "pci.bus_id", "memory.total", "memory.reserved", "memory.used",
    "mig.mode.current",
)  # fmt: skip

Run = Callable[[Sequence[str]], str]
"""Runs a program and returns what it prints; ``ToolError`` where it cannot or fails."""

_CARD = re.compile(r"^GPU \d+: .*\(UUID: ([^)]+)\)")
_MIG = re.compile(r"^\s+MIG .*\(UUID: ([^)]+)\)")
_ROW = re.compile(r"GPU(\d+)")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class ToolError(RuntimeError):
    """The tool is missing, failed, or printed something else than expected."""


@dataclass(frozen=True, slots=True)
class ToolCard:
    """A card in the words of the tool.

    Attributes:
        bus: address on the PCI bus, as the kernel writes it.
        memory: MiB.
        used: MiB in use, with what the driver reserves; None where it does not say.
        mig: whether it is in MIG mode.
        parts: uuids of its MIG devices.
        processes: pids; of a card in MIG mode, of all its instances.
    """

    index: int
    uuid: str
    name: str
    bus: str
    memory: int
    used: int | None
    mig: bool
    parts: frozenset[str] = frozenset()
    processes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ToolReading:
    """What the tool says.

    Attributes:
        problem: why it says nothing; empty where it does.
        cards: by uuid.
        links: by indexes of two cards, the cell of the matrix, such as ``NV12`` or ``PIX``.
    """

    problem: str = ""
    cards: Mapping[str, ToolCard] = field(default_factory=dict[str, ToolCard])
    links: Mapping[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])


def run(words: Sequence[str]) -> str:
    """Run a program.

    Raises:
        ToolError: it is missing, fails, or takes too long.
    """
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = error.strerror if isinstance(error, OSError) else "gives no answer"
        raise ToolError(f"{words[0]}: {why}") from error
    if done.returncode:
        said = (done.stdout.strip() or done.stderr.strip()).splitlines()
        raise ToolError(f"{words[0]} ended with {done.returncode}: {said[0] if said else ''}")
    return done.stdout


def read_tool(run: Run = run) -> ToolReading:
    """Ask the tool for the cards, their MIG devices, processes and links."""
    try:
        table = run((PROGRAM, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"))
        apps = run((PROGRAM, "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader,nounits"))
        parts, processes = _parts(run((PROGRAM, "-L"))), _processes(apps)
        cards = {
            card.uuid: card
            for line in filter(str.strip, table.splitlines())
            for card in (_card(line, parts, processes),)
        }
        return ToolReading("", cards, _links(run((PROGRAM, "topo", "-m"))))
    except ToolError as error:
        return ToolReading(str(error))


def _card(
    line: str, parts: Mapping[str, frozenset[str]], processes: Mapping[str, frozenset[int]]
) -> ToolCard:
    values = [value.strip() for value in line.split(",")]
    try:
        index, uuid, name, bus, memory, reserved, used, mig = values
        busy = int(used) + int(reserved) if used.isdecimal() and reserved.isdecimal() else None
        return ToolCard(
            int(index), uuid, name, address(bus), int(memory), busy, mig == "Enabled",
            parts.get(uuid, frozenset()), processes.get(uuid, frozenset()),
        )  # fmt: skip
    except ValueError:
        raise ToolError(f"{PROGRAM} describes a card by {line!r}") from None


def address(bus: str) -> str:
    """Return an address such as ``00000000:3B:00.0`` as the kernel writes it: ``0000:3b:00.0``."""
    domain, _, rest = bus.partition(":")
    return f"{int(domain, 16):04x}:{rest.lower()}"


def _parts(listing: str) -> dict[str, frozenset[str]]:
    """Return the MIG devices of each card, from ``nvidia-smi -L``."""
    found: dict[str, set[str]] = {}
    card = ""
    for line in listing.splitlines():
        if named := _CARD.match(line):
            card = named[1]
        elif part := _MIG.match(line):
            found.setdefault(card, set()).add(part[1])
    return {uuid: frozenset(each) for uuid, each in found.items()}


def _processes(apps: str) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for line in apps.splitlines():
        uuid, _, pid = (each.strip() for each in line.partition(","))
        if pid.isdecimal():
            found.setdefault(uuid, set()).add(int(pid))
    return {uuid: frozenset(each) for uuid, each in found.items()}


def _links(matrix: str) -> dict[tuple[int, int], str]:
    """Read the cells of the matrix between two cards, without those of network interfaces."""
    head: list[str] = []
    found: dict[tuple[int, int], str] = {}
    for line in _STYLE.sub("", matrix).splitlines():
        name, *cells = (each.strip() for each in line.split("\t"))
        row = _ROW.fullmatch(name)
        if not name and not head:
            head = cells
        elif row:
            for column, cell in zip(head, cells, strict=False):
                if (other := _ROW.fullmatch(column)) and other[1] != row[1]:
                    found[int(row[1]), int(other[1])] = cell
    return found

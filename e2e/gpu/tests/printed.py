"""What nvidia-smi prints, in its formats: for the cards of the stand-in, and for eight others.

Source of the formats: NVIDIA's documentation of nvidia-smi (man page; ``--help-query-gpu``).
"""

from collections.abc import Sequence

from e2e.gpu.driver_tool import Run, ToolError

CARDS = """\
0, GPU-0, NVIDIA A100-SXM4-40GB, 00000000:3B:00.0, 40960, 0, 0, Disabled
1, GPU-1, NVIDIA A100-SXM4-40GB, 00000000:3C:00.0, 40960, 0, 0, Disabled
"""
LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)
"""
MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tPIX\tSYS\t0-31\t0\t\tN/A\n"
    "GPU1\tPIX\t X \tNODE\t0-31\t0\t\tN/A\n"
    "NIC0\tSYS\tNODE\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n"
)


def tool(cards: str = CARDS, listing: str = LISTING, apps: str = "", matrix: str = MATRIX) -> Run:
    """A tool that prints these texts."""

    def run(words: Sequence[str]) -> str:
        match words[1]:
            case "-L":
                return listing
            case "topo":
                return matrix
            case option if option.startswith("--query-gpu="):
                return cards
            case _:
                return apps

    return run


def no_tool(words: Sequence[str]) -> str:
    """A machine without the tool."""
    raise ToolError(f"{words[0]}: No such file or directory")

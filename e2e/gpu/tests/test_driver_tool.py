"""What the driver's tool prints is read, or is a problem with its sentence."""

import sys

import pytest

from e2e.gpu.driver_tool import ToolCard, ToolError, read_tool, run
from e2e.gpu.tests import printed


def test_cards_processes_mig_devices_and_links_are_read() -> None:
    listing = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-a)\n"
        "  MIG 1g.5gb      Device  1: (UUID: MIG-b)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n"
    )
    cards = (
        "0, GPU-0, NVIDIA A100-SXM4-40GB, 00000000:3B:00.0, 40960, 565, 12, Enabled\n"
        "1, GPU-1, NVIDIA A10, 0000000A:3C:00.0, 23028, [N/A], 1, [N/A]\n"
    )

    found = read_tool(printed.tool(cards, listing, "GPU-1, 7\nGPU-1, 8\n[N/A], [N/A]\n"))

    assert found.problem == ""
    assert found.cards["GPU-0"] == ToolCard(
        0, "GPU-0", "NVIDIA A100-SXM4-40GB", "0000:3b:00.0", 40960, 577, mig=True,
        parts=frozenset({"MIG-a", "MIG-b"}),
    )  # fmt: skip
    assert found.cards["GPU-1"] == ToolCard(
        1, "GPU-1", "NVIDIA A10", "000a:3c:00.0", 23028, None, mig=False,
        processes=frozenset({7, 8}),
    )  # fmt: skip
    assert found.links == {(0, 1): "PIX", (1, 0): "PIX"}


@pytest.mark.parametrize("line", ["0, GPU-0", "x, GPU-0, a, 0:3B:00.0, 1, 0, 0, Disabled"])
def test_a_line_that_describes_no_card_is_a_problem(line: str) -> None:
    assert read_tool(printed.tool(line)).problem == f"nvidia-smi describes a card by {line!r}"


def test_a_machine_without_the_tool_says_so() -> None:
    assert read_tool(printed.no_tool).problem == "nvidia-smi: No such file or directory"
    with pytest.raises(ToolError, match="no-such-program: No such file or directory"):
        run(("no-such-program",))


def test_a_tool_that_fails_is_a_problem_with_its_first_line() -> None:
    said = "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver"
    code = f"print({said!r}); raise SystemExit(9)"

    with pytest.raises(ToolError, match=f"ended with 9: {said}"):
        run((sys.executable, "-c", code))

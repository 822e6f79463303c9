"""A whole probe: the agent's readers on NVML's stand-in, beside a tool that agrees or not."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adapters.agent.config import AgentConfig, InventorySource
from adapters.agent.hardware.nvidia import NvmlInventory
from adapters.agent.tests.stand_in import begin, built, nvml
from e2e.gpu.comparison import Check, compare
from e2e.gpu.driver_tool import Run, read_tool
from e2e.gpu.probe import DIFFERENT, NO_CARD, SAME, as_text, probe
from e2e.gpu.reading import Reading, read_cards
from e2e.gpu.tests import printed

ROOT = Path(__file__).parents[3]


def reading(library: Any) -> Reading:
    return read_cards("nvml", NvmlInventory("n", nvml(library)))


def different(library: Any, run: Run) -> list[Check]:
    found = reading(library)
    return [check for check in compare(found, read_tool(run), found) if not check.equal]


def test_all_that_the_agent_reads_of_a_card_is_compared_and_the_same() -> None:
    library = begin()
    library.stand_in_run(0, 1)
    found = reading(library)

    checks = compare(found, read_tool(printed.tool(apps="GPU-0, 1000\n")), found)

    assert [check for check in checks if not check.equal] == []
    assert [check.what for check in checks if check.what.startswith("card 0")] == [
        "card 0: index",
        "card 0: model",
        "card 0: memory, MiB",
        "card 0: MIG mode",
        "card 0: bus",
        "card 0: MIG devices",
        "card 0: processes",
        "card 0: memory in use, MiB",
    ]
    assert checks[-1] == Check("cards 0 and 1: links", "pcie:pcie-0", "PIX", equal=True)


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (printed.tool(printed.CARDS.partition("\n")[0]), "cards"),
        (printed.tool(printed.CARDS.replace("40960", "40000", 1)), "card 0: memory, MiB"),
        (printed.tool(printed.CARDS.replace("3B", "3A")), "card 0: bus"),
        (printed.tool(printed.CARDS.replace("A100-SXM4", "A100-PCIE", 1)), "card 0: model"),
        (printed.tool(printed.CARDS.replace("0, 0, Dis", "0, 65, Dis", 1)),
         "card 0: memory in use, MiB"),
        (printed.tool(printed.CARDS.replace("Disabled", "Enabled", 1)), "card 0: MIG mode"),
        (printed.tool(printed.CARDS.replace("0, GPU-0", "3, GPU-0")), "card 0: index"),
        (printed.tool(apps="GPU-1, 5\n"), "card 1: processes"),
        (printed.tool(matrix=printed.MATRIX.replace("PIX", "SYS")), "cards 0 and 1: links"),
        (printed.tool(matrix=printed.MATRIX.replace("PIX", "NV4")), "cards 0 and 1: links"),
    ],
)  # fmt: skip
def test_each_thing_that_the_tool_says_otherwise_is_a_difference(run: Run, what: str) -> None:
    assert [check.what for check in different(begin(), run)] == [what]


def test_linked_cards_need_links_in_the_matrix() -> None:
    library = begin()
    for card in (0, 1):
        library.stand_in_switch(card, card)
        library.stand_in_link(card, 0, 9)

    assert different(library, printed.tool(matrix=printed.MATRIX.replace("PIX", "NV4"))) == []
    assert [check.agent for check in different(library, printed.tool())] == ["link:nvlink-0"]


def test_mig_instances_are_compared_by_their_uuids() -> None:
    library = begin(1, mig=True)
    cards = printed.CARDS.splitlines()[0].replace("Disabled", "Enabled")
    listing = printed.LISTING.splitlines()[0] + "\n  MIG 1g.5gb  Device 0: (UUID: MIG-1)\n"

    (check,) = different(library, printed.tool(cards, listing, matrix=""))

    assert (check.what, check.agent, check.tool) == ("card 0: MIG devices", "none", "MIG-1")


def test_what_comes_or_goes_between_two_readings_is_no_difference() -> None:
    library = begin(1)
    cards, listing = printed.CARDS.splitlines()[0], printed.LISTING
    before = reading(library)
    library.stand_in_run(0, 1)
    after = reading(library)

    for apps in ("", "GPU-0, 1000\n"):
        tool = read_tool(printed.tool(cards, listing, apps, ""))
        assert all(check.equal for check in compare(before, tool, after))


def test_a_machine_without_library_and_tool_has_no_card() -> None:
    found = probe(AgentConfig(node="n"), printed.no_tool)

    assert found.exit_status == NO_CARD
    text = as_text(found)
    assert "The agent reads no cards: libnvidia-ml.so.1: cannot open shared object file" in text
    assert "Not compared: nvidia-smi: No such file or directory" in text


def test_cards_of_the_tool_alone_are_a_difference() -> None:
    found = probe(AgentConfig(node="n"), printed.tool())

    assert found.exit_status == DIFFERENT
    assert [check.what for check in found.differences] == ["cards"]


def test_cards_of_a_file_are_compared_by_what_a_file_has(tmp_path: Path) -> None:
    file = tmp_path / "cards.yaml"
    file.write_text(
        "cards:\n- {uuid: GPU-0, index: 0, memoryMiB: 40960}\n"
        "- {uuid: GPU-1, index: 1, memoryMiB: 40959}\n"
    )
    config = AgentConfig(node="n", inventory=InventorySource("file", str(file)))

    found = probe(config, printed.tool())

    assert [check.what for check in found.differences] == ["card 1: memory, MiB"]
    assert probe(config, printed.no_tool).exit_status == SAME
    assert probe(AgentConfig(inventory=InventorySource("none")), printed.no_tool).exit_status == 3


def test_the_command_prints_tables_and_json_and_ends_with_1_where_they_differ(
    tmp_path: Path,
) -> None:
    """A process of its own: the stand-in as the driver's library, a script as the driver's tool."""
    script = tmp_path / "nvidia-smi"
    texts = {"--query-gpu": printed.CARDS, "-L": printed.LISTING, "topo": printed.MATRIX}
    lines = [f"  {option}*) cat <<'END'\n{text}END\n  ;;" for option, text in texts.items()]
    script.write_text("#!/bin/sh\ncase $1 in\n" + "\n".join(lines) + "\nesac\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

    def run(*words: str, cards: str = "2") -> "subprocess.CompletedProcess[str]":
        more = {
            "LD_LIBRARY_PATH": str(built().parent),
            "NVML_STAND_IN_CARDS": cards,
            "NVML_STAND_IN_WHOLE": "1",
            "PYTHONPATH": str(ROOT),
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
        }
        program = [sys.executable, "-P", "-m", "e2e.gpu.probe", *words]
        return subprocess.run(
            program, capture_output=True, text=True, check=False, env=os.environ | more
        )

    same, plain, other = run(), run("-o", "json"), run(cards="1")

    assert (same.returncode, plain.returncode, other.returncode) == (0, 0, 1), same.stderr
    assert "Driver 570.86.15, NVML 12.570.86.15" in same.stdout
    assert same.stdout.splitlines()[-1].endswith(" compared, 0 different")
    found = json.loads(plain.stdout)
    assert (found["kind"], found["status"]) == ("NodeProbe", 0)
    assert [card["memoryMiB"] for card in found["cards"]["cards"]] == [40960, 40960]
    assert "DIFFERENT   cards" in other.stdout
    bad = run("--config", str(tmp_path / "nothing.yaml"))
    assert (bad.returncode, bad.stdout) == (2, "")

"""The table, at several widths, with and without color."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import Source
from adapters.cli.output.page import Spans
from adapters.cli.output.report import CardLine, Sharer
from adapters.cli.output.table import bar, write_report
from adapters.cli.output.terminal import terminal_page
from adapters.cli.schedule import Run, RunOptions
from adapters.cli.tests.builders import Plain, node, pod, stream, uuid, volcano
from adapters.dialects.dialect import Defaults
from core.hardware.card import Card
from core.hardware.quantity import GIB, MIB

MIXED = (Path(__file__).parents[3] / "configs" / "examples" / "mixed.yaml").read_text()


def reported(text: str) -> Run:
    found = manifests([Source("text", text, named=True)])
    return Run.of(found, RunOptions(Defaults(), now=0))


def write(run: Run, console: Console) -> None:
    page, over_allocated = terminal_page(console), bool(run.over_allocated)
    pods, cards = run.place_all(), run.cards()
    write_report(pods, cards, run.warnings, page, over_allocated=over_allocated)


def shown(run: Run, width: int = 100, encoding: str = "utf-8") -> str:
    written = io.BytesIO()
    file = io.TextIOWrapper(written, encoding=encoding, write_through=True)
    write(run, Console(file=file, width=width, color_system=None))
    return written.getvalue().decode(encoding)


def table(*things: Plain) -> str:
    return shown(reported(stream(*things)))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 200])
def test_the_table_keeps_to_the_width(width: int) -> None:
    lines = shown(reported(MIXED), width).splitlines()

    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [80, 140])
def test_pods_cards_and_reasons_are_shown(width: int) -> None:
    printed = shown(reported(MIXED), width)

    assert "✓  volcano-notebook   volcano      nvidia-1  #1   3000 MiB   50%" in printed
    assert "✗  volcano-too-large  volcano      -         does not fit" in printed
    assert "-  web                -            -         requests no share" in printed
    assert "    nvidia-1, lab-1: memory 12.4 to 19.3 GiB short" in printed
    assert "[metax-tech.com/vcore]: 150: must be" in printed
    assert "30.0 of 40.0 GiB   75% compute" in printed
    assert "8 of 10 pods placed, 1 already bound, 1 skipped" in printed


def test_uuids_are_shown_where_there_is_room() -> None:
    card = "GPU-1ab01ab0-0000-4000-8000-000000000000"

    assert card in shown(reported(MIXED), 140)
    assert card not in shown(reported(MIXED), 80)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    printed = shown(reported(MIXED), 80, encoding="ascii")

    assert printed.isascii()
    assert "#0  VVVVKKKKMMMM...." in printed
    assert "x  volcano-too-large" in printed


def test_a_terminal_with_colours_gets_them() -> None:
    buffer = io.StringIO()

    console = Console(file=buffer, width=80, color_system="256")
    write(reported(MIXED), console)

    assert "\x1b[38;5;208m████\x1b[0m\x1b[38;5;33m████\x1b[0m" in buffer.getvalue()


def test_names_with_brackets_stay_what_they_are() -> None:
    printed = table(node(), pod("a[red]b", volcano(1)))

    assert "a[red]b" in printed


def test_idle_nodes_and_cards_are_listed_in_one_line() -> None:
    nodes = [node(f"node-{i}") for i in range(6)]

    printed = table(*nodes, pod(limits=volcano(1)))

    assert "  idle: #0" in printed or "  idle: #1" in printed
    assert "Idle: node-1, node-2, node-3 and 2 more nodes" in printed


def test_containers_are_named_where_there_are_several() -> None:
    two = pod()
    two["spec"]["containers"] = [
        {"name": name, "resources": {"limits": volcano(1000)}} for name in ("left", "right")
    ]

    printed = table(node(), two)

    assert "left: #" in printed
    assert "right: #" in printed


def test_nodes_with_one_cause_are_shown_together_with_the_range_of_what_is_missing() -> None:
    nodes = [node(f"node-{i}", memory=(100 + i // 4) * MIB) for i in range(48)]

    printed = table(*nodes, pod(limits=volcano(1000)))

    reason = "memory 889 to 900 MiB short"
    assert f"    node-0, node-1, node-2 and 45 more nodes: {reason}" in printed


def test_a_pod_without_any_node_reports_it() -> None:
    assert "no node to choose from" in table(pod(limits=volcano(1)))


def test_an_unknown_allocation_is_shown_at_its_card() -> None:
    printed = table(node(cards=1), pod("bound", volcano(1), spec={"nodeName": "node-a"}))

    assert "bound (unknown: blocks the card)" in printed
    assert "Warnings\n  pod default/bound: runs on node-a without a record" in printed


def test_a_card_that_the_node_does_not_have_is_shown_without_a_number() -> None:
    lost = {"annotations": {"volcano.sh/vgpu-ids-new": "GPU-lost,NVIDIA,1024,0:"}}
    bound = pod(limits=volcano(1024), metadata=lost, spec={"nodeName": "node-a"})

    assert "?       1 GiB     -" in table(node(cards=1), bound)


def plain(spans: Spans) -> str:
    return "".join(text for text, _ in spans)


def line(*sharers: tuple[str, int], memory: int = 10 * GIB) -> CardLine:
    card = Card(uuid(0), "node-a", 0, "nvidia", "A", memory, 10)
    parts = tuple(
        Sharer("p", dialect, amount * GIB, 0, blocking=False) for dialect, amount in sharers
    )
    return CardLine(card, 0, 0, parts)


@pytest.mark.parametrize(
    ("sharers", "drawn"),
    [
        ((), "░░░░░░░░░░"),
        ((("volcano", 5),), "█████░░░░░"),
        ((("volcano", 2), ("metax", 3), ("volcano", 1)), "███▒▒▒░░░░"),
        ((("volcano", 10), ("metax", 1)), "██████████"),
        ((("koordinator", 0),), "▓░░░░░░░░░"),
        ((("unknown", 5),), "■■■■■░░░░░"),
    ],
)
def test_a_bar_is_as_long_as_the_allocated_part(
    sharers: tuple[tuple[str, int], ...], drawn: str
) -> None:
    assert plain(bar(line(*sharers), 10, colored=False, ascii_only=False)) == drawn


def test_a_card_that_someone_blocks_is_full() -> None:
    card = Card(uuid(0), "node-a", 0, "nvidia", "A", 10 * GIB, 10)
    blocked = CardLine(card, 0, 0, (Sharer("p", "volcano", 0, 0, blocking=True),))

    assert plain(bar(blocked, 10, colored=True, ascii_only=False)) == "██████████"

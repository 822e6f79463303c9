"""Arguments of the command, its output and its exit status."""

import json
import re
import time
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from adapters.cli.commands.options import parse_time
from adapters.cli.main import app
from adapters.cli.output.terminal import PATIENCE, progress
from adapters.cli.tests.builders import AT, Plain, node, pod, report, run, stream, uuid, volcano
from adapters.wire.kube import Pod


def cards(*options: str) -> list[str]:
    """The cards of two pods in sequence on two cards of one node."""
    pods = [pod(name, volcano(1000)) for name in ("a", "b")]
    found = report(node(), *pods, options=options)
    return [line["containers"]["main"][0]["uuid"] for line in found["pods"]]


def nodes(*options: str) -> list[str]:
    """The nodes of two pods in sequence on two nodes."""
    pods = [pod(name, volcano(1000)) for name in ("a", "b")]
    found = report(node("node-a"), node("node-b"), *pods, options=options)
    return [line["node"] for line in found["pods"]]


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])

    assert (result.exit_code, result.stdout) == (0, f"dragoman {version('dragoman')}\n")


def test_the_help_lists_every_command_with_its_summary() -> None:
    shown = re.sub(r"[\s│]+", " ", CliRunner().invoke(app, ["--help"]).stdout)

    assert "schedule Place pods on cards without a cluster." in shown
    assert "node Run the node agent, an NRI plugin of the runtime." in shown
    assert "serve Serve schedulers from one ledger a node." in shown
    assert "demo Start a service and call it as schedulers do." in shown


def test_exit_status_0_means_that_all_are_placed() -> None:
    assert run("-f", "-", stdin=stream(node(), pod(limits=volcano(1)))).exit_code == 0


def test_exit_status_1_means_that_some_are_not() -> None:
    pods = [pod("a", volcano(1)), pod("b", volcano(99999))]

    assert run("-f", "-", stdin=stream(node(), *pods)).exit_code == 1


def test_exit_status_1_includes_invalid_requests() -> None:
    assert run("-f", "-", stdin=stream(node(), pod(limits=volcano(1, cores=101)))).exit_code == 1


def test_the_device_policy_is_for_pods_that_do_not_say() -> None:
    assert cards("--device-policy", "binpack") == [uuid(0), uuid(0)]
    assert cards("--device-policy", "spread") == [uuid(0), uuid(1)]


def test_the_node_policy_is_for_pods_that_do_not_say() -> None:
    assert nodes("--node-policy", "binpack") == ["node-a", "node-a"]
    assert nodes("--node-policy", "spread") == ["node-a", "node-b"]


@pytest.mark.parametrize(
    ("options", "chosen"),
    [(("--topology-aware",), "linked"), (("--no-topology-aware",), "apart"), ((), "apart")],
)
def test_topology_awareness_decides_whether_links_choose_the_node(
    options: tuple[str, ...], chosen: str
) -> None:
    cards = [metax_node("apart", zones=(1, 2)), metax_node("linked", zones=(1, 1))]
    two = pod(limits={"metax-tech.com/sgpu": 2})

    (line,) = report(*cards, two, options=options)["pods"]

    assert line["node"] == chosen


def metax_node(name: str, zones: tuple[int, ...]) -> Plain:
    """A node with MetaX cards, each in a link zone."""
    listed = [
        {
            "uuid": f"{name}-{place}",
            "totalDevCount": 16,
            "totalCompute": 100,
            "totalVRam": 1024,
            "healthy": True,
            "linkZone": zone,
        }
        for place, zone in enumerate(zones)
    ]
    annotations = {"metax-tech.com/node-gpu-devices": json.dumps(listed)}
    return node(cards=0, more={"metadata": {"name": name, "annotations": annotations}})


@pytest.mark.parametrize("text", [AT, "1769860800", "2026-01-31T13:00:00+01:00"])
def test_a_time_is_rfc_3339_or_unix_seconds(text: str) -> None:
    assert parse_time(text) == 1769860800 * 10**9


def test_a_fraction_of_a_second_is_kept() -> None:
    assert parse_time("2026-01-31T12:00:00.123456Z") == 1769860800123456000


def test_no_time_is_now() -> None:
    assert parse_time(None) > 1769860800 * 10**9


@pytest.mark.parametrize("text", ["soon", "2026-01-31T12:00:00", "-5", "1.5", ""])
def test_an_invalid_time_is_bad_input(text: str) -> None:
    arguments = ["schedule", "-f", "-", f"--at={text}"]

    result = CliRunner().invoke(app, arguments, input=stream(node()))

    assert result.exit_code == 2
    assert "is not a time such as" in re.sub(r"[\s│]+", " ", result.stderr)


@pytest.mark.parametrize("output", ["json", "yaml", "table"])
def test_warnings_go_to_standard_error(output: str) -> None:
    bound = pod("bound", volcano(1), spec={"nodeName": "elsewhere"})

    result = run("-f", "-", "-o", output, stdin=stream(node(), bound))

    assert result.stderr.startswith("warning: pod default/bound: already bound to elsewhere")
    assert "warning:" not in result.stdout


def test_on_a_terminal_warnings_are_in_the_table_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    bound = pod("bound", volcano(1), spec={"nodeName": "elsewhere"})

    result = run("-f", "-", stdin=stream(node(), bound))

    assert "pod default/bound: already bound to elsewhere" in result.stdout
    assert "already bound" not in result.stderr


def test_a_terminal_shows_the_progress_of_a_long_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    pods = [Pod()] * 300

    for _ in progress(pods):
        time.sleep(3 * PATIENCE / 300)

    assert "Placing pods" in capsys.readouterr().err


def test_a_terminal_shows_no_progress_of_what_takes_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    pods = [Pod()] * 300

    assert len([*progress(pods)]) == 300
    assert run("-f", "-", "-o", "json", stdin=stream(node())).stderr == ""


def test_no_progress_is_shown_without_a_terminal() -> None:
    pods = [pod(f"pod-{i}", volcano(1)) for i in range(300)]

    assert run("-f", "-", stdin=stream(node(cards=30), *pods)).stderr == ""

"""What the node agents report, beside what is granted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from adapters.cli.commands import checks
from adapters.cli.tests.api_server import ApiServer, api_server
from adapters.cli.tests.builders import Plain, node, pod, uuid, volcano_bound
from adapters.cli.tests.command import command
from adapters.wire.agent_report import UNKNOWN, Use, parse

GIB = 1 << 30
LABELS = {"app.kubernetes.io/name": "gpus", "dragoman.dev/component": "node"}
PROXY = "/api/v1/namespaces/dragoman-system/pods/{}/proxy/metrics"


def agent(name: str = "agent", on: str = "node-a") -> Plain:
    metadata = {"namespace": "dragoman-system", "labels": LABELS}
    found = pod(name, {}, metadata=metadata, spec={"nodeName": on})
    return found | {"status": {"phase": "Running"}}


def metrics(
    used: int = GIB, limit: int = 6000 << 20, unserved: int = 0, granted: int = 6000 << 20
) -> str:
    place = f'node="node-a",namespace="default",pod="a",container="main",uuid="{uuid(0)[:40]}"'
    return f"""\
# HELP dragoman_container_memory_granted_bytes Granted.
# TYPE dragoman_container_memory_granted_bytes gauge
dragoman_container_memory_granted_bytes{{{place}}} {granted}
dragoman_container_memory_used_bytes{{{place}}} {used}
dragoman_container_memory_limit_bytes{{{place}}} {limit}
dragoman_container_compute_used_ratio{{{place}}} 0.25
hami_host_gpu_memory_used_bytes{{device_uuid="{uuid(0)[:40]}"}} {2 * GIB}
hami_host_gpu_utilization_ratio{{device_uuid="{uuid(0)[:40]}"}} 40
dragoman_node_containers_unserved {unserved}
"""


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "sleep", lambda _: None)


@contextmanager
def cluster(folder: Path, text: str | None = None, *more: Plain) -> Iterator[ApiServer]:
    with api_server(folder, node(), volcano_bound("a", 6000), agent(), *more) as server:
        if text is not None:
            server.texts[PROXY.format("agent")] = text
        yield server


def ask(server: ApiServer, *words: str) -> Result:
    return command(*words, "--kubeconfig", server.kubeconfig)


def rows(server: ApiServer, kind: str) -> list[dict[str, Any]]:
    done = ask(server, "top", kind, "--used", "-o", "json", "-A")
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    return found


def rules(server: ApiServer, *words: str) -> tuple[int, list[str], str]:
    done = ask(server, "audit", "-o", "json", *words)
    return (
        done.exit_code,
        [each["rule"] for each in json.loads(done.stdout)["findings"]],
        done.stderr,
    )


def test_nodes_and_cards_have_the_drivers_figure_and_pods_that_of_hami_core(tmp_path: Path) -> None:
    with cluster(tmp_path, metrics()) as server:
        found = {kind: rows(server, kind) for kind in ("nodes", "cards", "pods", "namespaces")}

    used = {kind: (each[0]["usedMiB"], each[0]["usedCompute"]) for kind, each in found.items()}
    assert used == {
        "nodes": (2048, 40),
        "cards": (2048, 40),
        "pods": (1024, 25),
        "namespaces": (1024, 25),
    }
    assert (found["cards"][1]["usedMiB"], found["cards"][1]["usedCompute"]) == (None, None)


def test_only_who_asks_for_what_is_used_makes_requests_to_agents(tmp_path: Path) -> None:
    with cluster(tmp_path, metrics()) as server:
        narrow = ask(server, "top", "pods")
        asked = [path for _, path in server.verbs if path.endswith("metrics")]
        wide = ask(server, "top", "pods", "-o", "wide")

    assert asked == []
    assert "USED" not in narrow.stdout
    assert wide.stdout.splitlines()[0].split()[5:9] == [
        "GRANTED(GiB)",
        "COMPUTE",
        "USED(GiB)",
        "USED-COMPUTE",
    ]
    assert wide.stdout.splitlines()[1].split()[5:9] == ["5.9", "-", "1.0", "25%"]


def test_agents_that_cannot_be_read_are_named_and_change_nothing_else(tmp_path: Path) -> None:
    with cluster(tmp_path) as server:
        away = ask(server, "top", "pods", "-o", "wide")
        server.forbidden.add(PROXY.format("agent"))
        forbidden = ask(server, "top", "pods", "-o", "wide")
        audited = rules(server)
        silent = rules(server, "--no-agents")

    assert away.stdout == forbidden.stdout
    assert away.exit_code == forbidden.exit_code == 0
    assert "note: cannot read the agent of node node-a: 404" in away.stderr
    sentence = "note: cannot read the agent of node node-a: get on pods/proxy in namespace"
    assert f"{sentence} dragoman-system is forbidden\n" in forbidden.stderr
    assert audited[:2] == (0, [])
    assert sentence in audited[2]
    assert silent == (0, [], "")


def test_two_pods_with_an_agents_labels_are_not_believed(tmp_path: Path) -> None:
    with cluster(tmp_path, metrics(unserved=1), agent("other")) as server:
        found = rules(server)

    assert found[:2] == (0, [])
    assert "dragoman-system/agent and dragoman-system/other both have the labels" in found[2]


def test_garbage_of_an_agent_is_named(tmp_path: Path) -> None:
    with cluster(tmp_path, "}{ no metrics") as server:
        found = rules(server)

    assert found[:2] == (0, [])
    assert "its metrics cannot be read" in found[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (metrics(), []),
        (metrics(unserved=2), ["container-without-share"]),
        (metrics(limit=0), ["limit-above-grant"]),
        (metrics(limit=7 * GIB), ["limit-above-grant"]),
        (metrics(used=6 * GIB), ["use-above-grant"]),
    ],
)
def test_containers_that_do_not_have_what_was_allocated_are_found(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    with cluster(tmp_path, text) as server:
        status, found, _ = rules(server)

    assert (status, found) == (int(bool(expected)), expected)


def test_metrics_of_other_names_are_passed_over() -> None:
    report = parse("other 1\ndragoman_node_containers_unserved 0\n", "node-a")

    assert (report.containers, report.cards, report.unserved) == ((), {}, 0)
    assert Use(None, None) == UNKNOWN

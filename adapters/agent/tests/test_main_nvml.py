"""The agent as a process, on a node with a stand-in of NVML."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import Any

from adapters.agent.hardware.tests.test_mig_partitioner import EMPTY, holding, slot
from adapters.agent.tests.stand_in import built
from adapters.wire.records.ledger import encode
from e2e.harness.processes.waiting import within

ROOT = Path(__file__).parents[3]


@contextmanager
def agent(folder: Path, listen: str) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """An agent, and the lines of its log so far."""
    config = folder / "node.json"
    settings = {
        "node": "a",
        "socket": str(folder / "no-runtime.sock"),
        "ledger": {"file": str(folder / "ledger.json")},
        "monitor": {"listen": listen},
    }
    config.write_text(json.dumps(settings))
    more = {
        "LD_LIBRARY_PATH": str(built().parent),
        "NVML_STAND_IN_CARDS": "2",
        "PYTHONPATH": str(ROOT),
    }
    log = folder / "log"
    with log.open("w") as errors:
        words = [sys.executable, "-P", "-m", "adapters.agent", str(config)]
        process = subprocess.Popen(words, stderr=errors, env=os.environ | more)  # noqa: S603
        try:
            yield lambda: [json.loads(line) for line in log.read_text().splitlines()]
        finally:
            process.terminate()
            assert process.wait(20) == 0


def own_port() -> str:
    """An address and port that no other process takes before the agent listens there."""
    high, low = divmod(os.getpid(), 1 << 16)
    address = f"127.{1 + high}.{low >> 8}.{low & 255}"
    with socket() as found:
        found.bind((address, 0))
        return f"{address}:{found.getsockname()[1]}"


def read_metrics(listen: str) -> str:
    with urllib.request.urlopen(f"http://{listen}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def test_the_agent_serves_its_metrics_from_the_moment_that_it_reports_its_start(
    tmp_path: Path,
) -> None:
    listen = own_port()
    with agent(tmp_path, listen) as log_lines:
        within(30, lambda: "agent.started" in (tmp_path / "log").read_text(), log_lines)

        assert "HostGPUMemoryUsage" in read_metrics(listen)


def test_the_agent_creates_a_granted_slice_and_serves_the_cards_metrics(tmp_path: Path) -> None:
    listen = own_port()
    with agent(tmp_path, listen) as log_lines:
        within(30, lambda: any(line["event"] == "agent.started" for line in log_lines()), log_lines)

        (tmp_path / "part").write_bytes(encode(EMPTY.adopt(holding("p", slot("2g.10gb", 2)))))
        (tmp_path / "part").rename(tmp_path / "ledger.json")
        within(
            30, lambda: any(line["event"] == "mig.repartitioned" for line in log_lines()), log_lines
        )
        metrics = read_metrics(listen)

    cut = next(line for line in log_lines() if line["event"] == "mig.repartitioned")
    assert (cut["card"], cut["added"], cut["failed"]) == ("GPU-0", ["2g.10gb@2"], 0)
    assert 'HostGPUMemoryUsage{nodeid="a",deviceidx="1",deviceuuid="GPU-1"' in metrics
    assert next(line for line in log_lines() if line["event"] == "agent.started")["cards"] == 2

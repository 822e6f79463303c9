"""Each command has an example in the docs, and each example runs.

Those of files are run by ``test_docs_examples``; that of ``doctor`` needs a cluster
(``e2e/tests/chart/test_doctor.py``).
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command

from adapters.cli.main import app
from adapters.cli.tests.api_server import api_server
from adapters.cli.tests.test_docs_examples import EXAMPLES, NEED_A_CLUSTER
from adapters.service.tests.process import CODE, serving
from e2e.harness.processes.waiting import within

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text()


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "DRAGOMAN_GRPC": "off",
        "NODE_NAME": "node-a",
    }


def dragoman(*words: str, folder: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", CODE, *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def the_service(folder: Path) -> None:
    """The two blocks of the service's page: it starts, and answers curl."""
    start, calls = re.findall(r"```\n(.*?)```", page("service.md"), re.DOTALL)[:2]
    file, store = re.findall(r"serve -f (\S+) --store (\S+) ", start)[0]

    with serving(folder, "--store", store.replace(":", f":{folder}/"), inventory=ROOT / file) as it:
        script = calls.replace("http://127.0.0.1:9595", it.address)
        done = subprocess.run(  # noqa: S603
            ["/bin/bash", "-euc", script.replace("curl -s ", "curl -sS --fail -w '\\n' ")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert it.stop() == 0

    assert (done.returncode, done.stderr) == (0, "")
    assert '"NodeNames":["nvidia-1"]' in done.stdout
    assert '{"Error":""}' in done.stdout
    assert "volcano.sh/vgpu-ids-new" in done.stdout
    assert "\ndragoman_nodes 3.0\n" in done.stdout
    assert '{"deleted":"default/a","freed":["nvidia-1"]}' in done.stdout


def log_until(folder: Path, words: str, event: str) -> str:
    """Run a command until its log has an event, then end it; its log. It ends without an error."""
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", CODE, *words.split()],
            cwd=folder,
            env=environment(folder),
            stdout=out,
            stderr=out,
        )
    try:
        within(60, lambda: event in log.read_text(), log.read_text)
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
    finally:
        process.kill()
        process.wait()
    assert status == 0
    return log.read_text()


def the_agent(folder: Path) -> None:
    """The command of the agent's page, with a ledger in a file and no runtime."""
    (words,) = re.findall(r"`dragoman (node --config node.yaml)`", page("node-agent.md"))
    config = (ROOT / "configs" / "node.yaml").read_text()
    for before, after in (
        ("socket: /var/run/nri/nri.sock", f"socket: {folder}/nri.sock"),
        ('  file: ""                                # a file', f"  file: {folder}/ledger.json #"),
        ("source: nvml", "source: none"),
        ('listen: ":9394"', 'listen: "127.0.0.1:0"'),
    ):
        assert config.count(before) == 1
        config = config.replace(before, after)
    (folder / "node.yaml").write_text(config)

    assert "agent.ended" in log_until(folder, words, "nri.disconnected")


def the_mover(folder: Path) -> None:
    """The command of the page of moves, in a cluster that has no plans."""
    (words,) = re.findall(r"`dragoman (mover --kubeconfig FILE)`", page("moves.md"))

    with api_server(folder) as server:
        log = log_until(folder, words.replace("FILE", str(server.kubeconfig)), "moveplans.unknown")

    assert "mover.stopped" in log
    assert "watch.failed" not in log


def the_demonstration(folder: Path) -> None:
    assert "| `dragoman demo` |" in page("cli/README.md")
    assert "0 cards are over-allocated" in dragoman("demo", folder=folder).stdout


COMMANDS = get_command(app).commands  # type: ignore[attr-defined]

RUN_HERE: dict[str, Callable[[Path], None]] = {
    "serve": the_service,
    "node": the_agent,
    "mover": the_mover,
    "demo": the_demonstration,
}


@pytest.mark.parametrize("command", RUN_HERE)
def test_the_example_of_a_page_runs(command: str, tmp_path: Path) -> None:
    RUN_HERE[command](tmp_path)


def test_each_command_has_an_example_that_a_test_runs() -> None:
    shown = {str(example.values[0]).split()[0] for example in EXAMPLES}

    assert sorted({*shown, *RUN_HERE, *NEED_A_CLUSTER}) == sorted(COMMANDS)


def test_the_list_of_commands_has_each_command() -> None:
    listed = re.findall(r"^\| \[?`dragoman (\w+)`", page("cli/README.md"), re.MULTILINE)

    assert sorted(listed) == sorted(COMMANDS)

"""The progress of reading a dump, on a real terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.cli.tests.builders import node, stream, write

CODE = "from adapters.cli.main import main; main()"
NODES = 250


def on_terminal(*words: str) -> tuple[str, str]:
    """Standard output of a command, and what the terminal shows of standard error."""
    leader, follower = pty.openpty()
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", CODE, *words],
            stdout=subprocess.PIPE,
            stderr=follower,
            text=True,
            check=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        )
    finally:
        os.close(follower)
    shown = bytearray()
    try:
        while part := os.read(leader, 1 << 16):
            shown += part
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(leader)
    return done.stdout, shown.decode()


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """The file of a dump of many nodes."""
    nodes = [node(f"n{number}") for number in range(NODES)]
    name = f"dump{'-of-a-large-cluster' * 4}.json"
    return str(write(tmp_path, name, stream({"kind": "List", "apiVersion": "v1", "items": nodes})))


@pytest.mark.parametrize(
    "words",
    [
        ("top", "nodes", "-f", "DUMP"),
        ("schedule", "-f", "DUMP"),
        ("whatif", "-f", "NODE", "--pods", "DUMP"),
    ],
)
def test_a_terminal_shows_how_many_objects_of_a_dump_were_read(
    words: tuple[str, ...], dump: str, tmp_path: Path
) -> None:
    one = str(write(tmp_path, "node.json", stream(node())))

    out, shown = on_terminal(*({"DUMP": dump, "NODE": one}.get(word, word) for word in words))

    assert out
    assert "reading dump-of-a" in shown
    assert f"{NODES}/{NODES}" in shown

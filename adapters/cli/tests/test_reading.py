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


def on_terminal(*words: str, last: str = "", shows: str = "") -> tuple[str, str]:
    """Standard output of a command, and what the terminal shows of standard error.

    Args:
        words: of the command.
        last: its standard input.
        shows: what the terminal shows before the standard input ends.
    """
    leader, follower = pty.openpty()
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", CODE, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as running:
        os.close(follower)
        assert running.stdin is not None
        assert running.stdout is not None
        shown = bytearray()
        try:
            with running.stdin as text:
                text.write(last)
                text.flush()
                while shows not in shown.decode(errors="replace"):
                    shown += os.read(leader, 1 << 16)
            while part := os.read(leader, 1 << 16):
                shown += part
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(leader)
        out = running.stdout.read()
    assert running.returncode == 0
    return out, shown.decode()


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """The file of a dump of many nodes."""
    nodes = [node(f"n{number}") for number in range(NODES)]
    name = f"dump{'-of-a-large-cluster' * 4}.json"
    return str(write(tmp_path, name, stream({"kind": "List", "apiVersion": "v1", "items": nodes})))


@pytest.mark.parametrize(
    "words",
    [
        ("top", "nodes", "-f", "DUMP", "-f", "-"),
        ("schedule", "-f", "DUMP", "-f", "-"),
        ("whatif", "-f", "NODE", "--pods", "DUMP", "--pods", "-"),
    ],
)
def test_a_terminal_shows_how_many_objects_were_read_of_what_takes_long(
    words: tuple[str, ...], dump: str, tmp_path: Path
) -> None:
    one = str(write(tmp_path, "node.json", stream(node())))
    words = tuple({"DUMP": dump, "NODE": one}.get(word, word) for word in words)

    out, shown = on_terminal(*words, last=stream(node("last")), shows=f"{NODES}/{NODES}")

    assert out
    assert "reading dump-of-a" in shown


def test_a_terminal_shows_nothing_of_a_dump_that_is_read_at_once(tmp_path: Path) -> None:
    one = str(write(tmp_path, "node.json", stream(node())))

    out, shown = on_terminal("top", "-f", one)

    assert (out.count("\n"), shown) == (2, "")

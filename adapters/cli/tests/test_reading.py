"""The progress of reading a dump, on a real terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from adapters.cli.tests.builders import node, stream, write

CODE = "from adapters.cli.main import main; main()"
NODES = 250


def on_terminal(path: Path) -> tuple[str, str]:
    """Standard output and what the terminal shows of standard error."""
    leader, follower = pty.openpty()
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", CODE, "top", "nodes", "-f", str(path), "-o", "name"],
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


def test_a_terminal_shows_how_many_objects_of_a_dump_were_read(tmp_path: Path) -> None:
    nodes = [node(f"n{number}") for number in range(NODES)]
    path = write(
        tmp_path,
        f"dump{'-of-a-large-cluster' * 4}.json",
        stream({"kind": "List", "apiVersion": "v1", "items": nodes}),
    )

    out, shown = on_terminal(path)

    assert len(out.splitlines()) == NODES
    assert "reading dump-of-a" in shown
    assert f"{NODES}/{NODES}" in shown

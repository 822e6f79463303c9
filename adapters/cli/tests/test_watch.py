"""Lists that are watched on a real terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.cli.output.screen import BEGIN, END
from adapters.cli.tests.builders import node, pod, stream, volcano, write

CODE = "from adapters.cli.main import main; main()"
SURROUNDINGS = {name: os.environ[name] for name in os.environ if name not in ("COLUMNS", "LINES")}
"""The environment without what would be the terminal's size."""


class Terminal:
    """A command on a terminal of 8 lines."""

    def __init__(self, leader: int, running: subprocess.Popen[bytes]) -> None:
        self.leader, self.running, self.shown = leader, running, ""

    def until(self, text: str) -> str:
        """Return what was shown since the last call, until a text."""
        while text not in self.shown:
            assert select.select([self.leader], [], [], 60)[0], self.shown
            self.shown += os.read(self.leader, 1 << 16).decode()
        before, _, self.shown = self.shown.partition(text)
        return before

    def press(self, key: bytes) -> None:
        os.write(self.leader, key)


@contextmanager
def on_terminal(*words: str, height: int = 8) -> Iterator[Terminal]:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", height, 10 * height, 0, 0))
    before = termios.tcgetattr(follower)
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", CODE, *words], stdin=follower, stdout=follower, stderr=follower,
        start_new_session=True, env={**SURROUNDINGS, "TERM": "xterm"},
    ) as running:  # fmt: skip
        try:
            yield Terminal(leader, running)
            running.wait(30)
            assert termios.tcgetattr(follower) == before
        finally:
            running.kill()
            os.close(follower)
            os.close(leader)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    things = [*(node(f"n{at}", at + 1) for at in range(9)), pod("p", volcano(99_999))]
    return write(tmp_path, "dump.json", stream(*things))


def test_a_key_sorts_by_the_next_column_and_another_quits(dump: Path) -> None:
    with on_terminal("top", "-w", "--interval", "60", "-f", str(dump)) as terminal:
        terminal.until(BEGIN)
        first = terminal.until("4 more lines; s: sort by the next field (none), q: quit")
        terminal.press(b"sss")
        terminal.until("(model)")
        last = terminal.until("(cards), q: quit")
        terminal.press(b"q")
        terminal.until(END)
        terminal.running.wait(30)

    assert "NODE" in first
    assert first.count("\n") == 6
    assert [line[:2] for line in first.split("\n")[1:3]] == ["n0", "n1"]
    assert [line[:2] for line in last.split("\n")[-6:-4]] == ["n8", "n7"]
    assert terminal.running.returncode == 0


def test_a_watched_list_is_read_again(dump: Path) -> None:
    with on_terminal("pending", "-w", "--interval", "0.2", "-f", str(dump)) as terminal:
        assert " p " in terminal.until("q: quit")
        dump.write_text(stream(node()))
        while "no pods wait" not in terminal.until("q: quit"):
            pass
        terminal.press(b"q")
        terminal.until(END)


def test_only_the_interval_reads_a_list_again(dump: Path) -> None:
    with on_terminal("top", "-w", "--interval", "60", "-f", str(dump)) as terminal:
        terminal.until("q: quit")
        dump.unlink()
        terminal.press(b"\x1b[As")
        terminal.until("(node), q: quit")
        terminal.press(b"q")
        terminal.until(END)


def test_what_is_said_while_a_list_is_read_stands_below_it(dump: Path) -> None:
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}}
    dump.write_text(stream(bare))
    with on_terminal("top", "-w", "--interval", "60", "-f", str(dump), height=20) as terminal:
        terminal.until(BEGIN)
        assert "\nwarning: " in terminal.until("q: quit").replace("\x1b[K\r", "")
        terminal.press(b"q")
        terminal.until(END)


def test_a_terminal_without_a_size_shows_the_list(dump: Path) -> None:
    with on_terminal("top", "-w", "--interval", "60", "-f", str(dump), height=0) as terminal:
        assert "n8" in terminal.until("q: quit")
        terminal.press(b"q")
        terminal.until(END)


def test_the_sort_stays_where_no_row_has_its_field_any_more(dump: Path) -> None:
    plugin = {"metadata": {"name": "t4"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}
    both = stream(node(), {"apiVersion": "v1", "kind": "Node", **plugin})
    dump.write_text(both)
    words = ("top", "-w", "--interval", "0.2", "--sort", "resource", "-f", str(dump))
    with on_terminal(*words, height=20) as terminal:
        assert "nvidia.com/gpu" in terminal.until("(resource), q: quit")
        dump.write_text(stream(node()))
        while "nvidia.com/gpu" in terminal.until("(resource), q: quit"):
            pass
        terminal.press(b"s")
        terminal.until("(node), q: quit")
        terminal.press(b"q")
        terminal.until(END)


def test_a_program_that_ends_a_watched_list_leaves_the_terminal_as_it_was(dump: Path) -> None:
    with on_terminal("top", "-w", "--interval", "60", "-f", str(dump)) as terminal:
        terminal.until("q: quit")
        terminal.running.terminate()
        terminal.until(END)
        terminal.running.wait(30)

    assert terminal.running.returncode == 128 + signal.SIGTERM


def test_an_error_ends_the_screen_and_is_seen(dump: Path) -> None:
    with on_terminal("top", "-w", "--sort", "nothing", "-f", str(dump)) as terminal:
        terminal.until(END)
        terminal.until("'nothing' is no field; fields:")
        terminal.running.wait(30)

    assert terminal.running.returncode == 2

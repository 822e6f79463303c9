"""Ports for components, where several test processes run at once."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.harness.processes.ports import BLOCK, BLOCKS, FIRST, PortsTakenError, free_ports
from e2e.harness.processes.run import REPOSITORY

ASKING = "from e2e.harness.processes.ports import free_ports; print(*free_ports(20))"
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_processes_that_run_at_the_same_time_get_different_ports() -> None:
    mine = set(free_ports(20))

    asked = subprocess.run(
        [sys.executable, "-c", ASKING], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )

    assert len(mine) == 20
    assert len(mine | set(map(int, asked.stdout.split()))) == 40


def test_a_port_is_not_given_again_at_once_and_a_taken_one_never() -> None:
    (first,) = free_ports(1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        seen = free_ports(BLOCK // 2) + free_ports(BLOCK // 4)

    assert first not in seen
    assert len(set(seen)) == BLOCK // 2 + BLOCK // 4


def test_more_ports_than_a_process_has_are_an_error() -> None:
    with pytest.raises(PortsTakenError, match=f"{BLOCK + 1} are needed"):
        free_ports(BLOCK + 1)


def test_no_connection_takes_a_port_of_the_tests() -> None:
    lowest = int(RANGE.read_text().split()[0])

    assert lowest >= FIRST + BLOCK * BLOCKS

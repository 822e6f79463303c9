"""A run leaves no process or file behind, however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from e2e.harness.processes import reaper as cleaning
from e2e.harness.processes.identity import Identity
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY, run
from e2e.harness.processes.waiting import within

CRASHING = """
import sys, time
from e2e.harness.processes.run import run
with run() as this:
    process = this.start("sleeper", ["sleep", "600"])
    print(process.identity, this.folder, flush=True)
    time.sleep(600)
"""


def test_a_run_stops_what_it_started_and_removes_its_folder() -> None:
    with run() as this:
        process = this.start("sleeper", ["sleep", "600"])

    assert not process.identity.is_alive()
    assert not this.folder.exists()


def test_a_process_that_ignores_the_polite_signal_is_killed() -> None:
    with run() as this:
        process = this.start("stubborn", ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
        time.sleep(0.1)
        process.stop(patience=0.3)

        assert not process.identity.is_alive()


def test_a_killed_test_process_leaves_nothing_behind() -> None:
    crashing = subprocess.Popen(
        [sys.executable, "-c", CRASHING], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert crashing.stdout is not None
    pid, started, folder = crashing.stdout.readline().split()
    sleeper = Identity.parse(f"{pid} {started}")
    assert sleeper.is_alive()

    crashing.kill()
    crashing.communicate()

    within(10, lambda: not Path(folder).exists())
    assert not sleeper.is_alive()


def test_a_run_whose_owner_and_guard_are_gone_is_swept_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "run-old"
    folder.mkdir()
    process = Process.start("sleeper", ["sleep", "600"], log=folder / "sleeper.log")
    cleaning.record(folder, process.identity, "sleeper")
    (folder / "owner").write_text(str(Identity(pid=os.getpid(), started=1)))

    cleaning.sweep(tmp_path)

    assert process.popen.wait(5) == -signal.SIGKILL
    assert not folder.exists()


def test_a_run_whose_owner_is_not_known_yet_or_no_more_is_left_alone(tmp_path: Path) -> None:
    for name in ("starting", "ending"):
        (tmp_path / name).mkdir()
    (tmp_path / "ending" / "owner").symlink_to("gone")

    cleaning.sweep(tmp_path)

    assert {each.name for each in tmp_path.iterdir()} == {"starting", "ending"}


def test_a_later_process_with_the_same_number_is_not_touched() -> None:
    mine = Identity.of(os.getpid())

    assert mine.is_alive()
    assert not Identity(pid=mine.pid, started=mine.started - 60).is_alive()

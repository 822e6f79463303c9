"""The rules that the conftests set, seen as a user sees them: by running tests that meet them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.harness.processes.run import REPOSITORY

INTERRUPTED = "def test_that_is_interrupted():\n    raise KeyboardInterrupt\n"
PLACED = "def test_on_a_node(place):\n    pass\n"
LEFT_OUT = """
import pytest

@pytest.mark.parametrize("view", ["nodes", "pods"])
def test_in_a_browser(view):
    pytest.skip("no browser: apt-get install one")

def test_without_one():
    pass
"""


def pytest_says(folder: Path, text: str, **environment: str) -> tuple[int, str]:
    """How a run of these tests ends, with nothing in the test bed, and what it prints."""
    (folder / "test_given.py").write_text(text)
    rules = ["-p", "conftest", "-p", "e2e.conftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--quiet", *rules, str(folder / "test_given.py")],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if name != "CI"}
        | {"DRAGOMAN_TESTBED": str(folder / "empty")}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_an_interrupt_ends_a_run_without_another_error(tmp_path: Path) -> None:
    status, said = pytest_says(tmp_path, INTERRUPTED)

    assert status == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in said
    assert "Error:" not in said


def test_a_runtime_that_is_not_built_skips_and_is_an_error_on_ci(tmp_path: Path) -> None:
    here = pytest_says(tmp_path, PLACED)
    on_ci = pytest_says(tmp_path, PLACED, CI="true")

    assert here[0] == pytest.ExitCode.OK
    assert "3 skipped" in here[1]
    assert "containerd-1 is not built; make testbed builds it" in here[1]
    assert on_ci[0] == pytest.ExitCode.TESTS_FAILED
    assert "3 errors" in on_ci[1]


def test_a_run_ends_with_how_many_tests_were_left_out_and_how_to_get_them(tmp_path: Path) -> None:
    status, said = pytest_says(tmp_path, LEFT_OUT)

    assert status == pytest.ExitCode.OK
    assert "left out: 2 tests: no browser: apt-get install one\n" in said

"""A short run: the service stands it, and one that leaks, ends or does not answer is noticed.

``make hostile MINUTES=60`` is the same for an hour.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from e2e.hostile import honest
from e2e.hostile.run import Plan, run


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="h-") as made:  # the path of a socket must be short
        yield Path(made)


def test_honest_requests_are_answered_and_memory_ends_where_it_began(folder: Path) -> None:
    result = run(folder, Plan(seconds=6, warm=3, settle=2, seed=1))

    print(result.line())
    assert not result.faults, result.line()
    assert result.attacks > 10
    assert result.answered > 20


LEAKS = {
    "memory": "resident grew",
    "tasks": "tasks grew",
    "files": "files grew",
    "end": "the process ended with 0",
    "silence": "schedule: POST /extender/prioritize",
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_service_that_fails_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, leak: str
) -> None:
    monkeypatch.setattr(honest, "BOUND", 3)

    result = run(folder, Plan(seconds=2, warm=1, settle=0.2, seed=1, leak=leak))

    assert any(LEAKS[leak] in fault for fault in result.faults), result.line()

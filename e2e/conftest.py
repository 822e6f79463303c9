"""Fixtures of the end-to-end tests: a control plane that is shared, and its logs on failure."""

from collections.abc import Generator, Iterator

import pytest

from e2e.harness.control_plane import ControlPlane, start_control_plane
from e2e.harness.run import Run, run
from e2e.testbed.cache import NotBuiltError


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane without nodes and without a scheduler; tests use names of their own."""
    with run() as this:
        try:
            plane = start_control_plane(this)
        except NotBuiltError as missing:
            pytest.skip(str(missing))
        yield plane


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the end of every component's log under a failure."""
    report = yield
    if report.failed:
        arguments = getattr(item, "funcargs", {}).values()
        runs = [
            value if isinstance(value, Run) else getattr(value, "run", None) for value in arguments
        ]
        for each in runs:
            if isinstance(each, Run):
                for process in each.processes:
                    report.sections.append((f"log of {process.name}", process.tail()))
    return report

"""One control plane for the tests of the installed chart."""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.processes.run import run
from e2e.tests.chart.installed import installed


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """A control plane in which the chart is installed with its defaults; nothing runs."""
    with run() as this:
        yield installed(this)

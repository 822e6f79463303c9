"""The binding of NVML is one for all tests of a process."""

from collections.abc import Iterator

import pytest

from adapters.agent.tests.stand_in import replace_library


@pytest.fixture(autouse=True)
def drivers_own() -> Iterator[None]:
    """Let no later test meet the stand-in that a test has put in the place of the library."""
    yield
    replace_library(None)

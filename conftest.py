"""Settings that every test shares: how hard hypothesis tries, and the golden rewrite flag."""

import os

import pytest
from hypothesis import settings

# deadline=None: a slow machine is not a wrong answer, and pytest-timeout catches what hangs.
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=300, deadline=None, derandomize=True)
settings.register_profile("fuzz", max_examples=100_000, deadline=None)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if "CI" in os.environ else "dev")
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Define ``--rewrite-golden``."""
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write the golden files instead of comparing with them; then read the diff",
    )


@pytest.fixture
def rewrite_golden(request: pytest.FixtureRequest) -> bool:
    """Whether a golden test writes its expectation instead of comparing with it."""
    return bool(request.config.getoption("--rewrite-golden"))

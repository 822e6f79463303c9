"""What every test shares: how hard hypothesis tries, golden files, tests that are left out."""

import os
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import Phase, settings

from e2e.testbed.cache import NotBuiltError

# deadline=None: a slow machine is not a wrong answer, and pytest-timeout catches what hangs.
# The gate and the loop of a change have a small budget; more is what make fuzz is for.
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("fuzz", max_examples=100_000, deadline=None)
# Nothing is drawn: with it make unit names the branches that only random draws reach.
settings.register_profile("fixed", phases=[Phase.explicit], deadline=None)
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where processors share the tests, begin with those that may take long, not end with them.

    Before them come those that are traced, because what a function caches in a process must be
    computed under the tracer. Elsewhere the order stays: modules of e2e are not torn apart.
    """
    if hasattr(config, "workerinput"):
        items.sort(
            key=lambda item: (_is_untraced(item), item.get_closest_marker("timeout") is None)
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let only a package's own tests count for its coverage.

    The tracer of lines makes the others, which run the same lines from afar, up to three times
    slower. The marker ``no_cover`` of pytest-cov has no effect in a process of xdist, where
    pytest-cov 7 traces twice.
    """
    if not _is_untraced(item):
        return (yield)
    tracer, of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
        threading.settrace(of_threads)


def _is_untraced(item: pytest.Item) -> bool:
    """Whether coverage is measured, and of other packages than the test's."""
    covered = item.config.getoption("cov_source", None)
    return bool(covered) and not item.nodeid.startswith(tuple(f"{room}/" for room in covered))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    """Skip a test whose fixtures need what is not built."""
    with _skipped_if_not_built():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Skip a test that itself needs what is not built."""
    with _skipped_if_not_built():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end how many tests were left out; the reasons say how to get what they need."""
    skipped = terminalreporter.getreports("skipped")
    reasons = Counter(row.longrepr[2] for row in skipped if isinstance(row.longrepr, tuple))
    for reason, count in reasons.most_common():
        tests = "test" if count == 1 else "tests"
        terminalreporter.write_line(
            f"left out: {count} {tests}: {reason.removeprefix('Skipped: ')}"
        )


@contextmanager
def _skipped_if_not_built() -> Iterator[None]:
    """A part that the test bed lacks skips the test; on CI, which builds them all, it fails it."""
    try:
        yield
    except NotBuiltError as missing:
        if "CI" in os.environ:
            raise
        pytest.skip(str(missing))

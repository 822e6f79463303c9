"""Fixtures of the end-to-end tests: the cluster that is shared, and logs on failure."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.harness.cluster import audit
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.namespaces import namespace
from e2e.harness.cluster.shared_cluster import OccupiedError, guest
from e2e.harness.cluster.target import Existing, Target, existing, kind
from e2e.harness.node.runtime_node import RuntimeNode
from e2e.harness.node.runtime_node import start_runtime_node as a_place
from e2e.harness.processes.run import Run, run
from e2e.harness.schedulers.full_stack import Planes


def pytest_addoption(parser: pytest.Parser) -> None:
    """Define ``--cluster``."""
    parser.addoption(
        "--cluster",
        default="local",
        metavar="local|kind|KUBECONFIG",
        help="where the tests run: components of the test bed (the default), the cluster of "
        "configs/kind-cluster.yaml, or the one of a kubeconfig, as its administrator",
    )
    parser.addoption(
        "--address",
        help="where the API server of a kubeconfig finds this machine, if not at the address "
        "from which this machine reaches it",
    )
    adversary = parser.getgroup("adversary", "random histories, e2e/tests/adversary")
    adversary.addoption("--seed", default="1", help="of the first history")
    adversary.addoption("--histories", default="1", help="how many, with seeds one after the other")
    adversary.addoption("--steps", default="120", help="of each history")
    adversary.addoption("--minutes", default="0", help="begin further histories for so long")


def pytest_configure(config: pytest.Config) -> None:
    """Define the marks."""
    config.addinivalue_line(
        "markers", "local(why): needs a control plane of its own, on this machine; why, in words"
    )
    config.addinivalue_line("markers", "refusals: our own accounts may be refused something")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The cluster that ``--cluster`` names.

    Tests share it and use names of their own. A local one has no nodes and no scheduler.
    """
    chosen = str(request.config.getoption("--cluster"))
    with run() as this:
        if chosen == "local":
            yield start_control_plane(this)
        elif chosen == "kind":
            yield kind(this.folder)
        else:
            yield existing(Path(chosen), this.folder, request.config.getoption("--address"))


@pytest.fixture(scope="session")
def planes(request: pytest.FixtureRequest) -> Planes:
    """Where tests start components of their own, for the length of a block.

    That is a new control plane, or, as guests, the cluster that ``--cluster`` names: one at a time.
    """

    @contextmanager
    def plane() -> Iterator[ControlPlane]:
        if request.config.getoption("--cluster") == "local":
            with run() as this:
                yield start_control_plane(this)
        else:
            target = request.getfixturevalue("target")
            assert isinstance(target, Existing)  # noqa: S101 - for mypy
            with ExitStack() as stack:
                try:
                    found = stack.enter_context(guest(target))
                except OccupiedError as why:
                    pytest.skip(str(why))
                yield found

    return plane


@pytest.fixture(scope="module")
def home(target: Target) -> Iterator[str]:
    """The path of a namespace for one module."""
    with namespace(target.api, "dragoman-e2e") as path:
        yield path


@pytest.fixture(scope="module", params=["containerd-1", "containerd-2", "containerd"])
def daemon(request: pytest.FixtureRequest) -> Iterator[RuntimeNode]:
    """A node without a kubelet for one module, with each runtime in turn."""
    with a_place(request.param) as there:
        yield there


@pytest.fixture
def place(daemon: RuntimeNode) -> Iterator[RuntimeNode]:
    """A node on which no pod holds a card and no agent runs yet."""
    daemon.begin()
    yield daemon
    daemon.end()


@pytest.fixture(autouse=True)
def nothing_was_forbidden(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the service and the agent ask for, the chart's roles give them."""
    given = request.node.funcargs  # held here, for after an interrupt the test has none any more
    yield
    found = [getattr(value, "plane", value) for value in given.values()]
    folders = {each.run.folder for each in found if isinstance(each, ControlPlane)}
    refused = [line for folder in folders for line in audit.refused(folder)]
    if not request.node.get_closest_marker("refusals"):
        assert refused == []  # noqa: S101 - it is what every test of ours claims


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run on another cluster."""
    mark = item.get_closest_marker("local")
    if mark and item.config.getoption("--cluster") != "local":
        why = mark.args[0] if mark.args else "starts components of its own"
        pytest.skip(f"{why}: --cluster=local")


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

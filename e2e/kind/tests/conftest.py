"""The session's cluster, which ``python -m e2e.kind`` made; without it nothing is collected here.

The files are numbered because they are steps on one cluster: quickstart, installation, what happens
then, uninstallation.
"""

import os
from collections.abc import Iterator

import pytest

from e2e.kind import cards, nvidia
from e2e.kind.shell import sh

# Set where KUBECONFIG is this cluster's: no other cluster may get what the tests install.
collect_ignore_glob = [] if os.environ.get("DRAGOMAN_E2E_KIND") else ["test_*"]


@pytest.fixture(scope="session")
def workers() -> list[str]:
    """Nodes with stand-ins of two cards each."""
    nodes = ["dragoman-e2e-worker", "dragoman-e2e-worker2"]
    for node in nodes:
        cards.install(node)
    return nodes


@pytest.fixture(scope="session")
def gpu_node() -> str:
    """A node with NVIDIA's device plugin, which no dialect, Device or agent describes."""
    nvidia.install()
    return nvidia.NODE


@pytest.fixture(autouse=True)
def report(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the cluster looks like after a failure."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        sh("kubectl get pods --all-namespaces --output=wide")
        sh("kubectl get events --all-namespaces --sort-by=.lastTimestamp | tail -40")

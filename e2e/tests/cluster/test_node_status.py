"""Question 6 on any cluster: who may write extended resources into a node's status."""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.namespaces import bare_node
from e2e.harness.cluster.target import Target

NODE = "dragoman-e2e-shares"
SHARES = "dragoman.dev/e2e-shares"


@pytest.fixture(scope="module")
def node(target: Target) -> Iterator[str]:
    with bare_node(target.api, NODE) as path:
        yield path


def write(api: Api, node: str, amount: str) -> None:
    amounts = {SHARES: amount}
    api.merge(f"{node}/status", {"status": {"capacity": amounts, "allocatable": amounts}})


def amounts(target: Target, node: str) -> tuple[str, str]:
    """Capacity and allocatable."""
    status = target.api.get(node)["status"]
    return status["capacity"][SHARES], status["allocatable"][SHARES]


def test_an_administrator_may(target: Target, node: str) -> None:
    write(target.api, node, "8")

    assert amounts(target, node) == ("8", "8")


def test_the_node_itself_may(target: Target, node: str) -> None:
    write(target.as_user(f"system:node:{NODE}", "system:nodes"), node, "4")

    assert amounts(target, node) == ("4", "4")


@pytest.mark.parametrize(
    ("user", "group"),
    [
        ("system:node:other", "system:nodes"),
        ("system:serviceaccount:default:default", "system:serviceaccounts"),
    ],
)
def test_others_may_not(target: Target, node: str, user: str, group: str) -> None:
    with pytest.raises(ApiError) as refusal:
        write(target.as_user(user, group), node, "2")

    print(f"as {user}:", refusal.value)
    assert refusal.value.status == 403

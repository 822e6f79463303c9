"""Where the node agents are."""

import msgspec
import pytest

from adapters.cluster.watch.object_tracker import Identity
from adapters.service.in_cluster.agent_metrics import AgentPods
from adapters.wire.agent_report import AgentPod
from adapters.wire.kube import Unreadable

GONE = "2026-01-01T00:00:00Z"


def agent_pod(
    name: str, ip: str = "10.0.0.1", phase: str = "Running", ends: str | None = None
) -> AgentPod:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "system", "deletionTimestamp": ends},
            "spec": {"nodeName": "n1"},
            "status": {"phase": phase, "podIP": ip},
        },
        AgentPod,
    )


def put(*pods: AgentPod) -> AgentPods:
    agents = AgentPods()
    for each in pods:
        agents.on_update(each)
    return agents


def test_a_running_agent_has_the_address_of_its_pod() -> None:
    agents = put(agent_pod("a"))

    assert agents.address("n1") == "10.0.0.1"
    assert agents.address("n2") is None


def test_of_two_pods_with_the_labels_none_counts_until_one_is_gone() -> None:
    agents = put(agent_pod("a"), agent_pod("b", "10.0.0.2"))
    assert agents.address("n1") is None

    agents.on_delete(Identity("system", "b", "uid"))
    assert agents.address("n1") == "10.0.0.1"


def test_a_pod_that_ends_or_does_not_run_yet_has_no_address() -> None:
    assert put(agent_pod("a", ends=GONE)).address("n1") is None
    assert put(agent_pod("a", phase="Pending", ip="")).address("n1") is None
    assert put(agent_pod("a"), agent_pod("a", phase="Failed")).address("n1") is None


def test_a_new_address_replaces_the_old_one_and_an_unreadable_pod_has_none() -> None:
    agents = put(agent_pod("a"), agent_pod("a", "10.0.0.9"))
    assert agents.address("n1") == "10.0.0.9"

    agents.on_unreadable(Unreadable("system", "a", "uid"), "no object")
    agents.on_synced()
    assert agents.address("n1") is None


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "fe80::1",  # noqa: S104
        "::ffff:127.0.0.1", "ff02::1", "example.org", "10.0.0.1/24", "",
    ],
)  # fmt: skip
def test_a_node_cannot_lead_the_service_to_itself_or_to_metadata(address: str) -> None:
    assert put(agent_pod("a", address)).address("n1") is None


def test_an_agent_may_have_an_address_of_ip_6() -> None:
    assert put(agent_pod("a", "fd00::5")).address("n1") == "fd00::5"

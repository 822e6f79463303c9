"""The chart's NetworkPolicies, enforced on each node: who reaches the service, and who does not."""

from collections.abc import Iterator

import pytest

from e2e.kind.pods import create, pod
from e2e.kind.shell import attempt, eventually, get, sh, wait_for

SPACE = "monitoring"
"""From which the chart's defaults let Prometheus in."""


@pytest.fixture(scope="module", autouse=True)
def clients() -> Iterator[None]:
    """A pod like any other, and one in the place of Prometheus."""
    stranger, known = pod("stranger", {}), pod("known", {})
    known["metadata"]["namespace"] = SPACE
    create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    create(stranger, known)
    wait_for("pod/stranger", "--for=condition=Ready")
    wait_for("pod/known", f"--namespace={SPACE}", "--for=condition=Ready")
    yield
    sh("kubectl delete pod stranger")
    sh(f"kubectl delete namespace {SPACE} --wait=false")


def reaches(client: str, port: str) -> bool:
    """Whether a pod connects to a port of the service."""
    service = get("service dragoman", "--namespace=dragoman-system")["spec"]
    (number,) = [row["port"] for row in service["ports"] if row["name"] == port]
    address = f"{service['clusterIP']} {number}"
    return attempt(f"kubectl exec {client} -- nc -w 5 {address} < /dev/null").status == 0


def test_a_stranger_does_not_reach_the_port_without_authentication() -> None:
    eventually(60, lambda: reaches(f"known --namespace={SPACE}", "http"))

    assert not reaches("stranger", "http")


def test_the_port_of_the_webhooks_is_open_to_all() -> None:
    assert reaches("stranger", "https")


def test_the_pod_of_helm_test_is_admitted() -> None:
    sh("helm test dragoman -n dragoman-system --timeout=2m", timeout=150)


def test_a_node_is_not_admitted_by_the_namespace_of_its_pods(workers: list[str]) -> None:
    replicas = "--selector=app.kubernetes.io/component=service"
    replica = get("pods", "--namespace=dragoman-system", replicas)[0]
    connect = f"timeout 5 bash -c '< /dev/tcp/{replica['status']['podIP']}/9595'"
    own = replica["spec"]["nodeName"]
    (other,) = [node for node in workers if node != own]

    assert attempt(f"docker exec {other} {connect}").status != 0
    # A kubelet asks the pods of its node whether they are ready.
    assert attempt(f"docker exec {own} {connect}").status == 0

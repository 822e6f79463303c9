"""Restarts and outages: of our components under load, of all nodes at once, of one node."""

import subprocess

import pytest

from e2e.kind import cards
from e2e.kind.plain_pods import differences
from e2e.kind.pods import (
    create,
    delete,
    environment,
    granted,
    is_created,
    koordinator,
    pod,
    used,
    volcano,
)
from e2e.kind.shell import CommandError, eventually, get, sh, wait_for

MIB = 2**20
SERVICE = "deployment/dragoman --namespace=dragoman-system"
AGENT = "daemonset/dragoman-node --namespace=dragoman-system"


def has_restarted(name: str) -> bool:
    (container,) = get(f"pod {name}")["status"]["containerStatuses"]
    return bool(container["restartCount"] > 0 and container["ready"])


@pytest.mark.usefixtures("gpu_node")
def test_without_a_replica_plain_pods_are_created_and_bound() -> None:
    sh(f"kubectl scale {SERVICE} --replicas=0")
    replicas = "--selector=app.kubernetes.io/component=service"
    eventually(60, lambda: get("pods", "--namespace=dragoman-system", replicas) == [])

    create(pod("plain", {}))

    wait_for("pod/plain", "--for=condition=Ready")
    assert differences() == []
    with pytest.raises(CommandError, match=r"pods\.dragoman\.dev"):
        create(pod("share", volcano(1000)))
    sh(f"kubectl scale {SERVICE} --replicas=2")
    sh(f"kubectl rollout status {SERVICE} --timeout=3m", timeout=200)
    delete("plain")


def test_all_nodes_restart_at_once_and_shares_stay_where_they_were(workers: list[str]) -> None:
    create(pod("stays", volcano(8000)), pod("also-stays", koordinator(25)))
    wait_for("pod/stays pod/also-stays", "--for=condition=Ready")
    before = granted()

    nodes = _by_address()
    subprocess.run(["docker", "stop", "--time=5", *nodes], check=True)
    subprocess.run(["docker", "start", *nodes], check=True)
    for node in workers:
        cards.install(node)

    eventually(120, lambda: get("nodes") != [])
    sh(f"kubectl rollout status {SERVICE} --timeout=4m", timeout=250)
    sh(f"kubectl rollout status {AGENT} --timeout=2m", timeout=130)
    # The kubelet started them again, some before the agent: without it they wait.
    eventually(240, lambda: all(has_restarted(name) for name in before))
    assert granted() == before
    for name, (grant,) in before.items():
        assert environment(name)["NVIDIA_VISIBLE_DEVICES"] == grant["card"]
    # States are stale at first, and the webhook is not reached before kube-proxy runs again.
    eventually(180, lambda: is_created(pod("new", volcano(4000))))
    wait_for("pod/new", "--for=condition=Ready")
    delete("stays", "also-stays", "new")
    eventually(60, lambda: used() == {})


def _by_address() -> list[str]:
    """The cluster's containers in the order of their addresses, so that they get them again."""
    form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}} {{.Name}}"
    found = subprocess.run(
        ["docker", "ps", "--quiet"], capture_output=True, text=True, check=True
    ).stdout.split()
    rows = subprocess.run(
        ["docker", "inspect", f"--format={form}", *found],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [
        row.split("/")[-1]
        for row in sorted(rows, key=lambda row: int(row.split()[0].split(".")[-1]))
    ]


def test_a_drained_node_gives_its_cards_back(workers: list[str]) -> None:
    drained, other = workers[1], workers[0]
    template = pod("moves", volcano(20000))
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "moves"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "moves"}},
            "template": {"metadata": {"labels": {"app": "moves"}}, "spec": template["spec"]},
        },
    }
    sh(f"kubectl cordon {other}")
    create(deployment)
    eventually(90, lambda: len(granted(drained)) == 2)
    sh(f"kubectl uncordon {other}")

    sh(f"kubectl drain {drained} --ignore-daemonsets --timeout=3m", timeout=240)

    eventually(60, lambda: granted(drained) == {})
    sh("kubectl rollout status deployment/moves --timeout=2m")
    assert len(granted(other)) == 2
    sh(f"kubectl uncordon {drained}")
    sh(f"kubectl rollout status {SERVICE} --timeout=2m")
    sh("kubectl delete deployment moves")
    eventually(60, lambda: used() == {})

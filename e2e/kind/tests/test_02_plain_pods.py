"""Beside an installation: pods of NVIDIA's plugin, on a node that nobody described to Dragoman."""

import pytest

from e2e.kind import nvidia
from e2e.kind.plain_pods import containers, differences, plain
from e2e.kind.pods import create, delete, granted
from e2e.kind.shell import get, sh, wait_for

SERVICE = "deployment/dragoman --namespace=dragoman-system"
AGENT = "daemonset/dragoman-node --namespace=dragoman-system"
VALIDATOR = f"daemonset/validator --namespace={nvidia.SPACE}"
UPGRADE = "helm upgrade dragoman charts/dragoman -n dragoman-system --reuse-values"

pytestmark = pytest.mark.usefixtures("gpu_node")


def standing() -> dict[str, tuple[str, int]]:
    """Containers that run since before the installation."""
    return containers("app=trainer") | containers("app=validator", nvidia.SPACE)


def test_pods_from_before_the_installation_run_on() -> None:
    restarts = [count for _, count in standing().values()]

    assert restarts == [0, 0]
    assert "annotations" not in get("pod trainer")["metadata"]


def test_plain_pods_start_while_an_upgrade_replaces_replicas_and_agents() -> None:
    before = standing()
    changed = "--set-string service.podAnnotations.round=1 --set-string node.podAnnotations.round=1"
    sh(f"{UPGRADE} {changed}")

    assert differences() == []

    for each in (SERVICE, AGENT):
        sh(f"kubectl rollout status {each} --timeout=3m", timeout=200)
    assert standing() == before


def test_a_daemon_set_with_a_card_replaces_its_pods() -> None:
    before = containers("app=validator", nvidia.SPACE)

    sh(f"kubectl rollout restart {VALIDATOR}")
    sh(f"kubectl rollout status {VALIDATOR} --timeout=60s")

    assert containers("app=validator", nvidia.SPACE).keys().isdisjoint(before)
    sh(f"kubectl delete {VALIDATOR}")
    delete("trainer")


def test_on_a_described_node_the_same_pod_is_counted(workers: list[str]) -> None:
    counted = plain("counted")
    counted["spec"]["nodeSelector"] = {"kubernetes.io/hostname": workers[0]}
    create(counted)

    wait_for("pod/counted", "--for=condition=Ready")

    assert "counted" in granted(workers[0])
    assert "env" not in get("pod counted")["spec"]["containers"][0]
    delete("counted")

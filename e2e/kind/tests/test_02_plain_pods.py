"""Beside an installation: pods of NVIDIA's plugin, on a node that nothing describes to Dragoman."""

import pytest

from e2e.kind.plain_pods import differences, plain, standing
from e2e.kind.pods import create, delete, granted
from e2e.kind.shell import get, wait_for

pytestmark = pytest.mark.usefixtures("gpu_node")


def test_pods_from_before_the_installation_run_on() -> None:
    assert [restarts for _, restarts in standing().values()] == [0, 0]
    assert "annotations" not in get("pod trainer")["metadata"]


def test_new_plain_pods_start_as_before() -> None:
    assert differences() == []


def test_on_a_described_node_the_same_pod_is_counted(workers: list[str]) -> None:
    counted = plain("counted")
    counted["spec"]["nodeSelector"] = {"kubernetes.io/hostname": workers[0]}
    create(counted)

    wait_for("pod/counted", "--for=condition=Ready")

    assert "counted" in granted(workers[0])
    assert "env" not in get("pod counted")["spec"]["containers"][0]
    delete("counted")

"""Beside an installation: pods of NVIDIA's plugin, on a node that nothing describes to Dragoman."""

import pytest

from e2e.kind import nvidia
from e2e.kind.plain_pods import differences, plain, standing
from e2e.kind.pods import create, delete, granted
from e2e.kind.shell import eventually, get, wait_for

pytestmark = pytest.mark.usefixtures("gpu_node")


def test_pods_from_before_the_installation_run_on() -> None:
    assert [restarts for _, restarts in standing().values()] == [0, 0]
    assert "annotations" not in get("pod trainer")["metadata"]


def test_new_plain_pods_start_as_before() -> None:
    assert differences() == []


def test_a_pod_for_which_no_device_is_left_waits_as_before() -> None:
    """The scheduler counts the devices, also when it asks Dragoman about pods with this name."""
    names = [f"fills-{number}" for number in range(len(nvidia.DEVICES[nvidia.GPU]))]
    create(*(plain(name) for name in names))

    # Two run since before the installation.
    eventually(60, lambda: len(_with_reason(names, "Unschedulable")) == len(standing()))

    waiting = _with_reason(names, "Unschedulable")
    assert "Insufficient nvidia.com/gpu" in str(get(f"pod {waiting[0]}")["status"])
    assert [name for name in names if get(f"pod {name}")["status"]["phase"] == "Failed"] == []
    delete(*names)


def test_on_a_described_node_the_same_pod_is_counted(workers: list[str]) -> None:
    counted = plain("counted")
    counted["spec"]["nodeSelector"] = {"kubernetes.io/hostname": workers[0]}
    create(counted)

    wait_for("pod/counted", "--for=condition=Ready")

    assert "counted" in granted(workers[0])
    assert "env" not in get("pod counted")["spec"]["containers"][0]
    delete("counted")


def _with_reason(names: list[str], reason: str) -> list[str]:
    """Pods with a condition for this reason."""
    return [name for name in names if f"'reason': '{reason}'" in str(get(f"pod {name}")["status"])]

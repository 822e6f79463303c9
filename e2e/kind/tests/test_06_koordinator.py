"""Koordinator: its own manifests, and docs/reference/schedulers/koord-scheduler.md."""

import shutil
import time
from pathlib import Path

import pytest

from e2e.harness.processes.run import REPOSITORY
from e2e.kind import cards
from e2e.kind.documentation import blocks
from e2e.kind.pods import (
    create,
    delete,
    environment,
    granted,
    hami,
    koordinator,
    pod,
    used,
    volcano,
)
from e2e.kind.shell import eventually, get, sh, wait_for
from e2e.testbed import cache

PAGE = "docs/reference/schedulers/koord-scheduler.md"
OVERLAY = REPOSITORY / "e2e/kind/koordinator/kustomization.yaml"
MIB = 2**20


def test_the_scheduler_of_koordinators_manifests_runs_with_what_configure_prints(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "koordinator"
    shutil.copytree(cache.asset("koordinator", "manifests"), folder / "config")
    shutil.copy(OVERLAY, folder)
    sh(f"kubectl create -k {folder}")
    for name in ("koord-manager", "koord-scheduler"):
        sh(f"kubectl -n koordinator-system rollout status deployment {name} --timeout=2m", 150)
    block = blocks(PAGE)[0]

    sh(f"cd {tmp_path}\n{block}")

    sh("kubectl -n koordinator-system rollout status deployment koord-scheduler --timeout=2m", 150)
    written = get("configmap koord-scheduler-config", "--namespace=koordinator-system")
    assert "http://dragoman." in str(written["data"])


def test_pods_of_three_dialects_and_three_schedulers_share_one_card(workers: list[str]) -> None:
    node = workers[0]
    create(pod("whole", volcano(cards.MEMORY_MIB), node=node, scheduler="volcano"))
    wait_for("pod/whole", "--for=condition=Ready")
    create(
        pod("by-volcano", volcano(6000, cores=20), node=node, scheduler="volcano"),
        pod("by-koord", koordinator(25), node=node, scheduler="koord-scheduler"),
        pod("by-kube", hami(5000, cores=30), node=node),
    )

    wait_for("pod/by-volcano pod/by-koord pod/by-kube", "--for=condition=Ready")

    grants = {name: rows[0] for name, rows in granted(node).items()}
    shared = grants["by-volcano"]["card"]
    assert shared != grants["whole"]["card"]
    assert {name: row["card"] for name, row in grants.items() if name != "whole"} == dict.fromkeys(
        ("by-volcano", "by-koord", "by-kube"), shared
    )
    assert used()[shared] == (6000 + cards.MEMORY_MIB // 4 + 5000) * MIB
    limits = {"by-volcano": "6000m", "by-koord": f"{cards.MEMORY_MIB // 4}m", "by-kube": "5000m"}
    for name, limit in limits.items():
        inside = environment(name)
        assert inside["NVIDIA_VISIBLE_DEVICES"] == shared
        assert inside["CUDA_DEVICE_MEMORY_LIMIT_0"] == limit
    # Koordinator's webhook has seen its pod, and its node components' record is on it.
    found = get("pod by-koord")
    assert "scheduling.koordinator.sh/device-allocated" in found["metadata"]["annotations"]
    assert "hami.io/vgpu-devices-allocated" in get("pod by-kube")["metadata"]["annotations"]
    delete("whole", "by-volcano", "by-koord", "by-kube")
    eventually(30, lambda: used() == {})


@pytest.mark.parametrize("scheduler", ["koord-scheduler", "default-scheduler"])
def test_a_gang_of_three_dialects_is_bound_as_a_whole_or_not_at_all(
    workers: list[str], scheduler: str
) -> None:
    node, most = workers[0], cards.MEMORY_MIB * 3 // 5
    shares = (volcano(most), koordinator(60), hami(most, cores=0))
    too_many = gang("too-many", node, scheduler, *shares)
    time.sleep(15)

    assert not any(get(f"pod {name}")["spec"].get("nodeName") for name in too_many)
    assert used() == {}
    delete(*too_many)

    fitting = gang("fitting", node, scheduler, *shares[: cards.CARDS])
    wait_for("pod", *fitting, "--for=condition=Ready")
    assert len({environment(name)["NVIDIA_VISIBLE_DEVICES"] for name in fitting}) == cards.CARDS
    delete(*fitting)
    eventually(60, lambda: used() == {})


def gang(name: str, node: str, scheduler: str, *shares: dict[str, int]) -> list[str]:
    """Create pods of one gang in Koordinator's words; their names."""
    key, group = "gang.scheduling.koordinator.sh", f"{name}-{scheduler}"
    texts = {f"{key}/name": group, f"{key}/min-available": str(len(shares))}
    names = [f"{group}-{number}" for number in range(len(shares))]
    pods = [
        pod(each, share, node=node, scheduler=scheduler)
        for each, share in zip(names, shares, strict=True)
    ]
    for made in pods:
        made["metadata"]["annotations"] = texts
    create(*pods)
    return names

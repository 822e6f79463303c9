"""docs/guides/upgrade.md: its commands, there and back, while containers run."""

from pathlib import Path
from typing import Any

from e2e.kind import cards, static_pod
from e2e.kind.documentation import blocks
from e2e.kind.pods import create, delete, environment, granted, koordinator, pod, used, volcano
from e2e.kind.shell import eventually, get, sh, wait_for

PAGE = "docs/guides/upgrade.md"
VALUES = "-f e2e/kind/values.yaml --wait --timeout=4m"
NAMES = ("by-volcano", "by-koord")
MIB = 2**20


def running() -> dict[str, Any]:
    """What an upgrade must not change of the pods."""
    pods = [get(f"pod {name}") for name in NAMES]
    return {
        each["metadata"]["name"]: (
            each["metadata"]["annotations"],
            each["status"]["containerStatuses"][0]["containerID"],
        )
        for each in pods
    }


def shares() -> dict[str, list[tuple[str, int]]]:
    return {
        name: [(row["card"], row["memory"]) for row in rows] for name, rows in granted().items()
    }


def test_kubeadms_scheduler_forgets_the_service(tmp_path: Path) -> None:
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(static_pod.configuration())

    without = sh(f"dragoman configure kube-scheduler -f {file} --undo")

    assert "extenders" in file.read_text()
    assert "extenders" not in without
    static_pod.restore()
    eventually(120, lambda: static_pod.is_ready(configured=False))


def test_there_and_back_no_running_container_changes(workers: list[str]) -> None:
    node = workers[0]
    # What the device plugins say of the cards while the agents are away.
    register = f"volcano.sh/node-vgpu-register='{cards.register(node)}'"
    sh(f"kubectl annotate node {node} {register}")
    create(cards.device(node))
    create(
        pod("by-volcano", volcano(8000, cores=25), node=node, scheduler="volcano"),
        pod("by-koord", koordinator(50), node=node, scheduler="koord-scheduler"),
    )
    wait_for("pod", *NAMES, "--for=condition=Ready")
    held, before = shares(), running()
    schedulers, hooks, removal = blocks(PAGE, "Back")
    *_, without_sidecars = blocks("docs/reference/schedulers/README.md", "As a sidecar")

    sh(schedulers)
    sh(without_sidecars, timeout=200)
    sh(hooks)
    sh(removal, timeout=200)

    assert running() == before

    (look,) = blocks(PAGE, "Before you change anything")
    assert all(card in sh(look) for rows in held.values() for card, _ in rows)
    service, ready, agent, hooks = blocks(PAGE, "Migrating")
    sh(f"{service.rstrip()} {VALUES}", timeout=300)
    eventually(60, lambda: shares() == held, lambda: f"{shares()} instead of {held}")
    assert "ok" in sh(ready)
    install, status = agent.rsplit("\n", 2)[:2]
    sh(f"{install} {VALUES}", timeout=300)
    sh(status)
    sh(f"{hooks.rstrip()} --wait --timeout=4m", timeout=300)
    for page in ("vc-scheduler", "koord-scheduler"):
        sh(f"cd $(mktemp -d)\n{blocks(f'docs/reference/schedulers/{page}.md')[0]}")
    for space, name in (
        ("volcano-system", "volcano-scheduler"),
        ("koordinator-system", "koord-scheduler"),
    ):
        sh(f"kubectl -n {space} rollout status deployment {name} --timeout=3m", 200)

    assert running() == before
    assert shares() == held
    create(
        pod("new-by-volcano", volcano(12000), node=node, scheduler="volcano"),
        pod("new-by-koord", koordinator(30), node=node, scheduler="koord-scheduler"),
    )
    wait_for("pod/new-by-volcano pod/new-by-koord", "--for=condition=Ready")
    assert max(used().values()) <= cards.MEMORY_MIB * MIB
    for name in ("new-by-volcano", "new-by-koord"):
        assert environment(name)["NVIDIA_VISIBLE_DEVICES"] == shares()[name][0][0]
    delete(*NAMES, "new-by-volcano", "new-by-koord")
    eventually(60, lambda: used() == {})
    sh(f"kubectl annotate node {node} volcano.sh/node-vgpu-register-")
    sh(f"kubectl delete devices.scheduling.koordinator.sh {node}")


def test_the_schedulers_forget_the_service() -> None:
    schedulers, *_ = blocks(PAGE, "Back")

    sh(schedulers)

    for space, name in (
        ("volcano-system", "volcano-scheduler-configmap"),
        ("koordinator-system", "koord-scheduler-config"),
    ):
        assert "dragoman" not in str(get(f"configmap {name}", f"--namespace={space}")["data"])

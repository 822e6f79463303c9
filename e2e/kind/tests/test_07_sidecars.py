"""Sidecars of docs/reference/schedulers/README.md in the schedulers' pods; then restarts."""

import json
from functools import partial
from pathlib import Path

from e2e.harness.processes.run import REPOSITORY
from e2e.kind import cards, static_pod
from e2e.kind.documentation import blocks
from e2e.kind.pods import (
    Pod,
    create,
    delete,
    granted,
    hami,
    is_created,
    koordinator,
    pod,
    used,
    volcano,
)
from e2e.kind.shell import attempt, eventually, get, sh, wait_for

PAGE = "docs/reference/schedulers/README.md"
MIB = 2**20
SCHEDULERS = {"volcano-system": "volcano-scheduler", "koordinator-system": "koord-scheduler"}
RESTARTED = [
    "deployment/dragoman --namespace=dragoman-system",
    "daemonset/dragoman-node --namespace=dragoman-system",
    *(f"deployment/{name} --namespace={space}" for space, name in SCHEDULERS.items()),
    "deployment/volcano-controllers --namespace=volcano-system",
    "deployment/koord-manager --namespace=koordinator-system",
]


def load(prefix: str, count: int) -> list[Pod]:
    """Pods of three dialects and schedulers in turn, which fit on the cards of two nodes."""
    kinds = (
        (volcano(2000, cores=6), "volcano"),
        (koordinator(8), "koord-scheduler"),
        (hami(2000, cores=6), ""),
    )
    rows = [(f"{prefix}-{index}", *kinds[index % len(kinds)]) for index in range(count)]
    return [pod(name, limits, app=prefix, scheduler=by) for name, limits, by in rows]


def names(pods: list[Pod]) -> list[str]:
    return [each["metadata"]["name"] for each in pods]


def test_sidecars_are_added_by_the_pages_commands(tmp_path: Path) -> None:
    (tmp_path / "charts").symlink_to(REPOSITORY / "charts")

    *adding, _ = blocks(PAGE, "As a sidecar")
    for block in adding:
        sh(f"cd {tmp_path}\n{block}")

    for space, name in SCHEDULERS.items():
        sh(f"kubectl -n {space} rollout status deployment {name} --timeout=3m", 200)
        found = get(f"deployment {name}", f"--namespace={space}")["spec"]["template"]["spec"]
        assert "dragoman" in [row["name"] for row in found["containers"]]


def test_everything_restarts_under_load_without_a_lost_or_doubled_share() -> None:
    before, during = load("before", 9), load("during", 15)
    create(*before)
    wait_for("pod", "--for=condition=Ready", "--selector=app=before")
    granted_before = granted()

    sh("\n".join(f"kubectl rollout restart {each}" for each in RESTARTED))
    sh(f"docker exec {static_pod.NODE} pkill -x kube-scheduler")
    for new in during:
        eventually(60, partial(is_created, new))
    for each in RESTARTED:
        sh(f"kubectl rollout status {each} --timeout=4m", timeout=250)

    wait_for("pod", "--for=condition=Ready", "--selector=app=during", seconds=240)
    after = granted()
    assert {name: after[name] for name in granted_before} == granted_before
    assert after.keys() == {*names(before), *names(during)}
    assert max(used().values()) <= cards.MEMORY_MIB * MIB
    restarts = [
        row["restartCount"]
        for each in get("pods", "--selector=app=before")
        for row in each["status"]["containerStatuses"]
    ]
    assert set(restarts) == {0}
    delete(*names(before), *names(during))
    eventually(30, lambda: used() == {})


def test_doctor_finds_no_error() -> None:
    said = attempt("dragoman doctor -o json")

    print(said.output, said.errors)
    found = json.loads(said.output)
    assert found["counts"]["error"] == 0
    reached = "the API server reaches dragoman-system/dragoman, which is ready"
    assert reached in [row["text"] for row in found["findings"]]

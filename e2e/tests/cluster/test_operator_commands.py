"""The operator's commands against a real API server that knows nothing of Dragoman."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import PODS, bind, cluster, pod
from e2e.harness.processes.run import REPOSITORY

pytestmark = pytest.mark.local("it counts all nodes and pods of the cluster")

CARDS = "GPU-0,10,23040,NVIDIA-A10,true,hami-core:GPU-1,10,23040,NVIDIA-A10,true,hami-core:"
NODE = fake_node(
    "gpu-1",
    {"volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "46080"},
    {"volcano.sh/node-vgpu-register": CARDS},
)
MANY = 600
"""More objects than a page has."""


def volcano(memory: int, number: int = 1) -> dict[str, str]:
    return {"volcano.sh/vgpu-number": str(number), "volcano.sh/vgpu-memory": str(memory)}


@dataclass(frozen=True, slots=True)
class Lab:
    """A cluster with one full card, and an administrator's kubeconfig."""

    plane: ControlPlane
    kubeconfig: Path

    def dragoman(
        self, *words: str, environ: dict[str, str] | None = None, status: int = 0
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command as an installed one; ``environ`` replaces ``KUBECONFIG``."""
        chosen = {"KUBECONFIG": str(self.kubeconfig)} if environ is None else environ
        kept = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        done = subprocess.run(
            [sys.executable, "-c", "from adapters.cli.main import main; main()", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=REPOSITORY,
            env=kept | chosen,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def plain(self, *words: str, status: int = 0) -> Any:
        return json.loads(self.dragoman(*words, "-o", "json", status=status).stdout)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two pods that another scheduler bound to one card, and one that waits."""
    with cluster([NODE]) as plane:
        for name, memory in (("training", 20000), ("inference", 12000)):
            plane.api.create(PODS, pod(name, "none", volcano(memory)))
            bind(plane.api, name, "gpu-1", {"volcano.sh/vgpu-ids-new": f"GPU-0,NVIDIA,{memory},0:"})
        plane.api.create(PODS, pod("evaluation", "none", volcano(12000, number=2)))
        yield Lab(plane, plane.kubeconfig("operator", "system:masters"))


def test_the_audit_finds_the_card_that_is_allocated_twice(lab: Lab) -> None:
    (found,) = lab.plain("audit", status=1)["findings"]

    assert (found["rule"], found["node"], found["card"]) == (
        "memory-over-allocated",
        "gpu-1",
        "GPU-0",
    )
    assert "default/training (volcano) 19.5 GiB" in found["text"]
    assert "default/inference (volcano) 11.7 GiB" in found["text"]


def test_top_counts_what_the_pods_have(lab: Lab) -> None:
    (node,) = lab.plain("top", "nodes")["items"]

    assert (node["cards"], node["idle"], node["pods"], node["grantedMiB"]) == (2, 1, 2, 32000)
    assert node["largestMiB"] == 23040
    assert len(lab.plain("who", "gpu-1/0")["items"]) == 2


def test_explain_names_the_reason_and_the_pods_that_would_have_to_end(lab: Lab) -> None:
    shown = lab.dragoman("explain", "pod", "evaluation", status=1).stdout

    assert "default/evaluation (volcano) is pending: fits none of 1 node" in shown
    assert "1 of 2 cards: memory 20960 MiB short (gpu-1)" in shown
    assert "request less for main: number of cards, at most 1" in shown


def test_the_commands_read_the_files_of_kubeconfig_in_order(lab: Lab, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(
        '{"clusters": [], "users": [], "current-context": "elsewhere", "contexts":'
        ' [{"name": "elsewhere", "context": {"cluster": "c", "user": "u"}}]}'
    )
    files = os.pathsep.join([str(lab.kubeconfig), str(tmp_path / "missing"), str(other)])

    done = lab.dragoman("top", "-o", "name", environ={"KUBECONFIG": files})

    assert done.stdout == "node/gpu-1\n"


def test_a_user_who_may_not_list_pods_learns_what_is_needed(lab: Lab) -> None:
    visitor = lab.plane.kubeconfig("visitor")

    done = lab.dragoman("top", "--kubeconfig", str(visitor), status=2)

    assert "403 Forbidden: must list " in done.stderr
    assert done.stderr.count("\n") == 1


def test_more_pods_than_a_page_are_counted_and_nothing_is_written(lab: Lab) -> None:
    path = f"/api/v1/namespaces/{_namespace(lab)}/pods"
    for number in range(MANY):
        lab.plane.api.create(path, pod(f"many-{number}", "none", volcano(99999)))
    before = lab.plane.api.get(PODS)["metadata"]["resourceVersion"]

    waiting = lab.plain("pending", "-n", "many")["items"]

    after = [
        row["metadata"]["resourceVersion"]
        for collection in (PODS, "/api/v1/nodes")
        for row in lab.plane.api.get(collection)["items"]
        if row["metadata"]["name"] in ("training", "inference", "evaluation")
    ]
    assert len(waiting) == MANY
    assert all(int(version) <= int(before) for version in after)


def _namespace(lab: Lab) -> str:
    lab.plane.api.create("/api/v1/namespaces", {"metadata": {"name": "many"}})
    return "many"

"""``--cluster=KUBECONFIG``: the same tests on a control plane that another process has started."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.harness.cluster.api import Api
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.ready_cluster import PODS, pod
from e2e.harness.processes.run import REPOSITORY, run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import define
from e2e.testbed import cache

pytestmark = pytest.mark.local

ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/default/token"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with run() as this:
        yield start_control_plane(this)


def run_there(kubeconfig: Path, *files: str, only: str = "") -> tuple[int, int, str]:
    """Run test files there, as a user does: passed, skipped, and what it said."""
    paths = [f"e2e/tests/{name}.py" for name in files] + (["-k", only] if only else [])
    words = ["-m", "pytest", f"--cluster={kubeconfig}", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *words, *paths],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-2000:])
    assert done.returncode == 0
    found = [re.search(rf"(\d+) {word}", done.stdout) for word in ("passed", "skipped")]
    passed, skipped = [int(each[1]) if each else 0 for each in found]
    return passed, skipped, done.stdout


def test_with_a_certificate(plane: ControlPlane) -> None:
    files = (
        "cluster/test_control_plane",
        "cluster/test_binding_webhook",
        "cluster/test_node_status",
        "schedulers/test_kube_extender",
    )

    passed, skipped, said = run_there(plane.kubeconfig("admin", "system:masters"), *files)

    assert passed > 20
    assert skipped > 5
    assert "starts components of its own: --cluster=local" in said


def has_accounts(api: Api) -> bool:
    """Whether the controller manager has made the namespace's account."""
    found = api.get("/api/v1/namespaces/kube-system/serviceaccounts")["items"]
    return any(each["metadata"]["name"] == "default" for each in found)


def test_with_a_token_and_what_the_first_run_made_is_gone(plane: ControlPlane) -> None:
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    plane.api.create(
        BINDINGS, {"metadata": {"name": "e2e"}, "subjects": [subject], "roleRef": role}
    )
    within(60, lambda: has_accounts(plane.api))
    token = plane.api.create(ACCOUNT, {})["status"]["token"]
    given = json.loads(plane.kubeconfig("admin", "system:masters").read_text())
    given["users"][0]["user"] = {"token": token}
    file = plane.run.folder / "token.kubeconfig"
    file.write_text(json.dumps(given))

    passed, skipped, _ = run_there(file, "cluster/test_control_plane", "cluster/test_node_status")

    assert (passed, skipped) == (10, 1)


def names(api: Api) -> dict[str, list[str]]:
    """Names of all objects that belong to no namespace, by their collection."""
    groups = [row["preferredVersion"]["groupVersion"] for row in api.get("/apis")["groups"]]
    found = {}
    for path in ("/api/v1", *(f"/apis/{group}" for group in groups)):
        for kind in api.get(path)["resources"]:
            if not kind["namespaced"] and "list" in kind["verbs"]:
                collection = f"{path}/{kind['name']}"
                rows = api.get(collection)["items"]
                found[collection] = sorted(row["metadata"]["name"] for row in rows)
    return found


@pytest.mark.timeout(300)
def test_a_guides_pod_goes_the_whole_way_beside_others_and_leaves_nothing_behind(
    plane: ControlPlane,
) -> None:
    """What is on the cluster stays as it is: the peers' definitions, a pod that asks for a card."""
    for component, asset in (("koordinator", "crd"), ("volcano", "crd"), ("volcano", "flow-crd")):
        define(plane, cache.asset(component, asset))
    bystander = pod("bystander", "volcano", {"volcano.sh/vgpu-number": "1"})
    was = plane.api.create(PODS, bystander)
    before = names(plane.api)

    passed, skipped, _ = run_there(
        plane.kubeconfig("admin", "system:masters"),
        "guides/test_whole_way",
        only="volcano-hami-core",
    )

    assert (passed, skipped) == (1, 0)
    with suppress(TimeoutError):
        within(60, lambda: names(plane.api) == before)
    assert names(plane.api) == before
    assert plane.api.get(f"{PODS}/bystander") == was
    plane.api.delete(f"{PODS}/bystander?gracePeriodSeconds=0")


def test_where_nodes_have_cards_of_their_own_the_tests_stay_away(plane: ControlPlane) -> None:
    node = {"metadata": {"name": "theirs"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    plane.api.create("/api/v1/nodes", node)

    passed, skipped, said = run_there(
        plane.kubeconfig("admin", "system:masters"), "schedulers/test_koordinator_arbiter"
    )

    plane.api.delete("/api/v1/nodes/theirs")
    assert (passed, skipped) == (0, 4)
    assert "node theirs has cards, which are not the tests'" in said


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pytest", f"--cluster={tmp_path / 'none'}", "-q"]
    done = subprocess.run(
        [*words, "e2e/tests/cluster/test_node_status.py"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "no such file, or an empty one" in done.stdout

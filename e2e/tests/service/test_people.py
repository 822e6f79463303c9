"""What people with few rights get from the command: a real API server knows what they may."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import fake_node
from e2e.harness.cluster.ready_cluster import cluster, pod
from e2e.harness.names import LEDGERS
from e2e.harness.processes.run import REPOSITORY
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, install, start_service
from e2e.kind.documentation import blocks
from e2e.testbed import cache

pytestmark = pytest.mark.local("it counts all nodes and pods of the cluster")

RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
NODE = fake_node(
    "gpu-1",
    {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "23040"},
    {"volcano.sh/node-vgpu-register": "GPU-0,10,23040,NVIDIA-A10,true,hami-core:"},
)
OTHERS = "secretive"
"""A namespace, and the begin of the names of its pods, that no tenant of ``ml`` may read."""

READING = (
    ("top", "nodes"),
    ("top", "cards"),
    ("top", "pods", "-A"),
    ("top", "namespaces"),
    ("who", "gpu-1"),
    ("pending", "-A"),
    ("audit",),
    ("explain", "pod", "mine", "-n", "ml"),
    ("whatif", "--add", "gpu-1=1"),
    ("defrag", "--free-nodes", "1"),
    ("doctor",),
)
"""The commands of docs/reference/cli/README.md that read a cluster."""


def dragoman(config: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *words, "--kubeconfig", config],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=100,
    )


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Two namespaces, in each a pod with a share of one card, and one that waits."""
    share, much = ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": size}
                   for size in ("1000", "90000"))  # fmt: skip
    with cluster([NODE]) as plane:
        install(plane)
        for space, name in (("ml", "mine"), (OTHERS, f"{OTHERS}-model")):
            plane.api.create("/api/v1/namespaces", {"metadata": {"name": space}})
            pods = f"/api/v1/namespaces/{space}/pods"
            default = f"/api/v1/namespaces/{space}/serviceaccounts/default"
            within(30, partial(may, plane.api, default))
            plane.api.create(pods, pod(name, "none", share))
            plane.api.create(pods, pod(f"{name}-waits", "none", much))
            body = {
                "metadata": {
                    "name": name,
                    "annotations": {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1000,0:"},
                },
                "target": {"kind": "Node", "name": "gpu-1"},
            }
            plane.api.create(f"{pods}/{name}/binding", body)
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Service:
    return start_service(plane, web={"authorize": True})


@pytest.fixture(scope="module")
def tenant(plane: ControlPlane) -> Path:
    """An account with view of its namespace, and no other right."""
    bind(plane.api, f"{RIGHTS}/namespaces/ml/rolebindings", "default", "ml")
    return account(plane, "ml", "default")


@pytest.fixture(scope="module")
def viewer(plane: ControlPlane) -> Path:
    """An account with view of the whole cluster."""
    plane.api.create("/api/v1/namespaces/ml/serviceaccounts", {"metadata": {"name": "viewer"}})
    bind(plane.api, f"{RIGHTS}/clusterrolebindings", "viewer", "ml")
    return account(plane, "ml", "viewer")


def bind(api: Api, path: str, name: str, space: str) -> None:
    """Give an account the role ``view``."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": space}]
    api.create(path, {"metadata": {"name": name}, "roleRef": role, "subjects": subjects})


def may(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError:
        return False
    return True


@pytest.fixture(scope="module")
def reader(plane: ControlPlane) -> Path:
    """A user with the role by the command of the documentation, and no other right."""
    (block,) = [
        each for each in blocks("docs/reference/cli/README.md") if "clusterrolebinding" in each
    ]
    words: list[str] = block.replace("--group=GROUP", "--user=reader").split()[1:]
    admin = plane.kubeconfig("admin", "system:masters")
    kubectl = cache.binary("kubernetes", "kubectl")
    subprocess.run([kubectl, f"--kubeconfig={admin}", *words], check=True)
    within(30, lambda: may(plane.as_user("reader"), LEDGERS))
    return plane.kubeconfig("reader")


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_the_readers_role_is_enough_for_every_command_that_reads(
    reader: Path, words: tuple[str, ...]
) -> None:
    done = dragoman(reader, *words)

    assert done.returncode in (0, 1), done.stderr
    assert "forbidden" not in done.stderr.lower()
    if words == ("doctor",):  # what it does beside reading
        unread = [line for line in done.stdout.splitlines() if "cannot be read" in line]
        assert all("secrets" in line or "subjectaccessreviews" in line for line in unread), unread


def test_view_reads_ledgers_and_plans_of_the_cluster_and_of_a_namespace_none(
    plane: ControlPlane, viewer: Path, tenant: Path
) -> None:
    kubectl = cache.binary("kubernetes", "kubectl")

    def reads(config: Path, kind: str) -> bool:
        words: list[str | Path] = [kubectl, f"--kubeconfig={config}", "get", f"{kind}.dragoman.dev"]
        return not subprocess.run(words, capture_output=True, check=False).returncode

    within(30, lambda: reads(viewer, "nodeledgers") and reads(viewer, "moveplans"))
    within(30, lambda: may(plane.api.impersonating("system:serviceaccount:ml:default"),
                           "/api/v1/namespaces/ml/pods"))  # fmt: skip
    assert not reads(tenant, "nodeledgers")
    assert not reads(tenant, "moveplans")


ASKING = (
    ("pending",),
    ("top", "pods"),
    ("who", "gpu-1"),
    ("explain", "pod", "mine"),
    ("explain", "pod", "mine-waits"),
)


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
@pytest.mark.parametrize("output", [(), ("-o", "json")], ids=["text", "json"])
def test_a_tenant_is_answered_about_its_namespace_by_the_service(
    service: Service, tenant: Path, words: tuple[str, ...], output: tuple[str, ...]
) -> None:
    done = dragoman(tenant, *words, *output, "-n", "ml", "--service", service.url)

    assert done.returncode in (0, 1), done.stderr
    assert "mine" in done.stdout
    assert OTHERS not in done.stdout + done.stderr
    assert dragoman(tenant, *words, "-n", "ml").returncode == 2  # it may not read the cluster


def test_the_service_counts_the_shares_of_others(service: Service, tenant: Path) -> None:
    done = dragoman(tenant, "who", "gpu-1", "-n", "ml", "--service", service.url)

    assert "1 share is of other namespaces" in done.stderr


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_tenant_gets_nothing_of_another_namespace(
    service: Service, tenant: Path, words: tuple[str, ...]
) -> None:
    done = dragoman(tenant, *words, "-n", OTHERS, "--service", service.url)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"403: the owner of the token may not list pods in namespace {OTHERS}" in done.stderr


def test_a_viewer_of_the_cluster_is_answered_about_every_namespace(
    service: Service, viewer: Path
) -> None:
    for space, name in (("ml", "mine"), (OTHERS, f"{OTHERS}-model")):
        done = dragoman(viewer, "top", "pods", "-n", space, "--service", service.url)
        assert name in done.stdout, done.stderr


def answer(service: Service, path: str, fields: dict[str, str]) -> tuple[int, bytes]:
    """The service's answer to a request with these header fields."""
    with closing(http.client.HTTPConnection("127.0.0.1", service.clear, timeout=10)) as port:
        port.request("GET", path, headers=fields)
        got = port.getresponse()
        return got.status, got.read()


def token_of(plane: ControlPlane, **spec: object) -> str:
    path = "/api/v1/namespaces/ml/serviceaccounts/default/token"
    return str(plane.api.create(path, {"spec": spec})["status"]["token"])


def test_only_a_token_for_the_api_server_itself_counts(
    plane: ControlPlane,
    service: Service,
    tenant: Path,  # noqa: ARG001 - binds the account
) -> None:
    good = token_of(plane)
    header, payload, signature = good.split(".")
    forged = f"{header}.{payload}.{signature[::-1]}"
    path = "/api/tenant/pods?namespace=ml"

    def status(path: str, token: str, **more: str) -> int:
        return answer(service, path, {"Authorization": f"Bearer {token}", **more})[0]

    within(30, lambda: status(path, good) == 200)
    assert status(path, token_of(plane, audiences=["vault"])) == 401
    assert status(path, forged) == 401
    assert status(path, f"{header}.{payload}.") == 401
    other = f"/api/tenant/pods?namespace={OTHERS}"
    for field in ("X-Remote-User", "Impersonate-User", "X-Forwarded-User"):
        fields = {field: "system:admin", "X-Remote-Group": "system:masters"}
        assert status(other, good, **fields) == 403
    for people in ("/api/pods", "/api/dashboard/pods?namespace=ml", "/api/explain?pod=ml/mine"):
        assert status(people, good) == 403
        code, text = answer(service, people, {})
        assert (code, "token" in json.loads(text)["error"]) == (401, True)

"""What guests of a cluster call the default namespace is their own, and who they say they are."""

import json
import ssl
from pathlib import Path

import pytest

from e2e.harness.cluster.api import Api
from e2e.harness.cluster.certificates import Authority
from e2e.harness.cluster.credentials import Entry
from e2e.harness.cluster.shared_cluster import Guest
from e2e.harness.processes.run import Run

SERVER, PROOF = {"server": "https://there:6443"}, {"tokenFile": "/private/token"}


def guest(folder: Path) -> Guest:
    return Guest(
        run=Run(folder),
        authority=Authority.create(folder / "certificates"),
        server_port=6443,
        api=Api(6443, ssl.create_default_context(), home="ours"),
        entry=Entry(SERVER, PROOF),
    )


def user(file: Path) -> dict[str, object]:
    content = json.loads(file.read_text())
    assert content["clusters"][0]["cluster"] == SERVER
    found: dict[str, object] = content["users"][0]["user"]
    return found


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/api/v1/namespaces/default/pods", "/base/api/v1/namespaces/ours/pods"),
        ("/api/v1/namespaces/default-2/pods", "/base/api/v1/namespaces/default-2/pods"),
        ("/api/v1/namespaces/kube-system/pods", "/base/api/v1/namespaces/kube-system/pods"),
        ("/api/v1/nodes/default", "/base/api/v1/nodes/default"),
    ],
)
def test_the_default_namespace_is_the_guests_own(path: str, there: str) -> None:
    api = Api(6443, ssl.create_default_context(), root="/base", home="ours")

    assert api.at(path) == there


def test_what_belongs_to_no_namespace_is_remembered() -> None:
    api = Api(6443, ssl.create_default_context())
    name = {"metadata": {"name": "it"}}

    api.note("/api/v1/nodes", name)
    api.note("/api/v1/namespaces", name)
    api.note("/api/v1/namespaces/default/pods", name)
    api.note("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {}})

    assert api.made == ["/api/v1/nodes/it", "/api/v1/namespaces/it"]


def test_the_administrator_speaks_for_others_and_for_himself(tmp_path: Path) -> None:
    plane = guest(tmp_path)

    kubelet = user(plane.kubeconfig("system:node:one", "system:nodes"))
    scheduler = user(plane.kubeconfig("volcano", "system:masters"))
    account = user(plane.with_token(tmp_path / "service.token"))

    assert kubelet == {**PROOF, "as": "system:node:one", "as-groups": ["system:nodes"]}
    assert scheduler == PROOF
    assert account == {"tokenFile": str(tmp_path / "service.token")}
    assert plane.scheduler("volcano") == "volcano-e2e"

"""People with the role ``view``, of the cluster or of one namespace, ask the installed service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.kind.pods import create, pod, volcano
from e2e.kind.shell import attempt, beside, eventually, sh, wait_for

UPGRADE = (
    "helm upgrade dragoman charts/dragoman -n dragoman-system --reuse-values --wait --timeout=4m"
    " --set service.settings.web.authorize="
)
FORWARD = "kubectl port-forward -n dragoman-system deployment/dragoman 19595:9595"
SERVICE = "--service http://127.0.0.1:19595"
ACCOUNTS = """
kubectl create namespace people
kubectl create serviceaccount viewer -n people
kubectl create serviceaccount tenant -n people
kubectl create clusterrolebinding viewer --clusterrole=view --serviceaccount=people:viewer
kubectl create rolebinding tenant -n people --clusterrole=view --serviceaccount=people:tenant
"""
GONE = """
kubectl delete namespace people
kubectl delete clusterrolebinding viewer
kubectl delete pod of-another-namespace
"""


@pytest.fixture(scope="module", autouse=True)
def asking() -> Iterator[None]:
    """A share in two namespaces, two accounts, and a way to the service of a release that asks."""
    sh(UPGRADE + "true", 250)
    sh(ACCOUNTS)
    mine = pod("mine", volcano(1000))
    mine["metadata"]["namespace"] = "people"
    create(mine, pod("of-another-namespace", volcano(1000)))
    wait_for("pod/mine", "--for=condition=Ready", "--namespace=people")
    wait_for("pod/of-another-namespace", "--for=condition=Ready")
    with beside(FORWARD):
        eventually(30, lambda: not attempt("curl -sf http://127.0.0.1:19595/readyz").status)
        yield
    sh(GONE)
    sh(UPGRADE + "false", 250)


def config(folder: Path, account: str) -> Path:
    """A kubeconfig of an account."""
    file = folder / account
    words = f"kubectl --kubeconfig={file} config"
    sh(f"""
        kubectl config view --raw --minify --flatten > {file}
        {words} set-credentials {account} --token="$(kubectl create token {account} -n people)"
        {words} set-context --current --user={account}
    """)
    return file


def test_with_view_of_one_namespace_its_pods_are_answered_and_no_others(tmp_path: Path) -> None:
    tenant = f"--kubeconfig={config(tmp_path, 'tenant')}"

    found = sh(f"dragoman explain pod mine -n people {SERVICE} {tenant}")
    shares = sh(f"dragoman top pods -n people {SERVICE} {tenant}")
    refused = attempt(f"dragoman top pods -n default {SERVICE} {tenant}")

    assert "mine" in found
    assert "mine" in shares
    assert "of-another-namespace" not in found + shares
    assert refused.status == 2
    assert "may not list pods in namespace default" in refused.errors
    assert attempt(f"dragoman top pods -n people {tenant}").status == 2


def test_with_view_of_the_cluster_every_namespace_and_the_ledgers_are_answered(
    tmp_path: Path,
) -> None:
    viewer = f"--kubeconfig={config(tmp_path, 'viewer')}"

    assert "of-another-namespace" in sh(f"dragoman top pods -n default {SERVICE} {viewer}")
    assert "mine" in sh(f"dragoman top pods -n people {SERVICE} {viewer}")
    assert "dragoman-e2e-worker" in sh(f"kubectl get nodeledgers {viewer}")

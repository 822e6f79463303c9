"""docs/install.md, Uninstall: its commands leave nothing."""

from pathlib import Path

from e2e.kind import static_pod
from e2e.kind.shell import eventually, get, sh

KINDS = (
    "clusterroles,clusterrolebindings,customresourcedefinitions,mutatingwebhookconfigurations,"
    "validatingwebhookconfigurations,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,priorityclasses"
)

NAMESPACED = (
    "deployments,daemonsets,services,configmaps,secrets,serviceaccounts,roles,rolebindings,"
    "networkpolicies,leases,pods,poddisruptionbudgets"
)


def test_the_scheduler_forgets_the_service(tmp_path: Path) -> None:
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(static_pod.configuration())

    without = sh(f"dragoman configure kube-scheduler -f {file} --undo")

    assert "extenders" in file.read_text()
    assert "extenders" not in without
    static_pod.restore()
    eventually(120, lambda: static_pod.is_ready(configured=False))


def test_the_chart_leaves_nothing() -> None:
    sh("helm uninstall dragoman -n dragoman-system --wait")
    sh("kubectl delete crd nodeledgers.dragoman.dev")

    left = [
        f"{row['kind']}/{row['metadata']['name']}"
        for row in get(KINDS)
        if "dragoman" in row["metadata"]["name"]
    ]
    assert left == []
    assert [
        f"{row['kind']}/{row['metadata']['name']}"
        for row in get(NAMESPACED, "--namespace=dragoman-system")
        if row["metadata"]["name"] not in {"kube-root-ca.crt", "default"}
    ] == []

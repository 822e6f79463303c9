"""docs/guides/install.md, Uninstall: its commands leave nothing."""

from e2e.kind.documentation import blocks
from e2e.kind.plain_pods import differences
from e2e.kind.shell import get, sh

KINDS = (
    "namespaces,clusterroles,clusterrolebindings,customresourcedefinitions,mutatingwebhookconfigurations,"
    "validatingwebhookconfigurations,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,priorityclasses"
)


def test_the_page_s_commands_leave_nothing() -> None:
    removal, resources = blocks("docs/guides/install.md", "Uninstall")

    sh(removal, timeout=200)
    sh(resources)

    left = [
        f"{row['kind']}/{row['metadata']['name']}"
        for row in get(KINDS)
        if "dragoman" in row["metadata"]["name"]
    ]
    assert left == []
    for node in get("nodes"):
        assert "dragoman.dev/published" not in node["metadata"]["annotations"]
        ours = ("volcano.sh/", "koordinator.sh/")
        amounts = node["status"]["allocatable"] | node["status"]["capacity"]
        assert [name for name in amounts if name.startswith(ours)] == []


def test_pods_of_nvidias_plugin_start_as_before(gpu_node: str) -> None:
    assert get(f"node {gpu_node}")["status"]["allocatable"]["nvidia.com/gpu"] == "8"

    assert differences() == []

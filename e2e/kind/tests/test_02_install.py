"""Commands of docs/guides/install.md and docs/reference/schedulers/kube-scheduler.md."""

from pathlib import Path

from e2e.kind import cards, static_pod
from e2e.kind.documentation import blocks
from e2e.kind.shell import eventually, get, sh

PAGE = "docs/guides/install.md"
REGISTRY = "registry.example.com"
# The page's class for NVIDIA's runtime; here the usual one is behind it.
RUNTIME_CLASS = """
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: runc
"""
SCHEDULER = "docs/reference/schedulers/kube-scheduler.md"


def test_both_images_are_built_and_loaded(workers: list[str]) -> None:
    (block,) = blocks(PAGE, "1. Build the images")

    sh(block, timeout=900)

    images = [f"{REGISTRY}/dragoman/{name}:0.1.0" for name in ("service", "node")]
    sh(f"kind load docker-image {' '.join(images)} --name dragoman-e2e", timeout=600)

    for node in workers:
        known = sh(f"docker exec {node} ctr --namespace=k8s.io images list --quiet").split()
        assert set(images) <= set(known)


def test_the_chart_is_installed_by_the_page_s_and_the_readmes_commands(workers: list[str]) -> None:
    (block,) = blocks(PAGE, "2. Install the chart")
    install, show = block.rstrip().rsplit("\n", 1)
    (of_readme,) = blocks("README.md", "Install")
    same, look = of_readme.rstrip().rsplit("\n", 1)
    assert same == install
    sh(f"kubectl apply -f - <<'EOF'{RUNTIME_CLASS}EOF")
    sh(f"kubectl label node {' '.join(workers)} gpu=on")

    sh(f"{install} -f e2e/kind/values.yaml --wait --timeout=4m", timeout=300)

    sh(show)
    sh(look)
    assert get("deployment dragoman", "--namespace=dragoman-system")["status"]["readyReplicas"] == 2
    agents = get("daemonset dragoman-node", "--namespace=dragoman-system")["status"]
    assert agents["numberReady"] == len(workers)


def test_the_page_s_check_shows_ledgers_and_a_ready_service(workers: list[str]) -> None:
    def cards_of(node: str) -> set[str]:
        return {row["uuid"] for row in get(f"nodeledger {node}")["status"]["cards"]}

    def allocatable(node: str) -> dict[str, str]:
        found: dict[str, str] = get(f"node {node}")["status"]["allocatable"]
        return found

    for node in workers:
        expected = {cards.uuid(node, index) for index in range(cards.CARDS)}
        eventually(60, lambda node=node, expected=expected: cards_of(node) == expected)
    for node in workers:
        eventually(60, lambda node=node: "volcano.sh/vgpu-number" in allocatable(node))


def test_webhooks_have_the_authority_of_the_managed_certificate() -> None:
    (hooks,) = get("mutatingwebhookconfigurations")

    assert [hook["clientConfig"]["caBundle"] for hook in hooks["webhooks"]] != []
    secret = get("secret dragoman-tls", "--namespace=dragoman-system")
    assert secret["data"]["tls.crt"]


def test_kubeadms_scheduler_runs_with_what_configure_prints(tmp_path: Path) -> None:
    (block,) = [each for each in blocks(SCHEDULER) if "clusterIP" in each]
    (admitting,) = [each for each in blocks(SCHEDULER) if "extraClients" in each]
    assert static_pod.CONFIGURATION in block
    file = tmp_path / "kube-scheduler.yaml"
    sh(block.replace(static_pod.CONFIGURATION, str(file)))

    sh(admitting)
    static_pod.configure(file.read_text())

    eventually(120, lambda: static_pod.is_ready(configured=True))

"""docs/guides/nvidia-gpu-operator.md: its commands, on the node that has NVIDIA's device plugin."""

from pathlib import Path

import pytest

from e2e.kind import cards, nvidia
from e2e.kind.documentation import blocks
from e2e.kind.plain_pods import differences
from e2e.kind.pods import create, delete, environment, granted, pod, volcano
from e2e.kind.shell import eventually, get, sh, wait_for

PAGE = "docs/guides/nvidia-gpu-operator.md"
POOL = "gpu-pool=shared"

pytestmark = pytest.mark.usefixtures("workers")


def section(heading: str) -> list[str]:
    return blocks(PAGE, heading)


def test_the_read_only_tools_find_nothing_wrong_with_plain_pods(
    gpu_node: str, tmp_path: Path
) -> None:
    (look,) = section("1. Look first")
    labels, *tools = look.splitlines()
    dump = tmp_path / "dump.json"
    dump.write_text(nvidia.dump())

    assert gpu_node in sh(labels)
    for tool in tools:
        sh(f"{tool} -f {dump}")


def test_the_page_installs_with_values_that_the_chart_takes() -> None:
    (install,) = section("2. Install, without an agent at first")
    (of_page,) = blocks("docs/guides/install.md", "2. Install the chart")

    assert install.startswith(of_page.splitlines()[0])
    sh(install.replace("helm install", "helm template --kube-version=1.30.0"))


def test_a_pool_is_taken_and_its_pods_get_shares(gpu_node: str) -> None:
    cards.install(gpu_node)
    sh(f"kubectl label node {gpu_node} {POOL}")
    empty, without_plugin, with_agent = section("3. Take one pool")

    sh(empty)
    sh(without_plugin, timeout=150)
    sh(with_agent, timeout=200)

    eventually(
        60, lambda: "volcano.sh/vgpu-number" in get(f"node {gpu_node}")["status"]["allocatable"]
    )
    create(nvidia.tolerant(pod("of-pool", volcano(8000, cores=25), node=gpu_node)))
    wait_for("pod/of-pool", "--for=condition=Ready")
    (grant,) = granted(gpu_node)["of-pool"]
    assert environment("of-pool")["NVIDIA_VISIBLE_DEVICES"] == grant["card"]
    delete("of-pool")


def test_the_way_back_leaves_a_node_that_nothing_describes(gpu_node: str) -> None:
    (block,) = section("Go back")

    sh(block.replace("NODE", gpu_node), timeout=200)

    eventually(60, nvidia.states_its_devices)
    eventually(60, lambda: "cards" not in get(f"nodeledger {gpu_node}")["spec"])
    assert differences() == []

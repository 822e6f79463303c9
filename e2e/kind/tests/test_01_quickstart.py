"""docs/guides/quickstart.md: its commands, as they stand there, on the session's cluster.

Left out are the commands that create and delete the cluster: the session did the first, from the
same file, and does the second at its end. The page's words for "another cluster" clean up.
"""

import json

from e2e.kind import nvidia
from e2e.kind.documentation import blocks, outputs
from e2e.kind.plain_pods import differences
from e2e.kind.shell import attempt, beside, eventually, get, sh

PAGE = "docs/guides/quickstart.md"
CREATES = "kind create cluster --config configs/kind-cluster.yaml\n"


def section(heading: str) -> list[str]:
    return blocks(PAGE, heading)


def test_an_image_is_built_and_loaded() -> None:
    (block,) = section("1. A cluster and an image")
    assert CREATES in block

    sh(block.replace(CREATES, ""), timeout=900)

    assert [node["metadata"]["name"] for node in get("nodes")] == [
        "dragoman-e2e-control-plane",
        "dragoman-e2e-worker",
        "dragoman-e2e-worker2",
        nvidia.NODE,
    ]


def test_the_service_is_installed_and_ready() -> None:
    (block,) = section("2. Install the service")

    sh(block)

    deployment = get("deployment dragoman", "--namespace=dragoman-system")
    assert deployment["status"]["readyReplicas"] == 2


def test_a_node_states_made_up_cards() -> None:
    (block,) = section("3. Two made-up cards")

    sh(block)

    def allocatable() -> dict[str, str]:
        found: dict[str, str] = get("node dragoman-e2e-worker")["status"]["allocatable"]
        return found

    eventually(60, lambda: allocatable().get("volcano.sh/vgpu-memory") == "49152")
    assert allocatable()["volcano.sh/vgpu-number"] == "20"
    assert allocatable()["volcano.sh/vgpu-cores"] == "200"
    assert get("nodeledger dragoman-e2e-worker")


def test_two_pods_get_a_card_each_and_the_third_waits() -> None:
    creating, why, which, environment = section("4. Three pods that need 16000 MiB each")

    sh(creating)

    eventually(60, lambda: "31 of 48 GiB" in sh("kubectl get nodeledgers"))
    (expected,) = outputs(why)
    message = expected.partition("dragoman-e2e-worker: ")[2]
    eventually(60, lambda: message in sh(why))
    assert get("pod c")["status"]["phase"] == "Pending"
    cards = {sh(which.replace("pod a", f"pod {name}")) for name in "ab"}
    assert cards == {"GPU-0001,NVIDIA,16000,0:", "GPU-0002,NVIDIA,16000,0:"}
    assert set(outputs(environment)) <= set(sh(environment).splitlines())


def test_a_deleted_pod_makes_room_for_the_third() -> None:
    (block,) = section("5. Delete a pod")

    sh(block)

    assert get("pod c")["spec"]["nodeName"] == "dragoman-e2e-worker"


def test_an_invalid_request_is_rejected_with_field_and_value() -> None:
    (block,) = section("6. An invalid request")

    tried = attempt(block)

    assert tried.status == 1
    field = "spec.containers[main].resources.limits[volcano.sh/vgpu-memory]"
    assert f"{field}: '4Gi': must be a plain number" in tried.errors


def test_the_dashboard_answers_through_a_forwarded_port() -> None:
    (block,) = section("7. The dashboard")
    forward, question = block.splitlines()

    with beside(forward):
        eventually(30, lambda: sh("curl --silent --fail http://127.0.0.1:9595/livez"))
        said = json.loads(sh(question))

    here = "dragoman-e2e-worker"
    assert said["summary"] == f"is bound to {here} and has its cards"


def test_pods_of_nvidias_plugin_start_as_before(gpu_node: str) -> None:
    assert gpu_node not in {row["metadata"]["name"] for row in get("nodeledgers")}

    assert differences() == []


def test_the_page_s_clean_up_leaves_a_cluster_without_dragoman() -> None:
    sh("kubectl delete pod b c --grace-period=1")
    sh("helm uninstall dragoman -n dragoman-system --wait")
    sh("kubectl delete crd nodeledgers.dragoman.dev")
    sh("kubectl annotate node dragoman-e2e-worker volcano.sh/node-vgpu-register-")

    assert (
        sh(
            "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o name"
        ).strip()
        == ""
    )

"""docs/guides/start-small.md: its commands, as upgrades of the session's release."""

import pytest

from e2e.kind.documentation import blocks
from e2e.kind.plain_pods import differences, end_standing, replace_validator, standing
from e2e.kind.pods import Pod, create, granted, pod, volcano
from e2e.kind.shell import CommandError, eventually, get, sh, wait_for

PAGE = "docs/guides/start-small.md"
SERVICE = "deployment/dragoman --namespace=dragoman-system"
AGENT = "daemonset/dragoman-node --namespace=dragoman-system"
INSTALLS = "helm install dragoman charts/dragoman -n dragoman-system --create-namespace"
UPGRADES = "helm upgrade dragoman charts/dragoman -n dragoman-system --reuse-values"
SELECTED, OTHER = "team-a", "team-b"


def shared(name: str, space: str) -> Pod:
    """A pod with a share in a namespace."""
    made = pod(name, volcano(4000))
    made["metadata"]["namespace"] = space
    return made


def is_marked(name: str, space: str) -> bool:
    """Whether admission has seen a pod."""
    return "env" in get(f"pod {name} --namespace={space}")["spec"]["containers"][0]


def invalid(space: str) -> Pod:
    """A pod that admission rejects."""
    made = shared("invalid", space)
    for amounts in made["spec"]["containers"][0]["resources"].values():
        amounts["volcano.sh/vgpu-memory"] = "4Gi"
    return made


@pytest.mark.usefixtures("gpu_node")
def test_plain_pods_start_while_the_upgrade_replaces_replicas_and_agents() -> None:
    (block,) = blocks(PAGE, "Install")
    assert INSTALLS in block
    before = standing()

    sh(block.replace(INSTALLS, UPGRADES))

    assert differences() == []
    for each in (SERVICE, AGENT):
        sh(f"kubectl rollout status {each} --timeout=3m", timeout=200)
    assert standing() == before


def test_a_daemon_set_with_a_card_replaces_its_pods() -> None:
    before = standing()

    replace_validator()

    assert len(standing().keys() - before.keys()) == 1
    end_standing()


def test_pods_of_other_namespaces_are_created_as_they_are_and_counted() -> None:
    sh(f"kubectl create namespace {OTHER}")

    create(shared("inside", SELECTED), shared("outside", OTHER))

    for name, space in (("inside", SELECTED), ("outside", OTHER)):
        wait_for(f"pod/{name}", f"--namespace={space}", "--for=condition=Ready")
    assert is_marked("inside", SELECTED)
    assert not is_marked("outside", OTHER)
    assert {"inside", "outside"} <= granted().keys()
    create(invalid(OTHER))
    with pytest.raises(CommandError, match=r"pods\.dragoman\.dev"):
        create(invalid(SELECTED))
    sh(f"kubectl delete pod invalid --namespace={OTHER}")


def test_the_page_widens_to_more_namespaces_and_dialects(workers: list[str]) -> None:
    names, everywhere, dialects = blocks(PAGE, "Widen")

    sh(names)

    eventually(30, lambda: _is_rejected(invalid(OTHER)))
    create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-c"}})
    create(invalid("team-c"))

    sh(everywhere)

    eventually(30, lambda: _is_rejected(invalid("default")))
    sh(f"kubectl delete namespace {SELECTED} {OTHER} team-c --wait=false")

    sh(dialects, timeout=300)

    for node in workers:
        eventually(60, lambda node=node: "koordinator.sh/gpu" in allocatable(node))


def allocatable(node: str) -> dict[str, str]:
    found: dict[str, str] = get(f"node {node}")["status"]["allocatable"]
    return found


def _is_rejected(new: Pod) -> bool:
    """Whether the webhook rejects a pod; one that was created is deleted."""
    try:
        create(new)
    except CommandError as error:
        return "pods.dragoman.dev" in str(error)
    sh(f"kubectl delete pod {new['metadata']['name']} -n {new['metadata']['namespace']}")
    return False

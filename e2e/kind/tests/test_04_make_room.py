"""docs/guides/make-room.md: its commands, and what it says that they print.

A plan without a mover waits, is seen and is stopped; then one is carried out, and one for a node.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.kind.documentation import blocks, outputs
from e2e.kind.pods import Pod, create, environment, granted, pod, used, volcano
from e2e.kind.shell import attempt, eventually, get, sh, wait_for

PAGE = "docs/guides/make-room.md"
MIB = 2**20
REPLICAS, SIZE = 4, 10000
LABELS = {"app": "chat"}
MOVER = "deployment/dragoman-mover --namespace=dragoman-system"
PODS_OF_MOVER = "--namespace=dragoman-system --selector=app.kubernetes.io/component=mover"
RIGHTS = "clusterroles,clusterrolebindings,serviceaccounts --all-namespaces"

VARYING = {
    r"\bdefrag-[0-9a-f]{8}\b": "PLAN",
    r"\bchat-[0-9a-z]{8,10}-[0-9a-z]{5}\b": "POD",
    r"\bchat-[0-9a-z]{8,10}\b": "REPLICASET",
    r"\bdragoman-e2e-worker2?(/[01])?(?=\s|:|$)": "NODE",
    r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ": "TIME",
    r"\bafter \d+ s\b": "after N s",
    r"(?<=\s)(\d+m)?\d+s\b": "AGE",
    r" +": " ",
}
"""What differs between two runs, and what replaces it."""


def lines(text: str) -> set[str]:
    """The lines of an output, without what differs between two runs."""
    for pattern, instead in VARYING.items():
        text = re.sub(pattern, instead, text)
    return {line.strip() for line in text.splitlines()}


def follow(block: str, folder: Path) -> str:
    """Run a block of the page in a folder; it prints what the page says."""
    printed = sh(f"cd {folder}\n{block}", timeout=180)
    assert lines("\n".join(outputs(block))) - lines(printed) == set()
    return printed


def section(heading: str) -> list[str]:
    return blocks(PAGE, heading)


def of_namespace(space: str, made: Pod) -> Pod:
    made["metadata"]["namespace"] = space
    return made


def deployment() -> Pod:
    template = {"metadata": {"labels": LABELS}, "spec": pod("chat", volcano(SIZE))["spec"]}
    selector = {"matchLabels": LABELS}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {"replicas": REPLICAS, "selector": selector, "template": template},
    }


def budget() -> Pod:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "chat"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}},
    }


@pytest.fixture(scope="module", autouse=True)
def scene(workers: list[str]) -> Iterator[None]:  # noqa: ARG001 (their cards)
    """A pod of the Deployment on each card, where others have ended, and one that fits no card."""
    ended = [f"ended-{number}" for number in range(REPLICAS)]
    sh("kubectl create namespace ml\nkubectl create namespace web")
    create(*(of_namespace("ml", pod(name, volcano(14000))) for name in ended))
    wait_for("pod", *ended, "--namespace=ml", "--for=condition=PodScheduled")
    create(of_namespace("web", deployment()), of_namespace("web", budget()))
    sh("kubectl rollout status deployment chat --namespace=web --timeout=90s")
    sh(f"kubectl delete pod {' '.join(ended)} --namespace=ml --timeout=90s")
    eventually(60, lambda: [*used().values()] == [SIZE * MIB] * REPLICAS, used)
    create(of_namespace("ml", pod("training", volcano(20000))))
    yield
    sh("kubectl delete namespace ml web --timeout=90s")
    eventually(60, lambda: used() == {}, used)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's file is written."""
    return tmp_path_factory.mktemp("plans")


def plan(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "plan.yaml").read_text())
    return found


def replicas() -> set[str]:
    """Names of the Deployment's pods that are not being deleted."""
    rows = get("pods --namespace=web --selector=app=chat")
    return {row["metadata"]["name"] for row in rows if "deletionTimestamp" not in row["metadata"]}


def holds() -> list[dict[str, Any]]:
    return [hold for row in get("nodeledgers") for hold in row["spec"].get("holds", ())]


def check_place(name: str, space: str, place: dict[str, Any]) -> None:
    """A pod is ready with the card of its place, and its container sees that card."""
    wait_for(f"pod/{name}", f"--namespace={space}", "--for=condition=Ready", seconds=30)
    (grant,) = place["grants"]
    assert [row["card"] for row in granted(place["node"])[name]] == [grant["card"]]
    inside = environment(f"{name} --namespace={space}")
    assert inside["NVIDIA_VISIBLE_DEVICES"] == grant["card"]
    assert inside["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{grant['memory'] // MIB}m"


def check_move(move: dict[str, Any], before: set[str]) -> None:
    """One pod was replaced, by one that has the planned card."""
    assert before - replicas() == {move["pod"]}
    (name,) = replicas() - before
    check_place(name, "web", move["to"])


def test_the_page_shows_that_free_memory_is_in_pieces(folder: Path) -> None:
    (look,) = section("1. See what is free")

    printed = follow(look, folder)

    rows = [line.split() for line in printed.splitlines() if "NVIDIA A10" in line]
    assert [{"14.2", "40%"} - {*row} for row in rows] == [set(), set()]


def test_a_plan_moves_one_pod(folder: Path) -> None:
    (block,) = section("2. Plan")

    follow(block, folder)


def test_the_upgrade_adds_the_mover_and_its_right() -> None:
    (block,) = section("4. Enable")
    assert "dragoman-mover" not in str(get(RIGHTS))

    said = sh(block, timeout=300)

    assert said.splitlines()[-1:] == outputs(block)
    wait_for(MOVER, "--for=condition=Available")


def test_the_plan_is_a_file_that_can_be_read(folder: Path) -> None:
    write, _ = section("5. Carry it out")

    follow(write, folder)


def test_a_plan_that_waits_is_seen_with_what_it_holds_and_stopped(folder: Path) -> None:
    watch, stop = section("6. Watch it, and stop it")
    before = replicas()
    sh(f"kubectl scale {MOVER} --replicas=0")
    sh(f"kubectl wait pod {PODS_OF_MOVER} --for=delete --timeout=60s")
    sh(f"kubectl create -f {folder}/plan.yaml")
    name = plan(folder)["metadata"]["name"]
    wait_for(f"moveplan/{name}", "--for=jsonpath='{.status.phase}'=Held", seconds=30)
    eventually(30, lambda: "PlacesHeld" in sh(watch))

    follow(watch, folder)
    follow(stop, folder)

    eventually(30, lambda: holds() == [], holds)
    assert get("moveplans") == []
    assert replicas() == before
    sh(f"kubectl scale {MOVER} --replicas=1")


def test_the_pod_that_waits_runs_after_one_move(folder: Path) -> None:
    _, block = section("5. Carry it out")
    watch, _ = section("6. Watch it, and stop it")
    before = replicas()

    follow(block, folder)

    (move,), (target,) = plan(folder)["spec"]["moves"], plan(folder)["spec"]["targets"]
    check_move(move, before)
    check_place("training", "ml", target["place"])
    assert holds() == []
    eventually(30, lambda: {"PlanFinished", "Moved"} <= {*sh(watch).split()})


def test_a_node_is_emptied(folder: Path) -> None:
    (block,) = section("8. Empty a node")
    sh("kubectl delete pod training --namespace=ml --timeout=60s")
    eventually(30, lambda: "training" not in granted())
    before = replicas()
    sh(f"cd {folder}\n{block.splitlines()[0]}")
    (move,), (target,) = plan(folder)["spec"]["moves"], plan(folder)["spec"]["targets"]
    cordon = "kubectl cordon dragoman-e2e-worker\n"
    assert cordon in block

    printed = follow(block.replace(cordon, f"kubectl cordon {target['name']}\n"), folder)

    assert printed.endswith("finished\n")
    assert granted(target["name"]) == {}
    check_move(move, before)
    sh(f"kubectl uncordon {target['name']}")


def test_switched_off_the_mover_and_its_rights_are_gone() -> None:
    (block,) = section("Switch off")
    *_, question, _ = section("4. Enable")[0].splitlines()

    sh(block, timeout=300)

    assert "dragoman-mover" not in str(get(RIGHTS))
    assert attempt(question).output.strip() == "no"
    eventually(60, lambda: get(f"pods {PODS_OF_MOVER}") == [])
    assert len(replicas()) == REPLICAS
    assert holds() == []

"""The plan for programs is an object that can be carried out, and is read back strictly."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from adapters.cli.tests.builders import Plain, node, pod, volcano, volcano_bound, write
from adapters.cli.tests.command import as_plain, command
from adapters.wire.records.move_plan import MovePlanMetadata, MovePlanObject, read_spec

OWNER = {"kind": "ReplicaSet", "name": "web", "uid": "of-web", "controller": True}


def things(**metadata: Any) -> list[Plain]:
    """A pod that moves to another node, so that another one fits."""
    held = volcano_bound("a", 5000, ownerReferences=[OWNER], **metadata)
    held["status"]["startTime"] = "2026-01-31T12:00:00Z"
    waits = pod("waits", volcano(9000), metadata={"namespace": "ml", "uid": "uid-waits"})
    return [node(cards=1), node("node-b", cards=1), held, waits,
            volcano_bound("b", 2000, on="node-b")]  # fmt: skip


def plan_of(*words: str) -> Plain:
    return as_plain("defrag", *words, things=things())


def test_the_object_names_each_pod_its_controller_and_exact_grants() -> None:
    plan = plan_of()

    spec = read_spec(
        MovePlanObject(MovePlanMetadata(), msgspec.Raw(json.dumps(plan["spec"]).encode()))
    )
    (move,), (target,) = spec.moves, spec.targets
    assert (move.namespace, move.pod, move.uid) == ("default", "a", "uid-a")
    assert (move.controller.kind, move.controller.name, move.controller.uid) == (
        "ReplicaSet", "web", "of-web",
    )  # fmt: skip
    assert (move.from_.node, move.to.node) == ("node-a", "node-b")
    assert [(each.card, each.memory) for each in move.to.grants] == [("GPU-node-b-0", 5000 << 20)]
    assert (target.namespace, target.name, target.uid, target.after_step) == (
        "ml", "waits", "uid-waits", 1,
    )  # fmt: skip
    assert target.place is not None
    assert target.place.grants[0].memory == 9000 << 20


def test_the_same_plan_has_the_same_name_and_another_one_another() -> None:
    first, again, other = plan_of(), plan_of(), plan_of("--free-nodes", "1")

    assert first["metadata"]["name"] == again["metadata"]["name"]
    assert first["metadata"]["name"] != other["metadata"]["name"]
    assert first["metadata"]["name"].startswith("defrag-")


def test_nodes_and_shares_are_targets_too() -> None:
    (empty,) = plan_of("--free-nodes", "1")["spec"]["targets"]
    (share,) = plan_of("--largest-share", "9000Mi")["spec"]["targets"]

    assert empty == {"kind": "Node", "name": "node-a", "afterStep": 1}
    assert (share["kind"], share["name"]) == ("Share", "share of 9000 MiB")
    assert share["place"]["node"] == "node-a"


def test_what_does_not_fit_is_in_the_report_alone() -> None:
    more = pod("huge", volcano(90000), metadata={"uid": "uid-huge"})

    plan = as_plain("defrag", things=[*things(), more])

    assert [each["name"] for each in plan["spec"]["targets"]] == ["waits"]
    reasons = {each["name"]: each["reason"] for each in plan["report"]["targets"]}
    assert reasons["ml/waits"] == ""
    assert "no plan exists" in reasons["default/huge"]


@pytest.mark.parametrize("cards", [2, 0])
def test_no_place_is_kept_for_a_pod_whose_cards_a_device_plugin_chooses(cards: int) -> None:
    served = node(cards=cards)
    served["status"] = {"allocatable": {"nvidia.com/gpu": "2"}}
    plain = pod("plain", {"nvidia.com/gpu": 1}, metadata={"uid": "uid-plain"})

    plan = as_plain("defrag", things=[served, plain])

    assert [each["fits"] for each in plan["report"]["targets"]] == [True]
    assert plan["report"]["mostTargets"] == 1
    assert plan["spec"]["targets"] == []


def test_the_steps_of_a_plan_are_printed_from_its_yaml_and_its_json(tmp_path: Path) -> None:
    lines = (
        "step 1 of 1: default/a of ReplicaSet/web from node-a to node-b\n"
        "ml/waits has its cards on node-a\n"
    )
    for form in ("yaml", "json"):
        text = command("defrag", "-o", form, things=things()).stdout
        file = write(tmp_path, f"plan.{form}", text)

        result = command("defrag", "--execute", file, "--dry-run")

        assert (result.exit_code, result.stdout) == (0, lines), result.output


def changed(path: str, value: object) -> str:
    """A plan as YAML in which a field has another value; None removes the field."""
    plan: Any = plan_of()
    *within, last = path.split(".")
    at = plan
    for step in within:
        at = at[int(step)] if step.isdigit() else at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return yaml.safe_dump(plan, sort_keys=False)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("kind", "Pod", "kind must be MovePlan, but is 'Pod'"),
        ("apiVersion", "v1", "apiVersion must be dragoman.dev/v1alpha1, but is 'v1'"),
        ("metadata.name", None, "metadata misses the field name"),
        ("metadata.name", "A b", "metadata.name must be text that matches"),
        ("spec", None, "the manifest misses the field spec"),
        ("spec.podSeconds", 5, "spec.podSeconds must be at least 10, but is '5'"),
        ("spec.podSeconds", 100000, "spec.podSeconds must be at most 86400, but is '100000'"),
        ("spec.podSeconds", "600", "spec.podSeconds must be a whole number, but is text"),
        ("spec.podSecond", 600, "spec.podSecond: there is no such field"),
        ("spec.moves.0.uid", "", "spec.moves[0].uid must be at least 1 long, but is ''"),
        ("spec.moves.0.node", "x", "spec.moves[0].node: there is no such field"),
        ("spec.moves.0.controller.uid", "", "spec.moves[0].controller.uid must be at least 1 long"),
        ("spec.moves.0.to.grants.0.memory", -1, "grants[0].memory must be at least 0, but is '-1'"),
        ("spec.targets.0.afterStep", 2, "spec.targets[0].afterStep: 2: must be at most 1"),
        (
            "spec.targets.0.kind",
            "Job",
            "spec.targets[0].kind cannot be 'Job'; it is one of Pod, Node, Share",
        ),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused_with_the_field(
    tmp_path: Path, path: str, value: object, problem: str
) -> None:
    file = write(tmp_path, "plan.yaml", changed(path, value))

    result = command("defrag", "--execute", file, "--dry-run")

    assert result.exit_code == 2
    assert problem in result.stderr
    assert result.stderr.startswith(f"dragoman: {file}:")


def test_a_file_with_another_number_of_objects_is_refused(tmp_path: Path) -> None:
    plan = yaml.safe_dump(plan_of())
    for number, text in ((0, ""), (2, f"{plan}---\n{plan}")):
        file = write(tmp_path, "plan.yaml", text)

        result = command("defrag", "--execute", file, "--dry-run")

        assert result.exit_code == 2
        assert f"must have one MovePlan, but has {number} objects" in result.stderr


def test_a_plan_without_moves_is_nothing_to_carry_out(tmp_path: Path) -> None:
    plan = as_plain("defrag", things=[node(), pod("waits", volcano(9000))])
    file = write(tmp_path, "plan.json", json.dumps(plan))

    result = command("defrag", "--execute", file)

    assert result.exit_code == 0
    assert "has no moves: there is nothing to carry out" in result.stderr


@pytest.mark.parametrize(
    "words",
    ["--for x", "-n ml", "--free-nodes 1", "--largest-share 1Gi", "--pool p", "-o yaml",
     "--svg x", "--max-moves 3", "--states 5", "--seconds 5", "-f x"],
)  # fmt: skip
def test_options_of_a_plan_do_not_go_with_execute(words: str) -> None:
    result = command("defrag", "--execute", "plan.yaml", *words.split())

    assert result.exit_code == 2
    assert "does not go with --execute" in " ".join(result.stderr.replace("│", " ").split())


def test_a_dry_run_is_one_of_execute() -> None:
    result = command("defrag", "--dry-run")

    assert result.exit_code == 2
    assert "--dry-run: is for --execute" in " ".join(result.stderr.replace("│", " ").split())


def test_the_plan_of_the_docs_is_what_the_command_prints() -> None:
    folder = Path(__file__).parents[4] / "docs" / "reference" / "cli"

    result = command("defrag", "-o", "yaml", "-f", folder / "fragmented.yaml")

    assert result.stdout == (folder / "fragmented-plan.yaml").read_text()

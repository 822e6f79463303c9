"""MovePlan objects: what is read of them, what is not, and how a status is written."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from adapters.wire.records.allocation import GrantRecord
from adapters.wire.records.move_plan import (
    MoveController,
    MovePhase,
    MovePlace,
    MovePlanMetadata,
    MovePlanObject,
    MovePlanRecordError,
    MovePlanSpec,
    MovePlanStatus,
    MoveStep,
    PlannedMove,
    PlannedTarget,
    TargetKind,
    read_spec,
    read_status,
    status_patch,
)

GRANT = {"container": "main", "card": "GPU-1", "memory": 1 << 30, "compute": 50}
MOVE: dict[str, Any] = {
    "namespace": "web",
    "pod": "embedding-x",
    "uid": "u1",
    "dialect": "volcano",
    "controller": {"kind": "ReplicaSet", "name": "embedding", "uid": "r1"},
    "from": {"node": "gpu-1", "grants": [GRANT]},
    "to": {"node": "gpu-2", "grants": [GRANT]},
}
POD = {"kind": "Pod", "namespace": "ml", "name": "big", "uid": "u9", "afterStep": 1}


def a_plan(spec: Any = None, status: Any = None) -> MovePlanObject:
    thing: dict[str, Any] = {
        "metadata": {"name": "defrag-1", "uid": "p", "resourceVersion": "7"},
        "spec": spec if spec is not None else {"moves": [MOVE]},
        "report": {"complete": True},
    }
    if status is not None:
        thing["status"] = status
    return msgspec.json.decode(json.dumps(thing), type=MovePlanObject)


def test_a_spec_has_its_moves_and_what_they_are_for() -> None:
    place = MovePlace("gpu-1", (GrantRecord("main", "GPU-1", 1 << 30, 50),))

    spec = read_spec(a_plan({"moves": [MOVE], "targets": [{**POD, "place": MOVE["from"]}]}))

    assert spec == MovePlanSpec(
        (
            PlannedMove(
                "web",
                "embedding-x",
                "u1",
                "volcano",
                MoveController("ReplicaSet", "embedding", "r1"),
                place,
                MovePlace("gpu-2", place.grants),
            ),
        ),
        (PlannedTarget(TargetKind.POD, "big", 1, "ml", "u9", place),),
        600,
    )


def test_a_spec_is_read_as_it_was_written() -> None:
    spec = read_spec(a_plan())

    again = MovePlanObject(MovePlanMetadata("other"), msgspec.Raw(msgspec.json.encode(spec)))

    assert read_spec(again) == spec


def test_a_plan_without_a_status_is_new() -> None:
    assert read_status(a_plan()) == MovePlanStatus(MovePhase.NEW)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ([], "spec cannot be read: Expected `object`"),
        ({}, "missing required field `moves`"),
        ({"moves": [MOVE] * 513}, "length <= 512"),
        ({"moves": [MOVE], "podSeconds": 9}, "`int` >= 10 - at `$.podSeconds`"),
        ({"moves": [MOVE], "podSeconds": 86401}, "`int` <= 86400"),
        ({"moves": [{**MOVE, "uid": ""}]}, "length >= 1 - at `$.moves[0].uid`"),
        ({"moves": [{**MOVE, "pod": ".."}]}, "at `$.moves[0].pod`"),
        ({"moves": [{**MOVE, "pod": "a/eviction"}]}, "at `$.moves[0].pod`"),
        ({"moves": [{**MOVE, "namespace": "a\n"}]}, "at `$.moves[0].namespace`"),
        ({"moves": [MOVE, MOVE]}, "spec.moves[1].uid: 'u1': a plan moves each pod once"),
        (
            {"moves": [MOVE], "targets": [{"kind": "Node", "name": "n", "afterStep": 2}]},
            "spec.targets[0].afterStep: 2: must be at most 1, the last move",
        ),
        ({"moves": [MOVE], "targets": [{"kind": "Job", "name": "n", "afterStep": 1}]}, "'Job'"),
        (
            {"moves": [MOVE], "targets": [{**POD, "namespace": "", "place": MOVE["to"]}]},
            "spec.targets[0].namespace: missing; it is that of pod big",
        ),
        ({"moves": [MOVE], "targets": [POD]}, "spec.targets[0].place: missing; only a node"),
    ],
)
def test_a_spec_that_is_not_valid_is_named(spec: Any, problem: str) -> None:
    with pytest.raises(MovePlanRecordError) as caught:
        read_spec(a_plan(spec))

    assert str(caught.value).startswith("MovePlan defrag-1: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "status",
    [
        [],
        {"phase": "Evicting"},
        {"phase": None},
        {"step": -1},
        {"step": 513},
        {"step": 1.5},
        {"steps": [{"step": 0}]},
        {"steps": [{"evictedAt": "2026-01-11T12:00:00Z"}]},
        {"steps": [{"step": 1}] * 513},
    ],
)
def test_a_status_that_is_not_valid_is_an_error(status: Any) -> None:
    with pytest.raises(MovePlanRecordError, match="MovePlan defrag-1: status cannot be read"):
        read_status(a_plan(status=status))


def test_fields_of_a_later_version_are_ignored() -> None:
    spec = {"moves": [{**MOVE, "shape": "round"}], "speed": 3}

    plan = a_plan(spec, {"phase": "Held", "mood": "good"})

    assert read_spec(plan) == read_spec(a_plan())
    assert read_status(plan).phase is MovePhase.HELD


def test_a_patch_replaces_each_field_of_the_status_of_the_plan_that_was_read() -> None:
    status = MovePlanStatus(
        MovePhase.EVICTED,
        1,
        updated_at="2026-01-11T12:00:01Z",
        steps=(MoveStep(1, "2026-01-11T12:00:00Z"),),
    )

    patch = json.loads(status_patch(a_plan(), status))

    assert patch == {
        "metadata": {"resourceVersion": "7"},
        "status": {
            "phase": "Evicted",
            "step": 1,
            "reason": "",
            "updatedAt": "2026-01-11T12:00:01Z",
            "steps": [{"step": 1, "evictedAt": "2026-01-11T12:00:00Z"}],
            "moves": 1,
        },
    }
    assert read_status(a_plan(status=patch["status"])) == replace(status, moves=1)


def test_the_status_of_a_spec_that_cannot_be_read_counts_no_moves() -> None:
    patch = json.loads(status_patch(a_plan([]), MovePlanStatus(MovePhase.STOPPED)))

    assert patch["status"]["moves"] == 0


def test_a_long_reason_is_cut() -> None:
    patch = json.loads(status_patch(a_plan(), MovePlanStatus(reason="é" * 2000)))

    assert patch["status"]["reason"] == "é" * 512

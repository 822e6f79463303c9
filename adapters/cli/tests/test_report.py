"""The JSON report, which is a contract, exactly."""

import json
import uuid

import orjson
import pytest
import yaml

from adapters.cli.tests.builders import Plain, device, node, pod, report, run, stream, volcano
from adapters.cli.tests.builders import uuid as card_uuid

PLACED = pod("pod-a", volcano(3000, cores=50), metadata={"namespace": "ml", "uid": "uid-a"})
REJECTED = pod("pod-b", volcano(30000))

EXPECTED: Plain = {
    "apiVersion": "dragoman.dev/v1alpha1",
    "kind": "ScheduleReport",
    "pods": [
        {
            "namespace": "ml",
            "name": "pod-a",
            "uid": "uid-a",
            "dialect": "volcano",
            "gang": None,
            "placed": True,
            "phase": "schedule",
            "node": "node-a",
            "containers": {
                "main": [
                    {
                        "uuid": "GPU-node-a-0",
                        "index": 0,
                        "memoryMiB": 3000,
                        "compute": 50,
                        "mig": None,
                    }
                ]
            },
            "annotations": {
                "volcano.sh/vgpu-node": "node-a",
                "volcano.sh/vgpu-time": "1769860800",
                "volcano.sh/vgpu-ids-new": "GPU-node-a-0,NVIDIA,3000,50:",
                "volcano.sh/devices-to-allocate": "GPU-node-a-0,NVIDIA,3000,50:",
                "volcano.sh/bind-phase": "allocating",
                "volcano.sh/bind-time": "1769860800",
            },
            "labels": {},
            "explanation": {"summary": "placed on node-a", "nodes": {}},
        },
        {
            "namespace": "default",
            "name": "pod-b",
            "uid": str(uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_DNS, "dragoman.dev"), "default/pod-b")),
            "dialect": "volcano",
            "gang": None,
            "placed": False,
            "phase": "schedule",
            "node": None,
            "containers": {},
            "annotations": {},
            "labels": {},
            "explanation": {
                "summary": "0 of 1 nodes fit: 1 node: 1 of 1 cards: memory 23000 MiB short",
                "nodes": {"node-a": "1 of 1 cards: memory 23000 MiB short"},
            },
        },
    ],
    "cards": [
        {
            "node": "node-a",
            "uuid": "GPU-node-a-0",
            "index": 0,
            "vendor": "nvidia",
            "model": "A",
            "memoryMiB": 10000,
            "usedMemoryMiB": 3000,
            "usedCompute": 50,
            "sharers": ["ml/pod-a"],
        }
    ],
}


def test_the_json_is_the_contract() -> None:
    found = run("-f", "-", "-o", "json", stdin=stream(node(cards=1), PLACED, REJECTED))

    assert json.loads(found.stdout) == EXPECTED
    assert found.stdout == orjson.dumps(EXPECTED, option=orjson.OPT_INDENT_2).decode() + "\n"


def test_the_yaml_has_the_same_content() -> None:
    found = run("-f", "-", "-o", "yaml", stdin=stream(node(cards=1), PLACED, REJECTED))

    assert yaml.safe_load(found.stdout) == EXPECTED
    assert found.stdout.startswith("apiVersion: dragoman.dev/v1alpha1\nkind: ScheduleReport\n")


@pytest.mark.parametrize("output", ["json", "yaml", "table"])
def test_the_same_input_gives_the_same_bytes(output: str) -> None:
    first, second = (
        run("-f", "-", "-o", output, stdin=stream(node(), PLACED, REJECTED)) for _ in range(2)
    )

    assert first.stdout_bytes == second.stdout_bytes


def test_a_share_of_all_containers_is_listed_under_a_star() -> None:
    half = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}
    gpu = {
        "minor": 0,
        "id": card_uuid(0),
        "resources": {**half, "koordinator.sh/gpu-memory": "5000Mi"},
    }
    bound = pod(
        limits=half,
        metadata={
            "annotations": {
                "scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": [gpu]})
            }
        },
        spec={"nodeName": "node-a"},
    )
    bound["spec"]["containers"].append({"name": "second", "resources": {"limits": half}})

    found = report(device("node-a", card_uuid(0)), node(cards=1), bound)

    assert found["pods"][0]["containers"]["*"][0]["memoryMiB"] == 5000


def test_a_share_of_a_card_that_the_node_has_not_has_no_index() -> None:
    lost = {"annotations": {"volcano.sh/vgpu-ids-new": "GPU-lost,NVIDIA,1024,0:"}}
    bound = pod(limits=volcano(1024), metadata=lost, spec={"nodeName": "node-a"})

    found = report(node(cards=1), bound)

    (share,) = found["pods"][0]["containers"]["main"]
    assert (share["uuid"], share["index"]) == ("GPU-lost", None)

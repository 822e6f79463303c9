import json

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.names import ALLOCATED
from e2e.harness.oracles.from_annotations import METAX, VOLCANO, Share, shares_of_pod
from e2e.harness.oracles.observed_in_container import shares_inside
from e2e.harness.oracles.pod_watcher import PodWatcher as Watcher
from e2e.harness.workloads.inventory import Gpu

CARDS = (Gpu("GPU-0", memory=16384), Gpu("GPU-1", memory=16384))


def pod(name: str, version: int, annotations: dict[str, str], **spec: str) -> Object:
    metadata = {"name": name, "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata | {"annotations": annotations}, "spec": spec, "status": {}}


@pytest.mark.parametrize(
    ("annotations", "shares"),
    [
        ({VOLCANO: "u0,NVIDIA,3000,50:"}, [Share("u0", 3000, 50)]),
        ({VOLCANO: "u1,NVIDIA,1,0:u0,NVIDIA,2,0:;u0,NVIDIA,3,5:;"}, [
            Share("u0", 2, 0),
            Share("u0", 3, 5),
            Share("u1", 1, 0),
        ]),
        ({VOLCANO: "u0[group1-0],NVIDIA,3000,0:"}, [Share("u0[group1-0]", 3000, 0)]),
        ({METAX: "u0,Metax-SGPU,4096,60:;"}, [Share("u0", 4096, 60)]),
        ({}, []),
    ],
)  # fmt: skip
def test_what_the_ecosystems_write_is_read(
    annotations: dict[str, str], shares: list[Share]
) -> None:
    assert shares_of_pod(pod("p", 1, annotations)) == shares


def test_koordinators_minors_are_cards_and_its_quantities_mebibytes() -> None:
    resources = {"koordinator.sh/gpu-memory": "2Gi", "koordinator.sh/gpu-core": "50"}
    written = json.dumps({"gpu": [{"minor": 1, "resources": resources}]})

    assert shares_of_pod(pod("p", 1, {ALLOCATED: written}), ["u0", "u1"]) == [Share("u1", 2048, 50)]


def test_the_watcher_sees_a_card_that_is_given_away_twice_and_only_as_long_as_it_is() -> None:
    watcher = Watcher(CARDS)
    first = pod("first", 1, {VOLCANO: "GPU-0,NVIDIA,10000,0:"}, nodeName="n")
    second = pod("second", 2, {METAX: "GPU-0,Metax-SGPU,10000,10:;"}, nodeName="n")

    watcher.see("ADDED", first)
    assert watcher.problems() == []
    watcher.see("MODIFIED", second)
    (problem,) = watcher.problems()
    watcher.see("DELETED", first)
    watcher.see("ADDED", pod("third", 4, {}))

    assert "GPU-0 has allocated 20000 of 16384 MiB" in problem
    assert watcher.problems() == [problem]


def test_a_bound_pod_without_cards_is_a_problem() -> None:
    watcher = Watcher(CARDS)

    watcher.see("ADDED", pod("naked", 1, {}, nodeName="n"))

    assert watcher.problems() == ["naked is bound without cards"]


def test_what_a_container_finds_is_what_it_may_use() -> None:
    env = {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-0",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "1024m",
        "CUDA_DEVICE_SM_LIMIT_1": "20",
    }

    assert shares_inside(env, CARDS) == [Share("GPU-0", 16384, 20), Share("GPU-1", 1024, 0)]
    assert shares_inside({"NVIDIA_VISIBLE_DEVICES": "void"}, CARDS) == []

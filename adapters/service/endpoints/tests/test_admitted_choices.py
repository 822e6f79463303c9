"""Admission of Bindings with a choice of cards by another scheduler."""

import json

import pytest

from adapters.service.decide.ports import Outcome
from adapters.service.endpoints.tests.reviews import bind, bound, response
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_pod,
    a_service,
    read_pod,
    run,
)
from adapters.wire.kube import KubeNode, Metadata
from core.requests.request import Phase


def test_a_valid_choice_of_a_scheduler_is_adopted_unchanged() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        chosen = {"volcano.sh/vgpu-ids-new": "GPU-n1-0,NVIDIA,4000,0:"}
        return await bind(bench, "p", "n1", chosen), bench

    answer, bench = run(work())

    assert response(answer) == {"uid": "r1", "allowed": True}
    ledger = bench.service.ledgers.inventory.ledger("n1")
    assert ledger.allocations["uid-p"].grants[0].card == "GPU-n1-0"
    assert bench.decision_log.decisions[-1].outcome is Outcome.ADOPTED


def test_a_choice_on_the_pod_is_read_past_a_stale_watch() -> None:
    chosen = {"volcano.sh/vgpu-ids-new": "GPU-n1-0,NVIDIA,4000,0:"}

    async def work(seen: dict[str, str]) -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod(annotations=chosen)])
        bench.cluster.late["default/p"] = read_pod(a_pod(annotations=seen))
        return await bind(bench, "p", "n1"), bench

    for seen in ({}, {"volcano.sh/vgpu-ids-new": "GPU-n1-1,NVIDIA,4000,0:"}):
        answer, bench = run(work(seen))
        assert response(answer) == {"uid": "r1", "allowed": True}
        ledger = bench.service.ledgers.inventory.ledger("n1")
        assert ledger.allocations["uid-p"].grants[0].card == "GPU-n1-0"
        assert bench.decision_log.decisions[-1].outcome is Outcome.ADOPTED


def test_the_choice_on_the_pod_counts_where_the_binding_has_a_copy_of_an_earlier_one() -> None:
    """vc-scheduler copies the annotations that the pod had before its plugin chose cards again."""
    key = "volcano.sh/vgpu-ids-new"
    stale = {key: "GPU-n1-1,NVIDIA,4000,0:", "volcano.sh/vgpu-node": "n2"}
    chosen = {key: "GPU-n1-0,NVIDIA,4000,0:", "volcano.sh/vgpu-node": "n1"}

    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod(annotations=chosen)])
        bench.cluster.late["default/p"] = read_pod(a_pod(annotations=stale))
        return await bind(bench, "p", "n1", stale), bench

    answer, bench = run(work())

    ledger = bench.service.ledgers.inventory.ledger("n1")
    assert ledger.allocations["uid-p"].grants[0].card == "GPU-n1-0"
    meta = bound(a_pod(annotations=chosen), "n1", answer, stale)["metadata"]
    assert chosen.items() <= meta["annotations"].items()
    assert bench.decision_log.decisions[-1].outcome is Outcome.ADOPTED


@pytest.mark.parametrize(
    "choice",
    [
        "GPU-n1-0,NVIDIA,1,0:",
        "GPU-n1-0,NVIDIA,4000,0:GPU-n1-1,NVIDIA,4000,0:",
        "GPU-n2-0,NVIDIA,4000,0:",
        "GPU-n1-0,NVIDIA,90000,0:",
        "garbage",
    ],
)
def test_an_invalid_choice_is_corrected_on_the_same_node(choice: str) -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        return await bind(bench, "p", "n1", {"volcano.sh/vgpu-ids-new": choice}), bench

    answer, bench = run(work())

    meta = bound(a_pod(), "n1", answer, {"volcano.sh/vgpu-ids-new": choice})["metadata"]
    assert "GPU-n1-1,NVIDIA,4000,0" in meta["annotations"]["volcano.sh/vgpu-ids-new"]
    assert bench.decision_log.decisions[-1].outcome is Outcome.CORRECTED
    assert not bench.service.ledgers.inventory.ledger("n1").problems()


def test_a_chosen_slice_is_recorded_with_what_the_pod_requests() -> None:
    key = "volcano.sh/vgpu-ids-new"
    register = "GPU-0,7,81920,NVIDIA-A100-SXM4-80GB,true,mig:"
    node = KubeNode(Metadata("n1", annotations={"volcano.sh/node-vgpu-register": register}))
    chosen = {key: "GPU-0[group1-3],NVIDIA,70000,0:"}

    async def work() -> tuple[Json, Bench]:
        bench = await a_service(node, pods=[a_pod(memory=4000)])
        return await bind(bench, "p", "n1", chosen), bench

    answer, bench = run(work())

    meta = bound(a_pod(), "n1", answer, chosen)["metadata"]
    assert meta["annotations"][key] == "GPU-0[group1-3],NVIDIA,4000,0:"
    assert bench.decision_log.decisions[-1].outcome is Outcome.ADOPTED


def test_eight_main_containers_marked_as_init_containers_count_together() -> None:
    containers = [
        {**a_pod(memory=4000)["spec"]["containers"][0], "name": f"c{n}"} for n in range(8)
    ]
    pod = a_pod("p")
    pod["spec"]["containers"] = containers
    forged = [
        {
            "container": f"c{n}",
            "card": "GPU-n1-0",
            "memory": 4000 << 20,
            "compute": 0,
            "phase": "init",
        }
        for n in range(8)
    ]

    async def work() -> Bench:
        bench = await a_service(pods=[pod])
        await bind(bench, "p", "n1", {"dragoman.dev/allocation": json.dumps(forged)})
        return bench

    ledger = run(work()).service.ledgers.inventory.ledger("n1")
    allocation = ledger.allocations.get("uid-p")
    grants = () if allocation is None else allocation.grants
    assert {grant.phase for grant in grants} <= {Phase.MAIN}
    for card in ledger.node.cards:
        assert sum(grant.memory for grant in grants if grant.card == card.uuid) <= card.memory


@pytest.mark.parametrize("memory", [1, 40960 << 20])
def test_an_amount_in_a_record_of_the_author_changes_nothing(memory: int) -> None:
    forged = [{"container": "main", "card": "GPU-n1-0", "memory": memory, "compute": 0}]

    async def work() -> Bench:
        bench = await a_service(pods=[a_pod("p", memory=4000)])
        await bind(bench, "p", "n1", {"dragoman.dev/allocation": json.dumps(forged)})
        return bench

    ledger = run(work()).service.ledgers.inventory.ledger("n1")
    (grant,) = ledger.allocations["uid-p"].grants
    assert (grant.memory, grant.phase) == (4000 << 20, Phase.MAIN)


def test_a_choice_of_cards_in_use_is_corrected() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod("a", memory=8000), a_pod("b", memory=8000)])
        chosen = {"volcano.sh/vgpu-ids-new": "GPU-n1-0,NVIDIA,8000,0:"}
        await bind(bench, "a", "n1", chosen)
        return await bind(bench, "b", "n1", chosen), bench

    _, bench = run(work())

    ledger = bench.service.ledgers.inventory.ledger("n1")
    assert ledger.allocations["uid-b"].grants[0].card == "GPU-n1-1"

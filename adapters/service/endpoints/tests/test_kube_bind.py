"""Binds of kube-scheduler: two writes, and what happens when one fails."""

import pytest

from adapters.service.decide.ports import BindError, Outcome
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, used
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_node,
    a_pod,
    a_service,
    capture,
    decoded,
    read_pod,
    run,
)
from adapters.wire.kube import UnreadPod


def test_a_bind_is_two_writes_and_allocates_the_cards() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert found == {"Error": ""}
    assert (bench.store.writes, bench.cluster.bindings) == (1, 1)
    bound = bench.cluster.pods()[0]
    assert bound.spec.node_name == "n1"
    assert "GPU-n1-1" in (bound.metadata.annotations or {})["volcano.sh/vgpu-ids-new"]
    assert bench.decision_log.decisions[-1].outcome is Outcome.BOUND


def test_a_second_bind_of_a_pod_allocates_no_second_card() -> None:
    async def work() -> Bench:
        bench = await a_service(pods=[a_pod()])
        kube = KubeExtender(bench.service)
        await kube.bind(bind("p", "n1"))
        await kube.bind(bind("p", "n1"))
        return bench

    bench = run(work())

    ledger = bench.service.ledgers.inventory.ledger("n1")
    assert len(ledger.allocations["uid-p"].grants) == 1
    assert used(bench, "n1") == ["uid-p"]


def test_a_bind_is_refused_only_by_the_newest_ledger() -> None:
    async def work() -> tuple[Json, Json]:
        pods = [a_pod("earlier", memory=8000), a_pod("p", memory=8000)]
        bench = await a_service(a_node("n1", cards=1), pods=pods)
        kube = KubeExtender(bench.service)
        await kube.bind(bind("earlier", "n1"))
        full = await decoded(kube.bind(bind("p", "n1")))
        stored = await bench.store.read("n1")
        assert stored is not None
        await bench.store.write(stored.ledger.release("uid-earlier"), stored.version)
        return full, await decoded(kube.bind(bind("p", "n1")))

    full, free = run(work())

    assert "short" in full["Error"]
    assert free == {"Error": ""}


def test_a_bind_that_does_not_fit_is_refused_with_the_reason() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(a_node("n1", cards=1), pods=[a_pod(memory=9000)])
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert found["Error"] == "n1: 1 of 1 cards: memory 808 MiB short"
    assert (bench.store.writes, bench.cluster.bindings) == (0, 0)


def test_an_unknown_pod_and_one_of_another_uid_are_not_bound() -> None:
    async def work() -> list[str]:
        bench = await a_service(pods=[a_pod()])
        kube = KubeExtender(bench.service)
        bodies = [bind("x", "n1"), bind("p", "n1", uid="other")]
        return [(await decoded(kube.bind(one)))["Error"] for one in bodies]

    unknown, other = run(work())

    assert "not known" in unknown
    assert "has uid uid-p, not other" in other


def test_a_recreated_pod_is_bound_while_the_watch_shows_the_earlier_one() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        earlier = a_pod()
        earlier["metadata"]["uid"] = "uid-earlier"
        bench.cluster.late["default/p"] = read_pod(earlier)
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert found == {"Error": ""}
    assert used(bench, "n1") == ["uid-p"]


def test_a_pod_that_the_watch_could_not_decode_is_read_again_before_it_is_bound() -> None:
    async def work() -> tuple[Json, Json, list[str], int]:
        bench = await a_service(pods=[a_pod()])
        metadata = read_pod(a_pod()).metadata
        bench.cluster.late["default/p"] = UnreadPod(metadata, problem="no object", node_known=True)
        bench.cluster.unread = [OSError("cannot be decoded")]
        kube = KubeExtender(bench.service)
        refused = await decoded(kube.bind(bind("p", "n1")))
        bound = await decoded(kube.bind(bind("p", "n1")))
        return refused, bound, used(bench, "n1"), bench.cluster.bindings

    refused, bound, held, bindings = run(work())

    assert "cannot be decoded" in refused["Error"]
    assert (bound, held, bindings) == ({"Error": ""}, ["uid-p"], 1)


def test_a_refused_binding_releases_the_cards() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        bench.cluster.answers = [BindError(403, "not allowed")]
        return await decoded(KubeExtender(bench.service).bind(bind("p", "n1"))), bench

    found, bench = run(work())

    assert "not allowed" in found["Error"]
    assert used(bench, "n1") == []


def test_a_binding_without_an_answer_keeps_the_cards_until_it_is_resolved() -> None:
    async def work() -> tuple[list[Json], Bench]:
        bench = await a_service(pods=[a_pod()])
        kube = KubeExtender(bench.service)
        bench.cluster.lost = [BindError(0, "no answer")]
        bench.cluster.unread = [OSError("before"), OSError("no answer")]
        first = await decoded(kube.bind(bind("p", "n1")))
        kept = used(bench, "n1")
        again = await decoded(kube.bind(bind("p", "n1")))
        return [first, kept, again], bench

    (first, kept, again), _ = run(work())

    assert (
        first["Error"]
        == "the API server did not confirm the Binding; the pod may be bound: no answer"
    )
    assert kept == ["uid-p"]
    assert again == {"Error": ""}


def test_a_pod_that_is_bound_elsewhere_after_a_lost_answer_has_cards_of_one_node() -> None:
    async def work() -> Bench:
        bench = await a_service(pods=[a_pod()])
        kube = KubeExtender(bench.service)
        bench.cluster.answers = [BindError(0, "no answer"), None]
        await kube.bind(bind("p", "n1"))
        await kube.bind(bind("p", "n2"))
        return bench

    bench = run(work())

    assert (used(bench, "n1"), used(bench, "n2")) == ([], ["uid-p"])


@pytest.mark.parametrize("name", ["kube-scheduler/v1.37.1", "koordinator/v1.8.0"])
def test_captured_binds_are_answered(name: str) -> None:
    async def work() -> Json:
        bench = await a_service(a_node("gpu-0"), a_node("gpu-1"))
        return await decoded(KubeExtender(bench.service).bind(capture(f"{name}/bind.json")))

    assert "is not known" in run(work())["Error"]

"""Admission of Bindings: the commit."""

import json
from collections.abc import Mapping

import pytest

from adapters.service.decide.service import MAX_AGE
from adapters.service.endpoints.admission import Admission
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.reviews import METAX, bind, bound, patch_of, response
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_binding,
    a_metax_node,
    a_node,
    a_pod,
    a_service,
    body,
    capture,
    decoded,
    review,
    run,
)
from adapters.wire.body import BodyError
from core.requests.request import PodRef


def test_a_binding_commits_and_gets_the_annotations() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        return await bind(bench, "p", "n1"), bench

    answer, bench = run(work())

    assert response(answer)["allowed"] is True
    meta = bound(a_pod(), "n1", answer)["metadata"]
    assert "GPU-n1-1" in meta["annotations"]["volcano.sh/vgpu-ids-new"]
    assert bench.store.writes == 1
    assert bench.cluster.bindings == 0


def test_a_reservation_is_committed_card_for_card() -> None:
    async def work() -> tuple[Json, Bench, str]:
        bench = await a_service(a_node("n1", cards=4), pods=[a_pod(), a_pod("q")])
        pod_request = bench.service.pod_requests.read(bench.cluster.pods()[0])
        assert pod_request is not None
        from adapters.service.endpoints.volcano_extender import VolcanoExtender

        pod = a_pod()
        event = {"task": {"UID": "uid-p", "NodeName": "n1", "Status": 2, "Pod": pod}}
        await VolcanoExtender(bench.service).allocate(body(event))
        held = bench.service.ledgers.reservation("uid-p")
        assert held is not None
        await bind(bench, "q", "n1")
        return await bind(bench, "p", "n1"), bench, held.grants[0].card

    answer, bench, card = run(work())

    assert response(answer)["allowed"] is True
    assert bench.service.ledgers.reservation_count() == 0
    ledger = bench.service.ledgers.inventory.ledger("n1")
    assert ledger.allocations["uid-p"].grants[0].card == card


def test_a_binding_that_does_not_fit_is_denied_with_the_reason() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(a_node("n1", cards=1), pods=[a_pod(memory=9000)])
        return await bind(bench, "p", "n1"), bench

    answer, bench = run(work())

    assert response(answer)["allowed"] is False
    assert "memory 808 MiB short" in response(answer)["status"]["message"]
    assert bench.store.writes == 0


def test_a_binding_is_not_admitted_long_after_its_review_began() -> None:
    """The process stops after the commit; the reconciler may have released the cards meanwhile."""

    async def work() -> Json:
        bench = await a_service(pods=[a_pod()])
        bench.stop_after_writes(MAX_AGE + 1)
        return await bind(bench, "p", "n1")

    answer = response(run(work()))

    assert answer["allowed"] is False
    assert "31 s ago, at most 30 s may pass" in answer["status"]["message"]


def test_our_own_binding_passes_without_another_write() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        seen: list[Json] = []
        plain = bench.cluster.bind

        async def through_admission(
            pod: PodRef,
            node: str,
            annotations: Mapping[str, str],
            labels: Mapping[str, str],
            version: str = "",
        ) -> None:
            binding = a_binding(pod.name, node, annotations, pod.uid)
            seen.append(
                await decoded(Admission(bench.service).bindings(review(binding, sub="binding")))
            )
            await plain(pod, node, annotations, labels, version)

        bench.cluster.bind = through_admission  # type: ignore[method-assign]
        request = {
            "PodName": "p",
            "PodNamespace": "default",
            "PodUID": "uid-p",
            "Node": "n1",
        }
        assert await decoded(KubeExtender(bench.service).bind(body(request))) == {"Error": ""}
        return seen[0], bench

    answer, bench = run(work())

    assert response(answer) == {"uid": "r1", "allowed": True}
    assert (bench.store.writes, bench.cluster.bindings) == (1, 1)


def test_a_dry_run_commits_nothing() -> None:
    async def work() -> tuple[Json, Json, Bench]:
        bench = await a_service(pods=[a_pod(), a_pod("huge", memory=90_000)])
        fits = await bind(bench, "p", "n1", dry=True)
        return fits, await bind(bench, "huge", "n1", dry=True), bench

    fits, huge, bench = run(work())

    assert response(fits)["allowed"] is True
    assert response(huge)["allowed"] is False
    assert bench.store.writes == 0


def test_an_unknown_pod_is_not_bound_and_one_without_a_share_is() -> None:
    async def work() -> tuple[Json, Json]:
        bench = await a_service(pods=[a_pod("plain", limits={"cpu": 1})])
        return await bind(bench, "missing", "n1"), await bind(bench, "plain", "anywhere")

    missing, plain = run(work())

    assert response(missing)["allowed"] is False
    assert response(plain) == {"uid": "r1", "allowed": True}


def test_a_metax_binding_gets_labels() -> None:
    async def work() -> Json:
        bench = await a_service(a_metax_node("m1"), pods=[a_pod(limits=METAX)])
        return await bind(bench, "p", "m1", {"author": "wrote"})

    meta = bound(a_pod(), "m1", run(work()), {"author": "wrote"})["metadata"]

    assert meta["labels"] == {"hami.io/vgpu-node": "m1"}
    assert meta["annotations"]["author"] == "wrote"


@pytest.mark.parametrize(
    "path",
    [
        "volcano/v1.14.1/binding-review.json",
        "koordinator/v1.8.0/binding-review.json",
        "koordinator/v1.8.0/binding-review-deviceshare.json",
        "kube-scheduler/v1.37.1/binding-review.json",
        "admission/binding-by-hand.json",
    ],
)
def test_captured_reviews_of_bindings_are_answered(path: str) -> None:
    async def work() -> Json:
        request = capture(path)
        binding = json.loads(request)["request"]["object"]
        pod = a_pod(binding["metadata"]["name"])
        pod["metadata"]["namespace"] = binding["metadata"]["namespace"]
        pod["metadata"]["uid"] = binding["metadata"].get("uid", "some-uid")
        bench = await a_service(a_node(binding["target"]["name"]), pods=[pod])
        return await decoded(Admission(bench.service).bindings(request))

    answer = run(work())

    assert response(answer)["allowed"] is True
    assert any("vgpu-ids-new" in json.dumps(one) for one in patch_of(answer))


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", body({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"})],
)
def test_an_unsupported_review_is_rejected(content: bytes) -> None:
    async def work() -> None:
        bench = await a_service()
        await Admission(bench.service).pods(content)

    with pytest.raises(BodyError):
        run(work())

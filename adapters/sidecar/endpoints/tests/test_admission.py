"""Admission reviews of pods and Bindings."""

import json
from base64 import b64decode
from collections.abc import Mapping

import pytest

from adapters.cli.demo.schedulers import patched
from adapters.sidecar.decide.ports import Outcome
from adapters.sidecar.endpoints.admission import Admission
from adapters.sidecar.endpoints.kube_extender import KubeExtender
from adapters.sidecar.tests.builders import (
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
    read_pod,
    review,
    run,
)
from adapters.wire.body import BodyError
from core.requests.pod_ref import PodRef
from core.requests.request import Phase

METAX = {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 10, "metax-tech.com/vmemory": 4}


def response(answer: Json) -> Json:
    return answer["response"]


def patch_of(answer: Json) -> Json:
    text = response(answer).get("patch")
    return json.loads(b64decode(text)) if text else []


def bound(pod: Json, node: str, answer: Json, chosen: dict[str, str] | None = None) -> Json:
    return patched(a_binding(pod["metadata"]["name"], node, chosen), response(answer).get("patch"))


async def admit(pod: Json, operation: str = "CREATE") -> Json:
    bench = await a_service()
    return await decoded(Admission(bench.service).pods(review(pod, operation)))


async def bind(
    bench: Bench,
    name: str,
    node: str,
    annotations: dict[str, str] | None = None,
    *,
    dry: bool = False,
) -> Json:
    request = review(a_binding(name, node, annotations), sub="binding", dry=dry)
    return await decoded(Admission(bench.service).bindings(request))


def test_devices_are_voided_for_containers_that_request_a_share_and_no_others() -> None:
    pod = a_pod()
    pod["spec"]["initContainers"] = [
        {"name": "warm", "resources": {"limits": {"volcano.sh/vgpu-number": 1}}, "env": []}
    ]
    pod["spec"]["containers"].append(
        {"name": "log", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    )

    answer = run(admit(pod))

    made = patched(pod, response(answer)["patch"])
    closed = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        {"name": "DRAGOMAN_SHARE", "value": "1"},
    ]
    assert made["spec"]["initContainers"][0]["env"] == closed
    assert made["spec"]["containers"][0]["env"] == closed
    assert made["spec"]["containers"][1] == pod["spec"]["containers"][1]


def test_visible_devices_of_the_author_are_overwritten_wherever_they_are() -> None:
    pod = a_pod()
    pod["spec"]["containers"][0]["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "OTHER", "value": "1"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
    ]

    made = patched(pod, response(run(admit(pod)))["patch"])

    values = [(one["name"], one.get("value")) for one in made["spec"]["containers"][0]["env"]]
    assert values == [
        ("NVIDIA_VISIBLE_DEVICES", "void"),
        ("OTHER", "1"),
        ("NVIDIA_VISIBLE_DEVICES", "void"),
        ("DRAGOMAN_SHARE", "1"),
    ]


async def admit_requiring(pod: Json) -> Json:
    bench = await a_service()
    return await decoded(Admission(bench.service, "dragoman").pods(review(pod)))


def test_containers_that_request_a_share_require_the_agent_if_configured() -> None:
    pod = a_pod(limits=METAX)
    pod["spec"]["containers"].append({"name": "log"})

    made = patched(pod, response(run(admit_requiring(pod)))["patch"])
    none = patched(pod, response(run(admit(pod)))["patch"])

    name = pod["spec"]["containers"][0]["name"]
    assert made["metadata"]["annotations"] == {
        **none["metadata"]["annotations"],
        f"required-plugins.noderesource.dev/container.{name}": '["dragoman"]',
    }


def test_required_plugins_that_the_runtime_cannot_parse_are_rejected() -> None:
    pod = a_pod(annotations={"required-plugins.noderesource.dev": "audit"})

    answer = response(run(admit_requiring(pod)))

    assert not answer["allowed"]
    assert "metadata.annotations[required-plugins.noderesource.dev]" in answer["status"]["message"]


def test_a_default_of_the_dialect_is_written_where_the_author_wrote_nothing() -> None:
    made = patched(a_pod(limits=METAX), response(run(admit(a_pod(limits=METAX))))["patch"])
    said = a_pod(limits=METAX, annotations={"metax-tech.com/sgpu-qos-policy": "fixed-share"})
    kept = patched(said, response(run(admit(said)))["patch"])

    assert made["metadata"]["annotations"] == {"metax-tech.com/sgpu-qos-policy": "best-effort"}
    assert kept["metadata"]["annotations"] == said["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (a_pod(cores=150), "volcano.sh/vgpu-cores"),
        (a_pod(limits={**METAX, "volcano.sh/vgpu-number": 1}), "mixes the dialects"),
        (a_pod(annotations={"volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,1,1:"}), "only the scheduler"),
        (
            a_pod(limits={"cpu": 1}, annotations={"dragoman.dev/allocation": "[]"}),
            "only the scheduler",
        ),
    ],
)
def test_invalid_and_forged_pods_are_denied_with_a_sentence(pod: Json, said: str) -> None:
    found = response(run(admit(pod)))

    assert found["allowed"] is False
    assert said in found["status"]["message"]


def test_a_result_label_of_the_author_is_denied_too() -> None:
    pod = a_pod()
    pod["metadata"]["labels"] = {"hami.io/vgpu-node": "n1"}

    assert response(run(admit(pod)))["allowed"] is False


def test_a_pod_with_a_node_name_is_denied() -> None:
    pod, plain = a_pod(), a_pod(limits={"cpu": 1})
    pod["spec"]["nodeName"] = plain["spec"]["nodeName"] = "n1"

    assert "spec.nodeName" in response(run(admit(pod)))["status"]["message"]
    assert response(run(admit(plain)))["allowed"] is True


def test_a_pod_without_a_share_and_an_update_pass_untouched() -> None:
    for answer in (run(admit(a_pod(limits={"cpu": 1}))), run(admit(a_pod(cores=150), "UPDATE"))):
        assert response(answer) == {"uid": "r1", "allowed": True}


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
        from adapters.sidecar.endpoints.volcano_extender import VolcanoExtender

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


def test_our_own_binding_passes_without_another_write() -> None:
    async def work() -> tuple[Json, Bench]:
        bench = await a_service(pods=[a_pod()])
        seen: list[Json] = []
        plain = bench.cluster.bind

        async def through_admission(
            pod: PodRef, node: str, annotations: Mapping[str, str], labels: Mapping[str, str]
        ) -> None:
            binding = a_binding(pod.name, node, annotations, pod.uid)
            seen.append(
                await decoded(Admission(bench.service).bindings(review(binding, sub="binding")))
            )
            await plain(pod, node, annotations, labels)

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

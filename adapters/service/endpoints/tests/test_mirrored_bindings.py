"""Bindings bring the records by which other schedulers count what the pod has."""

import json

from adapters.service.decide.ports import Outcome
from adapters.service.endpoints.admission import Admission
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind as extender_bind
from adapters.service.endpoints.tests.reviews import bind, bound
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_pod,
    a_service,
    decoded,
    review,
    run,
)
from adapters.wire.kube import KubeNode, Metadata, annotations

CARD = "GPU-n1-0"
BOTH = KubeNode(
    Metadata(
        name="n1",
        annotations={
            "volcano.sh/node-vgpu-register": f"{CARD},10,8192,NVIDIA-A10,true,hami-core:",
            "hami.io/node-nvidia-register": json.dumps(
                [
                    {
                        "id": CARD,
                        "count": 10,
                        "devmem": 8192,
                        "devcore": 100,
                        "type": "NVIDIA-A10",
                        "mode": "hami-core",
                        "health": True,
                    }
                ]
            ),
        },
    )
)
HAMI = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 20}
OWN = "hami.io/vgpu-devices-allocated"
MIRROR = {
    "volcano.sh/vgpu-ids-new": f"{CARD},NVIDIA,3000,20:",
    "dragoman.dev/mirror-volcano": "true",
}


async def a_bench(*pods: Json, mirrored: tuple[str, ...] = ("volcano", "koordinator")) -> Bench:
    return await a_service(BOTH, pods=pods, mirrored=mirrored)


def test_a_bind_of_the_extender_brings_them() -> None:
    async def work(mirrored: tuple[str, ...]) -> dict[str, str]:
        bench = await a_bench(a_pod(limits=HAMI), mirrored=mirrored)
        assert await decoded(KubeExtender(bench.service).bind(extender_bind("p", "n1"))) == {
            "Error": ""
        }
        return dict(annotations(bench.cluster.pods()[0]))

    assert run(work(("volcano",))).items() >= MIRROR.items()
    assert run(work(())).keys().isdisjoint(MIRROR)


def test_a_choice_that_is_adopted_gets_them_and_nothing_else() -> None:
    chosen = {OWN: f"{CARD},NVIDIA,3000,20:;"}

    async def work() -> tuple[Json, Bench]:
        bench = await a_bench(a_pod(limits=HAMI))
        return await bind(bench, "p", "n1", chosen), bench

    answer, bench = run(work())

    assert bound(a_pod(), "n1", answer, chosen)["metadata"]["annotations"] == chosen | MIRROR
    assert bench.decision_log.decisions[-1].outcome is Outcome.ADOPTED


def test_a_pod_of_the_peers_own_dialect_gets_none() -> None:
    chosen = {"volcano.sh/vgpu-ids-new": f"{CARD},NVIDIA,3000,0:"}

    async def work() -> Json:
        bench = await a_bench(a_pod(memory=3000))
        return await bind(bench, "p", "n1", chosen)

    assert "patch" not in run(work())["response"]


def test_an_author_writes_neither_a_mirror_nor_a_mark() -> None:
    async def work(key: str) -> Json:
        bench = await a_bench()
        pod = a_pod(limits=HAMI, annotations={key: "true"})
        return await decoded(Admission(bench.service).pods(review(pod)))

    for key in MIRROR:
        response = run(work(key))["response"]
        assert not response["allowed"]
        assert key in response["status"]["message"]

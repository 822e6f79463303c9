"""Bindings bring the records by which other schedulers count what the pod has."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from adapters.service.decide.ports import EndedPods, Outcome
from adapters.service.endpoints.admission import (
    CHANCES,
    LOOK_NS,
    PATIENCE_NS,
    Admission,
)
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind as extender_bind
from adapters.service.endpoints.tests.reviews import bind, bound
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_binding,
    a_pod,
    a_service,
    decoded,
    review,
    run,
)
from adapters.wire.kube import KubeNode, Metadata, annotations
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from core.tests.builders import a_card, a_node

CARD = "GPU-n1-0"
DIALECTS = frozenset({"koordinator", "hami"})
CARDS = (a_card("k0", 0, 8 * GIB), a_card("k1", 1, 8 * GIB))
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


HALF = {"koordinator.sh/gpu-core": 60, "koordinator.sh/gpu-memory-ratio": 60}
CHOSEN = {
    "scheduling.koordinator.sh/device-allocated": json.dumps(
        {
            "gpu": [
                {
                    "minor": 0,
                    "id": "k0",
                    "resources": {
                        "koordinator.sh/gpu-core": "60",
                        "koordinator.sh/gpu-memory": str(8 * GIB * 60 // 100),
                        "koordinator.sh/gpu-memory-ratio": "60",
                    },
                }
            ]
        }
    )
}
TAKEN = Allocation("other", "d/o", "hami", "n", (Grant("c", "k0", 4 * GIB, 60),))


async def a_bench_with_a_taken_card(*mirrored: str, ended: EndedPods | None = None) -> Bench:
    """A pod waits whose scheduler will choose the card that another pod has."""
    bench = await a_service(pods=[a_pod("p", limits=HALF)], mirrored=mirrored, ended=ended)
    ledger = NodeLedger.of(a_node(*(replace(card, dialects=DIALECTS) for card in CARDS)))
    await bench.store.write(ledger.adopt(TAKEN), None)
    await bench.sync()
    return bench


def test_a_scheduler_that_keeps_counting_its_choice_is_asked_for_another_a_few_times() -> None:
    async def work(*mirrored: str) -> list[tuple[Outcome, str]]:
        bench = await a_bench_with_a_taken_card(*mirrored)
        admission = Admission(bench.service)
        for _ in range(CHANCES + 1):
            await admission.bindings(review(a_binding("p", "n", CHOSEN), sub="binding"))
        return [(each.outcome, each.cause) for each in bench.decision_log.decisions]

    said = run(work("koordinator"))
    assert said == [(Outcome.REFUSED, "choice")] * CHANCES + [(Outcome.CORRECTED, "")]
    assert run(work("volcano"))[0][0] is Outcome.CORRECTED


def test_a_choice_waits_a_moment_for_the_cards_of_a_pod_that_has_just_ended() -> None:
    async def work() -> tuple[Outcome, int]:
        bench = await a_bench_with_a_taken_card("koordinator")
        clock = bench.clock

        async def sleep(nanoseconds: int) -> None:
            clock.time += nanoseconds
            if clock.time == 3 * nanoseconds:
                stored = await bench.store.read("n")
                assert stored is not None
                await bench.store.write(stored.ledger.release("other"), stored.version)
                await bench.sync()

        clock.sleep = sleep  # type: ignore[method-assign]
        binding = review(a_binding("p", "n", CHOSEN), sub="binding")
        await Admission(bench.service).bindings(binding)
        return bench.decision_log.decisions[-1].outcome, clock.time

    assert run(work()) == (Outcome.ADOPTED, 3 * LOOK_NS)


def test_a_choice_gets_the_cards_of_pods_that_the_watch_reports_as_gone_without_the_leader() -> (
    None
):
    @dataclass
    class Ended:
        known: bool = False

        async def among(self, ledger: NodeLedger) -> Sequence[Allocation]:
            return [*ledger.allocations.values()] if self.known else ()

    async def work(looks: int) -> tuple[Outcome, int]:
        ended = Ended(known=looks == 0)
        bench = await a_bench_with_a_taken_card("koordinator", ended=ended)
        clock = bench.clock

        async def sleep(nanoseconds: int) -> None:
            clock.time += nanoseconds
            ended.known = clock.time == looks * nanoseconds

        clock.sleep = sleep  # type: ignore[method-assign]
        binding = review(a_binding("p", "n", CHOSEN), sub="binding")
        await Admission(bench.service).bindings(binding)
        return bench.decision_log.decisions[-1].outcome, clock.time

    assert run(work(0)) == (Outcome.ADOPTED, 0)
    assert run(work(3)) == (Outcome.ADOPTED, 3 * LOOK_NS)
    never = PATIENCE_NS // LOOK_NS + 1
    assert run(work(never)) == (Outcome.REFUSED, PATIENCE_NS)


def test_a_choice_is_rejected_by_the_newest_ledger_only() -> None:
    async def work() -> Outcome:
        bench = await a_bench_with_a_taken_card("koordinator")
        stored = await bench.store.read("n")
        assert stored is not None
        await bench.store.write(stored.ledger.release("other"), stored.version)
        binding = review(a_binding("p", "n", CHOSEN), sub="binding")
        await Admission(bench.service).bindings(binding)
        return bench.decision_log.decisions[-1].outcome

    assert run(work()) is Outcome.ADOPTED


def test_an_author_writes_neither_a_mirror_nor_a_mark() -> None:
    async def work(key: str) -> Json:
        bench = await a_bench()
        pod = a_pod(limits=HAMI, annotations={key: "true"})
        return await decoded(Admission(bench.service).pods(review(pod)))

    for key in MIRROR:
        response = run(work(key))["response"]
        assert not response["allowed"]
        assert key in response["status"]["message"]


def test_what_no_choice_can_state_is_corrected_at_once() -> None:
    """A record of Koordinator does not say which container has which share."""
    limits = {"koordinator.sh/gpu-core": 30, "koordinator.sh/gpu-memory-ratio": 30}
    pod = a_pod("p", limits=limits)
    pod["spec"]["containers"].append({**pod["spec"]["containers"][0], "name": "second"})
    resources = {
        "koordinator.sh/gpu-core": "60",
        "koordinator.sh/gpu-memory": str(8 * GIB * 60 // 100),
        "koordinator.sh/gpu-memory-ratio": "60",
    }
    record = json.dumps({"gpu": [{"minor": 0, "id": "k0", "resources": resources}]})

    async def work() -> tuple[Outcome, int]:
        bench = await a_service(pods=[pod], mirrored=["koordinator"])
        ledger = NodeLedger.of(a_node(*(replace(card, dialects=DIALECTS) for card in CARDS)))
        await bench.store.write(ledger, None)
        await bench.sync()
        began = bench.clock.time
        chosen = {"scheduling.koordinator.sh/device-allocated": record}
        await Admission(bench.service).bindings(review(a_binding("p", "n", chosen), sub="binding"))
        return bench.decision_log.decisions[-1].outcome, bench.clock.time - began

    assert run(work()) == (Outcome.CORRECTED, 0)

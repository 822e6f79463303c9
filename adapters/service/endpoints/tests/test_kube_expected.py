"""Pods that kube-scheduler has placed, and whose bind has not arrived yet."""

import asyncio
import json

from adapters.service.decide.advice.remembered_pods import EXPECTED_NS, RANKED, SIGNATURES
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names
from adapters.service.tests.builders import Bench, Json, a_node, a_pod, a_service, decoded, run
from adapters.service.tests.settling import run_settling, settled

SHARE = 3000
"""MiB: two of them fit a card of ``a_node``."""

NAMES = ("n1", "n2", "n3")


async def a_filled_bench(*nodes: str, pods: int = 9) -> tuple[Bench, KubeExtender]:
    """Nodes of one card; the first has one share, so that it is the best for the next."""
    asked = [a_pod(f"p{number}", memory=SHARE) for number in range(pods)]
    bench = await a_service(*(a_node(name, cards=1) for name in nodes or NAMES), pods=asked)
    kube = KubeExtender(bench.service)
    await kube.bind(bind("p0", (nodes or NAMES)[0]))
    return bench, kube


async def an_empty_bench() -> tuple[Bench, KubeExtender]:
    """Three equal nodes of one card, and six pods, two of which fill a card."""
    asked = [a_pod(f"p{number}", memory=SHARE) for number in range(6)]
    bench = await a_service(*(a_node(name, cards=1) for name in NAMES), pods=asked)
    return bench, KubeExtender(bench.service)


async def placed(kube: KubeExtender, pod: str, *nodes: str) -> str:
    """The node on which the scheduler places a pod: it fits, and has the highest score."""
    return (await highest(kube, pod, *nodes))[0]


async def placed_last(kube: KubeExtender, pod: str) -> str:
    """The node of a scheduler that takes the last one of equal nodes."""
    return (await highest(kube, pod))[-1]


async def highest(kube: KubeExtender, pod: str, *nodes: str) -> list[str]:
    """The nodes that fit a pod and have the highest score."""
    asked = names(a_pod(pod, memory=SHARE), *(nodes or NAMES))
    fitting = (await decoded(kube.filter(asked)))["NodeNames"]
    scores = await decoded(kube.prioritize(names(a_pod(pod, memory=SHARE), *fitting)))
    most = max(row["Score"] for row in scores)
    return [row["Host"] for row in scores if row["Score"] == most]


def test_pods_placed_before_their_binds_arrive_are_all_bound() -> None:
    async def work() -> list[Json]:
        _, kube = await a_filled_bench()
        # koord-scheduler places several pods before it sends the first bind.
        nodes = {pod: await placed(kube, pod) for pod in ("p1", "p2", "p3", "p4", "p5")}
        return [await decoded(kube.bind(bind(pod, node))) for pod, node in nodes.items()]

    assert run(work()) == [{"Error": ""}] * 5


def test_many_pods_at_once_fill_equal_nodes_whichever_of_them_the_scheduler_takes() -> None:
    async def work() -> list[Json]:
        bench, kube = await an_empty_bench()
        go, write_now = asyncio.Event(), bench.store.write

        async def write_later(*args: object) -> str:
            await go.wait()
            return await write_now(*args)  # type: ignore[arg-type]

        bench.store.write = write_later  # type: ignore[method-assign,assignment]
        first = await placed_last(kube, "p0")
        following = asyncio.create_task(placed_last(kube, "p1"))
        await settled()
        assert not following.done()  # until the first bind arrives
        binds = [asyncio.create_task(kube.bind(bind("p0", first)))]
        nodes = [await following, *[await placed_last(kube, f"p{n}") for n in range(2, 6)]]
        go.set()
        for number, node in enumerate(nodes, 1):
            binds.append(asyncio.create_task(kube.bind(bind(f"p{number}", node))))
        return [json.loads(answer) for answer in await asyncio.gather(*binds)]

    assert run_settling(work()) == [{"Error": ""}] * 6


def test_a_filter_does_not_wait_for_a_bind_that_never_arrives() -> None:
    async def work() -> str:
        _, kube = await an_empty_bench()
        await placed_last(kube, "p0")
        return await placed_last(kube, "p1")

    assert run(work()) in NAMES


def test_a_node_that_placed_pods_will_fill_stays_the_choice_where_there_is_no_other() -> None:
    async def work() -> Json:
        _, kube = await a_filled_bench("n1")
        await placed(kube, "p1", "n1")
        return await decoded(kube.filter(names(a_pod("p2", memory=SHARE), "n1")))

    assert run(work())["NodeNames"] == ["n1"]


def test_no_bind_is_refused_because_of_a_pod_that_is_only_expected() -> None:
    async def work() -> Json:
        _, kube = await a_filled_bench()
        assert await placed(kube, "p1") == "n1"
        return await decoded(kube.bind(bind("p2", "n1")))

    assert run(work()) == {"Error": ""}


def test_a_pod_is_expected_once_however_often_it_is_placed() -> None:
    async def work() -> list[str]:
        _, kube = await a_filled_bench()
        return [await placed(kube, "p1") for _ in range(3)]

    assert run(work()) == ["n1"] * 3


def test_a_pod_whose_bind_was_refused_is_not_expected_any_more() -> None:
    async def work() -> str:
        _, kube = await a_filled_bench()
        assert await placed(kube, "p1") == "n1"
        assert (await decoded(kube.bind(bind("p1", "nowhere"))))["Error"]
        return await placed(kube, "p2")

    assert run(work()) == "n1"


def test_a_pod_whose_bind_never_arrives_is_expected_for_a_while_only() -> None:
    async def work() -> tuple[str, str]:
        bench, kube = await a_filled_bench()
        await placed(kube, "p1")
        before = await placed(kube, "p2")
        bench.clock.time += EXPECTED_NS
        return before, await placed(kube, "p3")

    before, after = run(work())

    assert before != "n1"
    assert after == "n1"


def test_a_pod_that_was_deleted_is_not_expected_any_more() -> None:
    async def work() -> str:
        bench, kube = await a_filled_bench()
        await placed(kube, "p1")
        bench.service.forget("uid-p1")
        return await placed(kube, "p2")

    assert run(work()) == "n1"


def test_the_room_of_a_deleted_pod_is_free_beside_pods_that_are_still_expected() -> None:
    async def work() -> tuple[str, str]:
        names_of = ("n1", "n2")
        asked = [a_pod(f"p{number}", memory=SHARE) for number in range(9)]
        bench = await a_service(a_node("n1", cards=2), a_node("n2", cards=2), pods=asked)
        kube = KubeExtender(bench.service)
        await kube.bind(bind("p0", "n1"))
        for pod in ("p1", "p2", "p3"):
            assert await placed(kube, pod, *names_of) == "n1"
        full = await placed(kube, "p4", *names_of)
        bench.service.forget("uid-p2")
        return full, await placed(kube, "p5", *names_of)

    assert run(work()) == ("n2", "n1")


def test_a_pod_counts_once_while_its_bind_is_in_progress() -> None:
    async def work() -> str:
        bench, kube = await a_filled_bench("n1", "n2", "n3")
        await placed(kube, "p1")
        binding, go, write_now = asyncio.Event(), asyncio.Event(), bench.store.write

        async def write_later(*args: object) -> str:
            binding.set()
            await go.wait()
            return await write_now(*args)  # type: ignore[arg-type]

        bench.store.write = write_later  # type: ignore[method-assign,assignment]
        running = asyncio.create_task(kube.bind(bind("p1", "n1")))
        await binding.wait()
        await settled()
        # n1 is full now, so that the filter excludes it.
        answer = await placed(kube, "p2")
        go.set()
        assert json.loads(await running) == {"Error": ""}
        return answer

    assert run_settling(work()) in ("n2", "n3")


def test_only_so_many_full_nodes_are_passed_over_for_one_pod() -> None:
    async def work() -> str:
        nodes = [f"n{number:02}" for number in range(RANKED + 2)]
        full = nodes[: RANKED + 1]
        _, kube = await a_filled_bench(*nodes, pods=2 * len(nodes))
        for number, node in enumerate(full):
            await kube.bind(bind(f"p{number}", node))
            assert await placed(kube, f"p{number + len(nodes)}", node) == node
        return await placed(kube, "next", *nodes)

    assert run(work()) == f"n{RANKED}"


def test_requests_that_do_not_fit_beside_expected_pods_are_kept_up_to_a_number() -> None:
    async def work() -> int:
        bench, kube = await a_filled_bench("n1")
        await kube.prioritize(names(a_pod("expected", memory=4000), "n1"))
        for number in range(2 * SIGNATURES):
            await kube.prioritize(names(a_pod(f"q{number}", memory=4000 + number), "n1"))
        outlook = bench.service.expected_pods._outlooks["n1"]
        return len(outlook.full_for)

    assert 0 < run(work()) <= SIGNATURES

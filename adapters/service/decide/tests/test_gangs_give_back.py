"""What gangs hold and for how long, whatever is refused, counted twice or forgotten."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import Any

import pytest

from adapters.repairs.repairs import RELEASED, RELEASED_LABEL
from adapters.service.decide import gangs
from adapters.service.decide.gang_state import LEFT, REST, ROUNDS
from adapters.service.decide.ports import BindError
from adapters.service.decide.tests.gang_world import LOOK, World
from adapters.service.decide.tests.test_gangs import Lab, lab, member, since
from adapters.service.decide.tests.test_gangs_in_trouble import on
from adapters.service.endpoints.tests.kube_bodies import bind, names
from adapters.service.tests.builders import Json, decoded, read_pod, run
from adapters.stores.store import StoreError
from core.durations import SECOND
from core.feasibility import gang_plan
from core.feasibility.fit import fit

BOTH: Json = {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 7000}
REFUSED = BindError(409, "refused by a webhook")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "LOOK", 0.001)


async def until_free(trouble: Callable[[World, int], None], step: int = LOOK) -> int:
    """Seconds after which a gang whose Bindings are refused holds nothing; -1 where that is never.

    Args:
        trouble: called before each bind, with the number of it.
        step: seconds between two attempts.
    """
    world, binds = World(Random(1)), count()  # noqa: S311
    world.trouble = world.limits = 0.0
    await world.start()
    leader = world.replicas[0]
    world.sizes["g"], world.pods["g"] = 2, []
    world.grow("g", BOTH)
    world.grow("g", BOTH)
    for seconds in range(0, 1800, step):
        await leader.watch()
        chosen: dict[str, str] = {}
        for pod in world.pods["g"]:
            answer = await decoded(leader.kube.filter(names(pod, *world.nodes)))
            if answer["NodeNames"]:
                chosen[pod["metadata"]["name"]] = answer["NodeNames"][0]
        if len(chosen) == len(world.pods["g"]):
            for name, node in chosen.items():
                trouble(world, next(binds))
                await leader.kube.bind(bind(name, node))
        world.cluster.answers, leader.store.failures = [], []
        world.clock.time += step * SECOND
        await world.look()
        if not any(ledger.allocations for ledger in (await world.ledgers()).values()):
            return seconds
    return -1


@pytest.mark.parametrize("step", [4, 16, 31])
def test_a_gang_whose_bindings_are_refused_for_ever_gives_its_cards_back(step: int) -> None:
    def refuse(world: World, _: int) -> None:
        world.cluster.answers = [REFUSED]

    assert 0 <= run(until_free(refuse, step)) <= (ROUNDS + 1) * step


def test_cards_of_a_binding_that_may_be_on_its_way_are_left_to_the_leader() -> None:
    def refuse(world: World, number: int) -> None:
        world.cluster.answers = [REFUSED] if number else [BindError(0, "no answer")]

    assert 0 <= run(until_free(refuse)) <= LEFT + ROUNDS * LOOK


async def given_back(this: Lab, pod: Json, *, now: bool = True) -> asyncio.Future[Any]:
    """Ask about a pod until its gang gives its cards back; the last answer, soon or now."""
    for _ in range(ROUNDS):
        assert await this.filter(pod, "n1") == ["n1"]
    asked = asyncio.ensure_future(this.filter(pod, "n1"))
    if now:
        await asked
    return asked


def test_a_bind_that_waits_while_its_gang_gives_its_cards_back_is_refused() -> None:
    async def work() -> tuple[str, str, dict[str, list[str]]]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        await this.filter(pods[0], "n1")
        asked = await given_back(this, pods[1], now=False)
        states = this.bench.service.gangs._states
        while not any(state.lock.locked() for state in [*states.values()]):
            await asyncio.sleep(0)
        return await this.bind("a", "n1"), str(await asked), this.held()

    error, answer, held = run(work())

    assert "held and not used" in answer
    assert (error, held) == ("gang default/g of 2: cards of 0 of its pods are held", {"n1": []})


def test_a_gang_of_which_a_pod_is_bound_does_not_rest() -> None:
    async def work() -> list[str] | str:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        this.cache.put(read_pod(on(pods[0], "n1")))
        at = datetime.fromtimestamp(this.bench.clock.wall() / SECOND, UTC).isoformat()
        marked = member("b", 2, annotations={RELEASED: at})
        this.cache.put(read_pod(marked))
        return await this.filter(marked, "n1")

    assert run(work()) == ["n1"]


def test_a_mark_of_the_leader_may_be_a_label() -> None:
    async def work() -> tuple[Any, Any]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        now = datetime.fromtimestamp(this.bench.clock.wall() / SECOND, UTC)
        marked = member("b", 2)
        marked["metadata"]["labels"] = {RELEASED: now.strftime(RELEASED_LABEL)}
        this.cache.put(read_pod(marked))
        rests = await this.filter(pods[0], "n1")
        this.bench.clock.time += REST * SECOND
        return rests, await this.filter(pods[0], "n1")

    rests, later = run(work())

    assert "held and not used" in str(rests)
    assert later == ["n1"]


def test_cards_that_another_replica_holds_are_renewed_although_some_are_new() -> None:
    async def work() -> tuple[int, int]:
        pods = [member(name, 3) for name in "abc"]
        this = await lab(pods, cards=(3,))
        await this.filter(pods[0], "n1")
        before = since(this, "b")
        this.bench.clock.time += 115 * SECOND
        await this.bench.service.release("uid-c")
        this.bench.service.gangs._states.clear()
        assert await this.filter(pods[2], "n1") == ["n1"]
        assert await this.bind("a", "n1") == ""
        return before, since(this, "b")

    before, after = run(work())

    assert after > before


def test_pods_that_are_gone_are_forgotten() -> None:
    async def work() -> int:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods, cards=(4,))
        for number in range(20):
            await this.filter(pods[0], "n1")
            await this.filter(pods[1], "n1")
            gone = pods.pop(0)["metadata"]["uid"]
            this.cache.drop(gone)
            await this.bench.service.release(gone)
            pods.append(member(f"p{number}", 2))
            this.cache.put(read_pod(pods[-1]))
        (state,) = this.bench.service.gangs._states.values()
        assert state.hold is not None
        return max(len(state.hold.written), len(state.hold.asked))

    assert run(work()) <= 3


@pytest.mark.parametrize(
    ("minimum", "answer"),
    [
        (2, ["n1", "n2"]),
        (
            20,
            "gang default/g of 20: at most 8 pods of namespace default hold cards before they are",
        ),
    ],
)
def test_of_a_gang_that_is_too_large_no_plan_is_made_again_and_again(
    monkeypatch: pytest.MonkeyPatch, minimum: int, answer: Sequence[str]
) -> None:
    monkeypatch.setattr(gangs, "LARGEST", 8)

    async def work() -> tuple[Any, ...]:
        pods = [member(f"p{number}", minimum, memory=100) for number in range(40)]
        this = await lab(pods, cards=(2, 2))
        await this.filter(pods[0], "n1", "n2")
        committed = this.bench.service.ledgers.has_committed
        asked = [pod for pod in pods if not committed(pod["metadata"]["uid"])]
        planned, real = count(), fit

        def counted(*args: Any) -> Any:
            next(planned)
            return real(*args)

        monkeypatch.setattr(gang_plan, "fit", counted)
        answers = [await this.filter(pod, "n1", "n2") for pod in asked]
        request = this.bench.service.pod_requests.get(asked[-1]["metadata"]["uid"])
        assert request is not None
        return answers, next(planned), this.bench.service.gangs.fits(request)

    answers, planned, fits = run(work())

    assert all(each[: len(answer)] == answer for each in answers)
    assert (planned, fits) == (0, minimum == 2)


def test_only_the_first_pods_that_may_hold_cards_are_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gangs, "LARGEST", 8)

    async def work() -> int:
        pods = [member(f"p{number}", 2, memory=100) for number in range(40)]
        this = await lab(pods, cards=(2,))
        planned, real = count(), fit

        def counted(*args: Any) -> Any:
            next(planned)
            return real(*args)

        monkeypatch.setattr(gang_plan, "fit", counted)
        await this.filter(pods[0], "n1")
        return next(planned)

    assert run(work()) == 8


def test_filters_of_few_namespaces_wait_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> float:
        pods = [member(f"p{number}", 2) for number in range(100)]
        for number, pod in enumerate(pods):
            pod["metadata"]["namespace"] = f"ns{number}"
        this = await lab(pods)
        looks, real = count(), asyncio.sleep

        async def look(seconds: float) -> None:
            if seconds == gangs.LOOK:
                next(looks)
            await real(0)

        monkeypatch.setattr(asyncio, "sleep", look)
        for pod in pods * 2:
            await this.filter(pod, "n1")
        return next(looks) / gangs.LOOKS

    assert run(work()) == gangs.IN_VAIN


def test_a_store_that_is_away_does_not_keep_a_refused_gang_for_ever() -> None:
    def refuse(world: World, number: int) -> None:
        world.cluster.answers = [REFUSED]
        if number % 3 == 0:
            world.replicas[0].store.failures = [StoreError("away")]

    assert 0 <= run(until_free(refuse)) <= LEFT + 2 * ROUNDS * LOOK

"""Gangs: cards for all pods or for none, and no bind of a part."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pytest

from adapters.accounting.gang_cache import GangCache
from adapters.repairs.repairs import RELEASED
from adapters.service.decide import gangs
from adapters.service.decide.gang_state import REST, ROUNDS
from adapters.service.decide.gangs import FRESH
from adapters.service.endpoints.kube_extender import KubeExtender
from adapters.service.endpoints.tests.kube_bodies import bind, names, used
from adapters.service.tests.builders import (
    Bench,
    Json,
    a_metax_node,
    a_node,
    a_pod,
    a_service,
    decoded,
    read_pod,
    run,
)
from adapters.stores.memory import MemoryQuotas
from adapters.stores.store import StoreError
from adapters.wire.kube import Metadata
from adapters.wire.kube_policy import GangPolicy, GroupPolicy, PodGroupObject, PodGroupSpec
from core.durations import SECOND
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota
from core.requests.gang import GangApi

GANG = "gang.scheduling.koordinator.sh"
LARGE = 5000
"""MiB, more than half of a card of the bench."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a moment only for what no watch will report."""
    monkeypatch.setattr(gangs, "LOOK", 0.001)


def member(name: str, size: int, **more: object) -> Json:
    """A pod of Koordinator's gang ``g``."""
    texts = {f"{GANG}/name": "g", f"{GANG}/min-available": str(size)}
    given = more.pop("annotations", {})
    assert isinstance(given, dict)
    return a_pod(name, annotations={**texts, **given}, **{"memory": LARGE, **more})  # type: ignore[arg-type]


class Lab:
    """A service with the pods of some gangs."""

    def __init__(self, bench: Bench, cache: GangCache, pods: Sequence[Json]) -> None:
        self.bench = bench
        self.cache = cache
        self.kube = KubeExtender(bench.service)
        for pod in pods:
            cache.put(read_pod(pod))

    async def filter(self, pod: Json, *nodes: str) -> list[str] | str:
        """Return the nodes that are answered; the one reason where there are none."""
        answer = await decoded(self.kube.filter(names(pod, *nodes)))
        if answer["NodeNames"]:
            return [*answer["NodeNames"]]
        failed = (answer["FailedNodes"] or {}) | (answer["FailedAndUnresolvableNodes"] or {})
        (text,) = {*failed.values()}
        return str(text)

    async def bind(self, name: str, node: str) -> str:
        """Bind a pod, which the watch reports then; the error."""
        answer = await decoded(self.kube.bind(bind(name, node)))
        return str(answer["Error"])

    def held(self) -> dict[str, list[str]]:
        """By node, the pods that have cards there."""
        return {
            node: [uid.removeprefix("uid-") for uid in used(self.bench, node)]
            for node in self.bench.service.ledgers.inventory.names()
        }


async def lab(
    pods: Sequence[Json], *, cards: Sequence[int] = (2,), quotas: MemoryQuotas | None = None
) -> Lab:
    cache = GangCache()
    nodes = [a_node(f"n{number}", cards=count) for number, count in enumerate(cards, 1)]
    bench = await a_service(*nodes, pods=pods, gangs=cache, quotas=quotas)
    return Lab(bench, cache, pods)


class CountingQuotas(MemoryQuotas):
    """A quota of namespace ``default`` that is not reached; ``writes`` is how often it changed."""

    writes = 0

    def __init__(self) -> None:
        super().__init__((Quota("default", QuotaLimits(memory=1 << 50), counted=True),))

    async def write(self, quota: Quota, expected: str) -> str:
        self.writes += 1
        await asyncio.sleep(0.001)  # as long as the API server takes at least
        return await super().write(quota, expected)


@pytest.mark.parametrize(("nodes", "limited"), [(2, False), (2, True), (40, False), (40, True)])
def test_the_cards_of_a_gang_are_held_and_released_with_one_write_for_each_node(
    nodes: int, limited: bool
) -> None:
    async def work() -> tuple[int, int, int, int]:
        pods = [member(f"p{number:02}", 80) for number in range(80)]
        quotas = CountingQuotas() if limited else None
        this = await lab(pods, cards=[80 // nodes] * nodes, quotas=quotas)
        if quotas:
            await this.bench.see_quota()
        everywhere = [*this.held()]
        await this.filter(pods[0], *everywhere)
        held, writes = sum(map(len, this.held().values())), this.bench.store.writes
        for _ in range(ROUNDS + 1):
            await this.filter(pods[0], *everywhere)
        made = 0 if quotas is None else quotas.writes
        return held, writes, this.bench.store.writes - writes, made

    assert run(work()) == (80, nodes, nodes, int(limited))


def test_of_a_gang_of_three_where_two_fit_nothing_is_held() -> None:
    async def work() -> tuple[list[str] | str, dict[str, list[str]], int]:
        pods = [member(name, 3) for name in "abc"]
        this = await lab(pods)
        answers = {str(await this.filter(pod, "n1")) for pod in pods}
        (answer,) = answers
        return answer, this.held(), this.bench.store.writes

    answer, held, writes = run(work())

    assert answer == (
        "gang default/g of 3: 2 of 3 fit together; no room for default/c:"
        " n1: 2 of 2 cards: memory 1808 MiB short"
    )
    assert held == {"n1": []}
    assert writes == 0


def test_a_gang_that_fits_is_held_at_the_first_filter_and_bound_pod_by_pod() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 3) for name in "abc"]
        this = await lab(pods, cards=(2, 1))
        first = await this.filter(pods[0], "n1", "n2")
        held = this.held()
        writes = this.bench.store.writes
        others = [await this.filter(pod, "n1", "n2") for pod in pods[1:]]
        errors = [
            await this.bind(pod["metadata"]["name"], node[0])
            for pod, node in zip(pods, (first, *others), strict=True)
        ]
        return first, held, others, errors, writes, this.bench.store.writes

    first, held, others, errors, writes, after = run(work())

    assert sorted(chain(*held.values())) == ["a", "b", "c"]
    assert sorted(chain(first, *others)) == ["n1", "n1", "n2"]
    assert errors == ["", "", ""]
    assert writes == 2  # one for each node
    assert after == writes + 3


def test_pods_of_two_dialects_are_one_gang() -> None:
    async def work() -> dict[str, list[str]]:
        pods = [member("nvidia", 2), member("metax", 2, limits={"metax-tech.com/sgpu": 1})]
        cache = GangCache()
        bench = await a_service(a_node("n1"), a_metax_node("n2"), pods=pods, gangs=cache)
        this = Lab(bench, cache, pods)
        await this.filter(pods[0], "n1", "n2")
        return this.held()

    assert run(work()) == {"n1": ["nvidia"], "n2": ["metax"]}


def test_a_gang_waits_for_its_pods() -> None:
    async def work() -> tuple[list[str] | str, list[str] | str]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods[:1])
        alone = await this.filter(pods[0], "n1")
        this.cache.put(read_pod(pods[1]))
        return alone, await this.filter(pods[0], "n1")

    assert run(work()) == ("gang default/g: 1 of 2 pods exist", ["n1"])


def test_the_first_bind_of_a_gang_without_its_cards_is_rejected() -> None:
    async def work() -> tuple[str, dict[str, list[str]]]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        return await this.bind("a", "n1"), this.held()

    error, held = run(work())

    assert error == "gang default/g of 2: cards of 0 of its pods are held"
    assert held == {"n1": []}


def test_a_gang_whose_cards_were_not_used_lets_others_go_first() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        now = this.bench.clock.wall()
        at = datetime.fromtimestamp(now / SECOND, UTC).isoformat()
        this.cache.put(read_pod(member("b", 2, annotations={RELEASED: at})))
        rests = await this.filter(pods[0], "n1")
        this.bench.clock.time += (REST + 1) * SECOND
        return rests, await this.filter(pods[0], "n1")

    rests, later = run(work())

    assert "its cards were held and not used" in str(rests)
    assert later == ["n1"]


def test_a_pod_that_its_scheduler_cannot_put_on_the_planned_node_is_planned_again() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods, cards=(2, 2))
        first = await this.filter(pods[0], "n1", "n2")
        (planned,) = [node for node, held in this.held().items() if "b" in held]
        other = "n2" if planned == "n1" else "n1"
        second = await this.filter(pods[1], other)
        return first, second, other, this.held()

    first, second, other, held = run(work())

    assert second == [other]
    assert sorted(chain(*held.values())) == ["a", "b"]
    assert "a" in held[first[0]]


def test_more_pods_than_the_gang_needs_take_what_is_left() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 2) for name in "abc"]
        this = await lab(pods)
        answers = [await this.filter(pod, "n1") for pod in pods]
        return answers[:2], str(answers[2]), this.held()

    answers, third, held = run(work())

    assert answers == [["n1"], ["n1"]]
    assert "memory" in third
    assert sorted(held["n1"]) == ["a", "b"]


def test_kubernetes_groups_are_known_by_their_object() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [a_pod(name, memory=LARGE) for name in "abc"]
        for pod in pods:
            pod["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        this = await lab(pods)
        policy = GroupPolicy(GangPolicy(3))
        group = PodGroupObject(
            Metadata(name="g", namespace="default"), PodGroupSpec(scheduling_policy=policy)
        )
        alone = await this.filter(pods[0], "n1")
        this.cache.put_group(GangApi.KUBERNETES, group)
        return alone, await this.filter(pods[0], "n1"), this.held()

    alone, together, held = run(work())

    assert alone == ["n1"]
    assert "2 of 3 fit together" in str(together)
    assert held == {"n1": []}


def test_a_waiting_gang_is_woken_only_when_all_of_it_fits() -> None:
    async def work() -> list[bool]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab([*pods, a_pod("other", memory=LARGE)])
        service = this.bench.service
        await this.kube.bind(bind("other", "n1"))
        await this.filter(pods[0], "n1")
        request = service.pod_requests.get("uid-a")
        assert request is not None
        before = service.gangs.fits(request)
        await service.release("uid-other")
        return [before, service.gangs.fits(request), service.feasibility.fits_any(request)]

    assert run(work()) == [False, True, True]


def test_what_is_held_is_released_where_one_pod_of_the_gang_gets_nothing() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods, cards=(1, 1))
        this.bench.store.failures = [StoreError("away")]
        answer = await this.filter(pods[0], "n1", "n2")
        return answer, this.held(), await this.filter(pods[0], "n1", "n2")

    answer, held, again = run(work())

    assert answer == "gang default/g of 2: try again: away"
    assert held == {"n1": [], "n2": []}
    assert len(again) == 1


def test_what_cannot_be_released_now_stays_for_the_reconciler() -> None:
    async def work() -> dict[str, list[str]]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods, cards=(1, 1))
        store, away = this.bench.store, StoreError("away")
        store.failures = [away]
        store.written = lambda: store.failures.append(away)
        await this.filter(pods[0], "n1", "n2")
        return this.held()

    assert sorted(chain(*run(work()).values())) in (["a"], ["b"])


def test_a_namespace_holds_cards_of_a_number_of_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "LARGEST", 3)

    async def work() -> tuple[Any, ...]:
        first = [member(name, 2) for name in "ab"]
        second = [member(name, 2, annotations={f"{GANG}/name": "h"}) for name in "cd"]
        this = await lab([*first, *second], cards=(2, 2))
        await this.filter(first[0], "n1", "n2")
        return await this.filter(second[0], "n1", "n2"), this.held()

    answer, held = run(work())

    assert answer == (
        "gang default/h of 2: at most 3 pods of namespace default hold cards before they are bound"
    )
    assert len([*chain(*held.values())]) == 2


def test_before_the_first_bind_cards_that_are_held_for_long_are_committed_again() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        await this.filter(pods[0], "n1")
        this.bench.clock.time += FRESH + 1
        before = since(this, "b")
        this.bench.store.failures = [StoreError("away")]
        refused = await this.bind("a", "n1")
        error = await this.bind("a", "n1")
        renewed = since(this, "b")
        bound = member("a", 2)
        bound["spec"]["nodeName"] = "n1"
        this.cache.put(read_pod(bound))
        writes = this.bench.store.writes
        second = await this.bind("b", "n1")
        return before, refused, error, renewed, second, this.bench.store.writes - writes

    before, refused, error, renewed, second, writes = run(work())

    assert refused == "gang default/g of 2: try again: away"
    assert (error, second, writes) == ("", "", 1)
    assert renewed > before


def since(this: Lab, name: str) -> int:
    """Return the version of the ledger at the newest attempt to bind a pod."""
    ledger = this.bench.service.ledgers.inventory.ledger("n1")
    return ledger.allocations[f"uid-{name}"].attempt


def test_pods_that_need_no_card_of_ours_count_and_invalid_ones_do_not() -> None:
    async def work() -> tuple[Any, ...]:
        share = member("share", 3)
        pods = [
            share,
            member("plain", 3, limits={"cpu": 1}),
            member("plugin", 3, limits={"nvidia.com/mig-1g.5gb": 1}),
            member("invalid", 3, memory="much"),
        ]
        this = await lab(pods)
        together = await this.filter(share, "n1")
        three = await lab(pods[:2] + pods[3:])
        return together, await three.filter(share, "n1"), await this.filter(pods[2], "n1")

    together, short, plugin = run(work())

    assert together == ["n1"]
    assert short == "gang default/g of 3: 2 of 3 fit together"
    assert "gang" not in str(plugin)


def test_a_gang_that_rests_is_not_woken_and_a_mark_that_is_no_time_counts_not() -> None:
    async def work() -> tuple[Any, ...]:
        this = await lab([member(name, 2) for name in "ab"])
        service = this.bench.service
        request = service.pod_requests.read(read_pod(member("a", 2)))
        single = service.pod_requests.read(read_pod(a_pod("single")))
        assert request is not None
        assert single is not None
        at = datetime.fromtimestamp(this.bench.clock.wall() / SECOND, UTC).isoformat()
        fits = [service.gangs.fits(request), service.gangs.fits(single)]
        for mark in (at, "yesterday"):
            this.cache.put(read_pod(member("b", 2, annotations={RELEASED: mark})))
            fits.append(service.gangs.fits(request))
        return tuple(fits)

    assert run(work()) == (True, True, False, True)


@pytest.mark.parametrize("ahead", [-600, -61, 0, 600])
def test_a_gang_rests_for_its_time_whatever_the_leaders_clock_says(ahead: int) -> None:
    async def work() -> tuple[bool, ...]:
        this = await lab([member(name, 2) for name in "ab"])
        service, wall = this.bench.service, this.bench.clock.wall() / SECOND
        request = service.pod_requests.read(read_pod(member("a", 2)))
        assert request is not None
        at = datetime.fromtimestamp(wall + ahead, UTC).isoformat()
        this.cache.put(read_pod(member("b", 2, annotations={RELEASED: at})))
        rests = service.gangs.fits(request)
        this.bench.clock.time += (REST - 1) * SECOND
        still = service.gangs.fits(request)
        this.bench.clock.time += SECOND
        return rests, still, service.gangs.fits(request)

    assert run(work()) == (False, False, True)


def test_what_is_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "REMEMBERED", 1)

    async def work() -> tuple[Any, ...]:
        names_of = ("g", "h", "g")
        this = await lab([], cards=(1,))
        answers = []
        for number, gang in enumerate(names_of):
            pods = [member(f"{n}{number}", 2, annotations={f"{GANG}/name": gang}) for n in "ab"]
            for pod in pods:
                this.cache.put(read_pod(pod))
            answers.append(await this.filter(pods[0], "n1"))
        return tuple(answers)

    assert all("1 of 2 fit together" in str(answer) for answer in run(work()))


def test_gangs_that_held_cards_leave_room_for_the_plans_of_those_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gangs, "REMEMBERED", 4)

    async def work() -> tuple[list[bool], int]:
        held = [
            member(f"{name}{each}", 2, annotations={f"{GANG}/name": f"h{each}"})
            for each in range(5)
            for name in "ab"
        ]
        this = await lab(held, cards=(10,))
        for pod in held:
            await this.filter(pod, "n1")
        waiting = [member(name, 2, annotations={f"{GANG}/name": name}) for name in "vw"]
        for pod in waiting:
            this.cache.put(read_pod(pod))
        service = this.bench.service
        requests = [service.pod_requests.read(read_pod(pod)) for pod in waiting]
        plans = 0
        real = service.gangs._placeable

        def counted(*args: Any) -> Any:
            nonlocal plans
            plans += 1
            return real(*args)

        monkeypatch.setattr(service.gangs, "_placeable", counted)
        fits = [service.gangs.fits(each) for _ in range(3) for each in requests if each]
        return fits, plans

    assert run(work()) == ([False] * 6, 2)


def test_a_gang_that_its_scheduler_cannot_bind_gives_its_cards_back() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        answers = [await this.filter(pods[0], "n1") for _ in range(ROUNDS + 2)]
        held = this.held()
        this.bench.clock.time += (REST + 1) * SECOND
        return answers, held, await this.filter(pods[1], "n1")

    answers, held, later = run(work())

    assert answers[:-1] == [["n1"]] * (ROUNDS + 1)
    assert "held and not used" in str(answers[-1])
    assert held == {"n1": []}
    assert later == ["n1"]


def test_a_gang_of_which_a_pod_is_bound_keeps_its_cards() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        await this.filter(pods[0], "n1")
        await this.bind("a", "n1")
        this.cache.put(read_pod({**pods[0], "spec": {**pods[0]["spec"], "nodeName": "n1"}}))
        return tuple([await this.filter(pods[1], "n1") for _ in range(ROUNDS + 2)])

    assert run(work()) == (["n1"],) * (ROUNDS + 2)

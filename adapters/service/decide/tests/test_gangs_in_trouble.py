"""Gangs whose pods, quotas and schedulers do what is not usual."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from itertools import chain, count
from typing import Any

import pytest

from adapters.accounting.gang_cache import GangCache
from adapters.service.decide import gangs
from adapters.service.decide.gang_state import ROUNDS
from adapters.service.decide.gangs import FRESH
from adapters.service.decide.ports import BindError, NodeLocked
from adapters.service.decide.tests.test_gangs import GANG, LARGE, Lab, lab, member, since
from adapters.service.endpoints.tests.kube_bodies import bind
from adapters.service.tests.builders import Json, a_node, a_pod, a_service, read_pod, run
from adapters.stores.memory import MemoryQuotas, MemoryStore
from adapters.stores.store import StoreError
from adapters.wire.kube import KubeNode, Pod
from core.durations import SECOND
from core.hardware.quantity import MIB
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "LOOK", 0.001)


def on(pod: Json, node: str, phase: str = "Running") -> Json:
    """Return the pod, bound to a node."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": phase}}


async def during_bind(
    patch: pytest.MonkeyPatch, this: Lab, name: str, node: str, work: Callable[[], Awaitable[Any]]
) -> str:
    """Do something while a Binding is on its way; the error of the bind."""
    sent, arrived, real = asyncio.Event(), asyncio.Event(), this.bench.cluster.bind

    async def slow(*args: Any) -> None:
        sent.set()
        await arrived.wait()
        await real(*args)

    patch.setattr(this.bench.cluster, "bind", slow)
    binding = asyncio.ensure_future(this.bind(name, node))
    await sent.wait()
    await work()
    arrived.set()
    return await binding


def test_cards_are_not_given_back_while_a_binding_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> tuple[str, dict[str, list[str]]]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        for _ in range(ROUNDS + 1):
            await this.filter(pods[1], "n1")
        error = await during_bind(monkeypatch, this, "a", "n1", lambda: this.filter(pods[1], "n1"))
        return error, this.held()

    assert run(work()) == ("", {"n1": ["a", "b"]})


def test_a_pod_that_is_moved_keeps_its_cards_while_its_binding_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> tuple[str, bool]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods, cards=(2, 2))
        node = (await this.filter(pods[0], "n1", "n2"))[0]
        other = "n2" if node == "n1" else "n1"
        error = await during_bind(monkeypatch, this, "a", node, lambda: this.filter(pods[0], other))
        return error, "a" in this.held()[node]

    assert run(work()) == ("", True)


@pytest.mark.parametrize("how", ["another pod is asked about", "another replica holds them"])
def test_cards_held_for_long_are_committed_again_whatever_was_asked_since(how: str) -> None:
    async def work() -> tuple[int, int]:
        pods = [member(name, 2) for name in "abc"]
        this = await lab(pods[:2])
        await this.filter(pods[0], "n1")
        before = since(this, "b")
        this.bench.clock.time += 115 * SECOND
        if how == "another pod is asked about":
            this.cache.put(read_pod(pods[2]))
            await this.filter(pods[2], "n1")
        else:
            this.bench.service.gangs._states.clear()
            await this.filter(pods[0], "n1")
        assert await this.bind("a", "n1") == ""
        return before, since(this, "b")

    before, after = run(work())

    assert after > before


def test_binds_at_once_renew_the_cards_of_a_gang_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> int:
        names = [f"p{number}" for number in range(16)]
        pods = [member(name, 16) for name in names]
        this = await lab(pods, cards=(16,))
        await this.filter(pods[0], "n1")
        this.bench.clock.time += FRESH + 1
        committer, renewals = this.bench.service.committer, count()
        real = committer.renew

        async def counted(*args: Any) -> Any:
            next(renewals)
            return await real(*args)

        monkeypatch.setattr(committer, "renew", counted)
        assert {*await asyncio.gather(*(this.bind(name, "n1") for name in names))} == {""}
        return next(renewals)

    assert run(work()) == 16


def test_a_gang_whose_bindings_are_refused_does_not_keep_its_cards() -> None:
    async def work() -> bool:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        for _ in range(10):
            answers = [await this.filter(pod, "n1") for pod in pods]
            if any("held and not used" in str(answer) for answer in answers):
                return True
            this.bench.cluster.answers = [BindError(409, "refused by a webhook")] * 2
            for name in "ab":
                await this.bind(name, "n1")
            this.bench.clock.time += 16 * SECOND
        return False

    assert run(work())


def test_a_hold_that_is_forgotten_while_it_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "REMEMBERED", 1)

    async def work() -> list[str] | str:
        pods = [member(name, 2) for name in "ab"]
        other = [member(name, 2, annotations={f"{GANG}/name": "h"}) for name in "cd"]
        this = await lab([*pods, *other], cards=(2, 2))
        committer = this.bench.service.committer
        real = committer.release

        async def release(*args: Any) -> bool:
            await this.filter(other[0], "n2")
            return await real(*args)

        monkeypatch.setattr(committer, "release", release)
        return [await this.filter(pods[0], "n1") for _ in range(ROUNDS + 2)][-1]

    assert "held and not used" in str(run(work()))


def test_a_gang_over_its_quota_is_neither_held_nor_woken() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 3) for name in "abc"]
        cache = GangCache()
        limit = QuotaLimits(memory=2 * LARGE * MIB)
        quotas = MemoryQuotas((Quota("default", limit, counted=True),))
        bench = await a_service(a_node("n1", cards=4), pods=pods, gangs=cache, quotas=quotas)
        this = Lab(bench, cache, pods)
        await bench.see_quota()
        answer = await this.filter(pods[0], "n1")
        request = bench.service.pod_requests.get("uid-a")
        assert request is not None
        return answer, bench.store.writes, bench.service.gangs.fits(request)

    answer, writes, fits = run(work())

    assert answer == (
        "gang default/g of 3: at least 2 of 3 fit together; no room for default/c:"
        " the gang is over the quota of namespace default"
    )
    assert (writes, fits) == (0, False)


def test_pods_that_select_different_nodes_are_one_gang() -> None:
    async def work() -> list[list[str] | str]:
        pods = [member(name, 2) for name in "ab"]
        for pod, pool in zip(pods, "12", strict=True):
            pod["spec"]["nodeSelector"] = {"pool": pool}
        this = await lab(pods, cards=(1, 1))
        return [await this.filter(pods[0], "n1"), await this.filter(pods[1], "n2")]

    assert run(work()) == [["n1"], ["n2"]]


def test_the_nodes_of_an_earlier_attempt_do_not_bind_a_later_one() -> None:
    async def work() -> tuple[Any, ...]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab([*pods, a_pod("other", memory=LARGE)], cards=(2, 1))
        await this.kube.bind(bind("other", "n2"))
        first = await this.filter(pods[0], "n1", "n2")
        await this.filter(pods[1], "n2")
        for name in "ab":
            await this.bench.service.release(f"uid-{name}")
        return first, [await this.filter(pod, "n1", "n2") for pod in pods]

    assert run(work()) == (["n1"], [["n1"], ["n1"]])


def test_a_gang_may_have_more_pods_than_may_hold_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "LARGEST", 3)

    async def work() -> tuple[Any, ...]:
        pods = [member(name, 2) for name in "abcd"]
        this = await lab(pods, cards=(4,))
        return await this.filter(pods[0], "n1"), len(this.held()["n1"])

    assert run(work()) == (["n1"], 3)


def test_a_pod_that_a_gang_does_not_need_is_woken_only_where_it_fits() -> None:
    async def work() -> tuple[bool, int]:
        pods = [member(name, 2) for name in "abc"]
        this = await lab(pods)
        for pod in pods[:2]:
            await this.filter(pod, "n1")
            await this.bind(pod["metadata"]["name"], "n1")
            this.cache.put(read_pod(on(pod, "n1")))
        await this.filter(pods[2], "n1")
        service = this.bench.service
        request = service.pod_requests.get("uid-c")
        assert request is not None
        return service.gangs.fits(request), len(service.gangs.waiting(request.pod))

    assert run(work()) == (False, 1)


def test_pods_that_are_made_again_after_all_have_failed_are_bound_together() -> None:
    async def work() -> tuple[str, dict[str, list[str]]]:
        failed = [on(member(name, 3), "n1", "Failed") for name in "xyz"]
        again = [member(name, 3) for name in "abc"]
        this = await lab([*failed, *again])
        return str(await this.filter(again[0], "n1")), this.held()

    answer, held = run(work())

    assert "2 of 3 fit together" in answer
    assert held == {"n1": []}


def test_a_pod_with_a_gate_gets_no_cards() -> None:
    async def work() -> list[list[str] | str]:
        pods = [member(name, 2) for name in "abc"]
        pods[0]["spec"]["schedulingGates"] = [{"name": "queue"}]
        this = await lab(pods)
        return [await this.filter(pod, "n1") for pod in pods[1:]]

    assert run(work()) == [["n1"], ["n1"]]


def test_a_filter_waits_for_pods_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> int:
        pods = [member(f"p{number}", 1000) for number in range(5)]
        this = await lab(pods)
        looks, real = count(), asyncio.sleep

        async def look(seconds: float) -> None:
            if seconds == gangs.LOOK:
                next(looks)
            await real(0)

        monkeypatch.setattr(asyncio, "sleep", look)
        for pod in pods:
            await this.filter(pod, "n1")
        return next(looks)

    assert run(work()) == gangs.LOOKS


def test_a_gang_of_too_many_kinds_of_requests_is_not_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gangs, "KINDS", 2)

    async def work() -> tuple[Any, ...]:
        pods = [member(f"p{number}", 3, memory=1000 + number) for number in range(3)]
        this = await lab(pods)
        answer = await this.filter(pods[0], "n1")
        request = this.bench.service.pod_requests.get("uid-p0")
        assert request is not None
        return answer, this.bench.service.gangs.fits(request)

    assert run(work()) == (
        "gang default/g of 3: its pods request more than 2 different shares",
        False,
    )


class SlowPlugin:
    """The lock of a node whose device plugin has not served a pod yet."""

    async def acquire(
        self,
        pod: Pod,  # noqa: ARG002
        node: str,
        needed: Callable[[KubeNode], bool],  # noqa: ARG002
    ) -> bool:
        raise NodeLocked(f"{node} is locked")

    async def release(self, pod: Pod, node: str) -> None:
        """There is nothing to unlock."""


@pytest.mark.parametrize("last", [False, True])
def test_a_bind_that_waits_for_the_lock_of_its_node_keeps_the_cards_of_the_gang(
    last: bool,
) -> None:
    async def work() -> list[int]:
        pods = [member(name, 3) for name in "abc"]
        this = await lab(pods, cards=(3,))
        await this.filter(pods[0], "n1")
        for pod in pods[: 2 if last else 1]:
            assert await this.bind(pod["metadata"]["name"], "n1") == ""
            this.cache.put(read_pod(on(pod, "n1")))
        this.bench.service.ports = replace(this.bench.service.ports, locks=SlowPlugin())
        begun = [since(this, "c")]
        for _ in range(3):
            this.bench.clock.time += FRESH + 1
            assert await this.bind("c", "n1") == "n1 is locked"
            begun.append(since(this, "c"))
        return begun

    begun = run(work())

    assert sorted({*begun}) == begun  # each is a new attempt, after which the leader waits again


def test_cards_that_cannot_be_kept_do_not_keep_the_rest_of_a_gang_from_its_bind() -> None:
    async def work() -> str:
        pods = [member(name, 3) for name in "abc"]
        this = await lab(pods, cards=(3,))
        await this.filter(pods[0], "n1")
        assert await this.bind("a", "n1") == ""
        this.cache.put(read_pod(on(pods[0], "n1")))
        this.bench.clock.time += FRESH + 1
        this.bench.store.failures = [StoreError("away")]
        return await this.bind("b", "n1")

    assert run(work()) == ""


def test_cards_that_were_released_meanwhile_are_not_committed_by_the_bind_of_another_pod() -> None:
    async def work() -> tuple[str, dict[str, list[str]]]:
        pods = [member(name, 2) for name in "ab"]
        this = await lab(pods)
        await this.filter(pods[0], "n1")
        this.bench.clock.time += FRESH + 1
        stored = (await this.bench.store.load())["n1"]
        without = stored.ledger.release("uid-b")
        await MemoryStore.write(this.bench.store, without, stored.version)
        return await this.bind("a", "n1"), this.held()

    assert run(work()) == ("gang default/g of 2: try again: cards were released", {"n1": ["a"]})


def test_gangs_that_are_planned_at_once_hold_no_more_than_a_namespace_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gangs, "LARGEST", 3)

    async def work() -> tuple[list[str], int]:
        first = [member(name, 2) for name in "ab"]
        second = [member(name, 2, annotations={f"{GANG}/name": "h"}) for name in "cd"]
        this = await lab([*first, *second], cards=(4, 4))
        asked = (this.filter(pods[0], "n1", "n2") for pods in (first, second))
        answers = [str(answer) for answer in await asyncio.gather(*asked)]
        return answers, len([*chain(*this.held().values())])

    answers, held = run(work())

    assert held == 2
    assert sum("at most 3 pods of namespace default hold cards" in each for each in answers) == 1


def test_a_pod_that_is_deleted_while_its_gang_waits_for_its_turn_gets_no_cards() -> None:
    async def work() -> dict[str, list[str]]:
        pods = [member(name, 2) for name in "abcd"]
        this = await lab(pods[:2], cards=(4,))
        this.bench.store.failures = [StoreError("away")]
        first = asyncio.ensure_future(this.filter(pods[0], "n1"))
        while not any(each.committing for each in this.bench.service.gangs._states.values()):
            await asyncio.sleep(0)
        for pod in pods[2:]:
            this.cache.put(read_pod(pod))
        second = asyncio.ensure_future(this.filter(pods[2], "n1"))
        await asyncio.sleep(0)
        assert not first.done()
        this.cache.drop("uid-d")
        await asyncio.gather(first, second)
        return this.held()

    assert run(work()) == {"n1": ["a", "b", "c"]}


def test_gangs_of_which_each_names_the_other_give_back_what_they_got_when_both_were_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> tuple[str, dict[str, list[str]]]:
        both = {f"{GANG}/groups": '["default/g", "default/h"]'}
        first = [member(name, 2, annotations={f"{GANG}/name": "h", **both}) for name in "ab"]
        second = [member(name, 2, annotations=both) for name in "cd"]
        this = await lab(first, cards=(4,))
        committer, known = this.bench.service.committer, asyncio.Event()
        real = committer.commit

        async def commit(*args: Any) -> Any:
            await known.wait()
            return await real(*args)

        monkeypatch.setattr(committer, "commit", commit)
        asked = [asyncio.ensure_future(this.filter(pod, "n1")) for pod in first]
        for _ in range(10):
            await asyncio.sleep(0)
        for pod in second:
            this.cache.put(read_pod(pod))
        known.set()
        assert await asyncio.gather(*asked) == [["n1"], ["n1"]]
        answers = [await this.filter(second[0], "n1") for _ in range(ROUNDS + 1)]
        return str(answers[-1]), {node: sorted(pods) for node, pods in this.held().items()}

    answer, held = run(work())

    assert "held and not used" in answer
    assert held == {"n1": ["a", "b"]}  # the leader releases these


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (1, 1), (0, 2)])
def test_gangs_of_two_namespaces_hold_no_more_than_each_of_these_may(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int], at_once: bool
) -> None:
    """Whichever of its pods a filter is about: the pods that hold cards count."""
    monkeypatch.setattr(gangs, "LARGEST", 3)

    def joined(number: int) -> Iterator[Json]:
        groups = json.dumps([f"a/g{number}", f"b/g{number}"])
        for namespace, size in zip("ab", (max(1, sizes[0]), sizes[1]), strict=True):
            texts = {f"{GANG}/name": f"g{number}", f"{GANG}/groups": groups}
            for pod in range(size):
                made = member(f"{namespace}{number}-{pod}", size, annotations=texts)
                made["metadata"]["namespace"] = namespace
                yield made

    async def work() -> tuple[list[str], Counter[str]]:
        teams = [[*joined(number)] for number in range(4)]
        this = await lab([*chain(*teams)], cards=(8, 8))
        asked = [this.filter(team[0 if sizes[0] else -1], "n1", "n2") for team in teams]
        answers = await asyncio.gather(*asked) if at_once else [await each for each in asked]
        held = Counter(uid[0] for uid in chain(*this.held().values()))
        return [str(answer) for answer in answers], held

    answers, held = run(work())

    assert max(held.values()) <= 3
    largest = "ba"[sizes[0] > sizes[1]]
    if sizes != (1, 1):
        assert sum(f"3 pods of namespace {largest} hold cards" in each for each in answers) == 3

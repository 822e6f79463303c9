"""Bindings that a change of the pod has overtaken, or that come long after their commit."""

import json

import msgspec
import pytest

from adapters.dialects.koordinator.keys import ALLOCATED
from adapters.repairs.repairs import RELEASED
from adapters.service.decide.commit.attempt import Committed
from adapters.service.decide.ports import BindError
from adapters.service.decide.service import MAX_AGE, READS
from adapters.service.tests.builders import Bench, Json, a_pod, a_service, read_pod, run
from adapters.service.tests.world import a_node
from adapters.wire.kube import Pod
from core.ledger.node_ledger import NodeLedger
from core.requests.request import PodRef

RDMA = {
    "koordinator.sh/gpu-core": 50,
    "koordinator.sh/gpu-memory-ratio": 50,
    "koordinator.sh/rdma": 100,
}
LABELLED = {"labels": {RELEASED: "2026-01-01T00.00.00.000000"}}
OWNED = {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}]}


def at_version(version: str, pod: Json | None = None) -> Pod:
    found = read_pod(a_pod() if pod is None else pod)
    metadata = msgspec.structs.replace(found.metadata, resource_version=version)
    return msgspec.structs.replace(found, metadata=metadata)


async def a_bench(*, cached: str, now: str, pod: Json | None = None) -> Bench:
    """A service whose cache has one version of the pod, and the API server another.

    ``pod`` is what the API server has; a pod that has only another version by default. Its read
    before the Binding is lost.
    """
    bench = await a_service()
    bench.cluster.unread = [OSError("lost")]
    bench.cluster.put(at_version(now, pod))
    bench.cluster.late["default/p"] = at_version(cached)
    return bench


async def bind(bench: Bench, node: str = "n1") -> object:
    pod_request = bench.service.pod_requests.read(bench.cluster.late["default/p"])
    assert pod_request is not None
    return await bench.service.bind(pod_request, node)


async def allocated(bench: Bench) -> set[str]:
    stored = await bench.store.read("n1")
    assert stored is not None
    return {*stored.ledger.allocations}


def test_a_pod_that_was_changed_is_bound_as_it_is_now_and_keeps_its_cards() -> None:
    async def work() -> tuple[Bench, set[str]]:
        bench = await a_bench(cached="1", now="2", pod=a_pod(annotations={"koord": "patched"}))
        await bind(bench)
        return bench, await allocated(bench)

    bench, uids = run(work())

    assert bench.cluster.bindings == 2
    assert bench.store.writes == 1
    assert uids == {"uid-p"}


def test_a_change_that_the_watch_has_shown_by_the_time_of_the_binding_refuses_none() -> None:
    async def work() -> Bench:
        bench = await a_bench(cached="1", now="2")

        def watch() -> None:
            bench.cluster.late["default/p"] = at_version("2")

        bench.store.written = watch
        await bind(bench)
        return bench

    bench = run(work())

    assert (bench.cluster.bindings, bench.store.writes) == (1, 1)


def nominated(name: str, *, version: str, node: str | None = "n1") -> Pod:
    pod = at_version(version, a_pod(name, memory=1000))
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, status=status)


def test_a_pod_is_read_before_its_binding_where_its_scheduler_nominates_just_before() -> None:
    """koord-scheduler does; kube-scheduler does not, and few of its pods are read."""

    async def work() -> list[tuple[int, int]]:
        bench, read, found = await a_service(), list[PodRef](), list[tuple[int, int]]()
        newest = bench.cluster.newest

        async def counted(pod: PodRef) -> Pod | None:
            read.append(pod)
            return await newest(pod)

        bench.cluster.newest = counted  # type: ignore[method-assign]
        for number, node in enumerate(("n1", "n1", *[None] * (READS + 1))):
            name = f"p{number}"
            before = bench.cluster.bindings, len(read)
            bench.cluster.put(nominated(name, version="2" if node else "1", node=node))
            late = nominated(name, version="1", node=None)
            bench.cluster.late[f"default/{name}"] = late
            pod_request = bench.service.pod_requests.read(late)
            assert pod_request is not None
            assert isinstance(await bench.service.bind(pod_request, "n1"), Committed)
            found.append((bench.cluster.bindings - before[0], len(read) - before[1]))
        return found

    assert run(work()) == [(1, 1), (1, 1), *[(1, 1)] * READS, (1, 0)]


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": a_pod(annotations={RELEASED: "2026-01-01T00:00:00.000000+00:00"})["metadata"]},
        {"metadata": {**a_pod()["metadata"], **LABELLED}},
        {"metadata": {**a_pod()["metadata"], **OWNED}},
    ],
)
@pytest.mark.parametrize("seen", [False, True])
def test_a_change_that_decides_is_committed_again(changed: Json, seen: bool) -> None:
    """The cards may have been released since; nothing relies on what the watch shows of it."""

    async def work() -> tuple[Bench, set[str]]:
        pod = {**a_pod(), **changed}
        bench = await a_bench(cached="1", now="2", pod=pod)

        def watch() -> None:
            bench.cluster.late["default/p"] = at_version("2", pod)

        bench.store.written = watch if seen else lambda: None
        await bind(bench)
        return bench, await allocated(bench)

    bench, uids = run(work())

    assert bench.cluster.bindings == 2
    assert bench.store.writes == 3
    assert uids == {"uid-p"}


def test_cards_that_were_released_meanwhile_are_committed_again() -> None:
    async def work() -> tuple[Bench, set[str]]:
        bench = await a_bench(cached="1", now="2")
        bound = bench.cluster.bind

        async def released(*args: Json) -> None:
            if bench.cluster.bindings == 0:
                await bench.service.committer.release("uid-p", "n1")
                bench.cluster.late["default/p"] = at_version("2")
            await bound(*args)

        bench.cluster.bind = released  # type: ignore[method-assign,assignment]
        await bind(bench)
        return bench, await allocated(bench)

    bench, uids = run(work())

    assert bench.cluster.bindings == 2
    assert uids == {"uid-p"}


@pytest.mark.parametrize(
    "changed",
    [
        a_pod(memory=5000),
        a_pod(memory="plenty"),
        a_pod(limits={"cpu": 1}),
        {**a_pod(), "status": {"phase": "Failed"}},
        {**a_pod(), "metadata": {**a_pod()["metadata"], "deletionTimestamp": "2026-01-01"}},
    ],
)
def test_a_pod_that_requests_something_else_now_is_left_to_its_scheduler(changed: Json) -> None:
    async def work() -> tuple[Bench, set[str]]:
        bench = await a_bench(cached="1", now="2", pod=changed)
        with pytest.raises(BindError, match="has been modified"):
            await bind(bench)
        return bench, await allocated(bench)

    bench, uids = run(work())

    assert bench.cluster.bindings == 1
    assert uids == set()


def test_a_binding_states_the_devices_beside_the_cards_that_the_scheduler_stated_last() -> None:
    """koord-scheduler states them on the pod before the Binding, in the record of the cards."""

    async def work() -> str:
        stated = a_pod(limits=RDMA, annotations={ALLOCATED: '{"rdma":[{"minor":3}]}'})
        bench = await a_bench(cached="1", now="2", pod=stated)
        bench.cluster.late["default/p"] = at_version("1", a_pod(limits=RDMA))
        await bench.store.write(NodeLedger.of(a_node("n3")), None)
        await bench.sync()
        await bind(bench, "n3")
        found = await bench.cluster.newest(PodRef("default", "p", "uid-p"))
        assert found is not None
        return (found.metadata.annotations or {})[ALLOCATED]

    record = json.loads(run(work()))

    assert record["rdma"] == [{"minor": 3}]
    assert len(record["gpu"]) == 1


def test_a_pod_that_changes_again_and_again_keeps_no_cards() -> None:
    async def work() -> tuple[Bench, set[str]]:
        bench = await a_bench(cached="1", now="2")
        bench.cluster.answers = [None, *[BindError(409, "has been modified")] * 2]
        with pytest.raises(BindError, match="has been modified"):
            await bind(bench)
        return bench, await allocated(bench)

    bench, uids = run(work())

    assert bench.cluster.bindings == 2
    assert uids == set()


def test_a_binding_is_not_sent_long_after_its_commit() -> None:
    """The process stops between the commit and the Binding."""

    async def work() -> tuple[Bench, set[str]]:
        bench = await a_bench(cached="1", now="1")
        bench.stop_after_writes(MAX_AGE + 1)
        with pytest.raises(BindError, match="committed 31 s ago, at most 30 s may pass"):
            await bind(bench)
        return bench, await allocated(bench)

    bench, uids = run(work())

    assert bench.cluster.bindings == 0
    assert uids == set()

"""Bindings that a change of the pod has overtaken, or that come long after their commit."""

import msgspec
import pytest

from adapters.service.decide.ports import BindError
from adapters.service.decide.service import MAX_AGE
from adapters.service.tests.builders import Bench, a_pod, a_service, read_pod, run
from adapters.wire.kube import Pod


def at_version(version: str) -> Pod:
    pod = read_pod(a_pod())
    metadata = msgspec.structs.replace(pod.metadata, resource_version=version)
    return msgspec.structs.replace(pod, metadata=metadata)


async def a_bench(*, cached: str, now: str) -> Bench:
    """A service whose cache has one version of the pod, and the API server another."""
    bench = await a_service()
    bench.cluster.put(at_version(now))
    bench.cluster.late["default/p"] = at_version(cached)
    return bench


async def bind(bench: Bench) -> object:
    pod_request = bench.service.pod_requests.read(bench.cluster.late["default/p"])
    assert pod_request is not None
    return await bench.service.bind(pod_request, "n1")


async def allocated(bench: Bench) -> set[str]:
    stored = await bench.store.read("n1")
    assert stored is not None
    return {*stored.ledger.allocations}


def test_a_pod_that_was_changed_is_bound_as_it_is_now() -> None:
    async def work() -> tuple[Bench, set[str]]:
        bench = await a_bench(cached="1", now="2")
        await bind(bench)
        return bench, await allocated(bench)

    bench, uids = run(work())

    assert bench.cluster.bindings == 2
    assert uids == {"uid-p"}


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

"""MovePlans: the requests that are sent, and what is made of the answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from adapters.cluster.api.error import CONFLICT, ClusterError
from adapters.cluster.objects.move_plans import MovePlanClient
from adapters.cluster.tests.server import Server, Step, client, ok, refusal, serving
from adapters.wire.records.move_plan import MovePhase, MovePlanStatus, read_status

ResultT = TypeVar("ResultT")

PLAN = {"metadata": {"name": "defrag-1", "uid": "p", "resourceVersion": "7"}}
COLLECTION = "/apis/dragoman.dev/v1alpha1/moveplans"


def ask(
    question: Callable[[MovePlanClient], Awaitable[ResultT]], *steps: Step
) -> tuple[ResultT, Server]:
    async def main() -> tuple[ResultT, Server]:
        async with serving(*steps) as server, client(server) as api:
            return await question(MovePlanClient(api)), server

    return asyncio.run(main())


def test_all_plans_are_listed_whatever_one_of_them_has_in_it() -> None:
    strange = {"metadata": {"name": "other"}, "spec": [], "status": 7}

    plans, server = ask(lambda plans: plans.list(), ok({"items": [PLAN, strange]}))

    assert [plan.metadata.name for plan in plans] == ["defrag-1", "other"]
    assert server.requests[0].path == COLLECTION


def test_a_report_that_is_nested_deeply_hides_no_plan() -> None:
    deep = b'{"items":[{"metadata":{"name":"a"},"report":' + b"[" * 5000 + b"]" * 5000 + b"}]}"

    plans, _ = ask(lambda plans: plans.list(), ok(deep))

    assert [plan.metadata.name for plan in plans] == ["a"]


def test_there_are_no_plans_where_the_kind_is_not_installed() -> None:
    plans, _ = ask(lambda plans: plans.list(), refusal(404))

    assert plans == []


def test_a_plan_that_is_gone_is_none() -> None:
    found, _ = ask(lambda plans: plans.get("defrag-1"), refusal(404))

    assert found is None


def test_a_plan_is_created_as_it_is_given() -> None:
    plan, server = ask(lambda plans: plans.create(PLAN), ok(PLAN))

    assert (server.requests[0].method, server.requests[0].path) == ("POST", COLLECTION)
    assert server.requests[0].json() == PLAN
    assert plan.metadata.uid == "p"


def test_a_status_is_written_to_the_version_that_was_read() -> None:
    async def write(plans: MovePlanClient) -> MovePhase:
        plan = await plans.get("defrag-1")
        assert plan is not None
        return read_status(await plans.write_status(plan, MovePlanStatus(MovePhase.READY))).phase

    phase, server = ask(write, ok(PLAN), ok({**PLAN, "status": {"phase": "Ready"}}))

    assert phase is MovePhase.READY
    sent = server.requests[1]
    assert (sent.method, sent.path) == ("PATCH", f"{COLLECTION}/defrag-1/status")
    assert sent.headers["content-type"] == "application/merge-patch+json"
    assert sent.json()["metadata"] == {"resourceVersion": "7"}


def test_a_status_of_a_plan_that_has_changed_is_a_conflict() -> None:
    async def write(plans: MovePlanClient) -> None:
        plan = await plans.get("defrag-1")
        assert plan is not None
        await plans.write_status(plan, MovePlanStatus(MovePhase.READY))

    with pytest.raises(ClusterError) as caught:
        ask(write, ok(PLAN), refusal(CONFLICT))

    assert caught.value.status == CONFLICT

"""An eviction is one request for one pod; a refusal by a budget is an answer."""

import asyncio

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.server import Server, Step, client, cut, ok, refusal, serving
from core.requests.request import PodRef


def evict(*steps: Step, dry_run: bool = False) -> tuple[bool | ClusterError, Server]:
    async def main() -> tuple[bool | ClusterError, Server]:
        async with serving(*steps) as server, client(server) as api:
            try:
                pod = PodRef("n", "p", "u")
                return await PodClient(api).evict(pod, dry_run=dry_run), server
            except ClusterError as error:
                return error, server

    return asyncio.run(main())


def test_an_eviction_names_the_pod_and_its_uid() -> None:
    evicted, server = evict(ok({}))

    assert evicted is True
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/n/pods/p/eviction")
    assert request.json() == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "n"},
        "deleteOptions": {"preconditions": {"uid": "u"}},
    }
    assert "dryRun" not in request.query


def test_a_dry_run_says_so() -> None:
    evicted, server = evict(ok({}), dry_run=True)

    assert evicted is True
    assert server.requests[0].query["dryRun"] == "All"


@pytest.mark.parametrize(
    "gone",
    [
        refusal(404),
        refusal(409, {"message": "Precondition failed: UID in precondition: u, UID in object: v"}),
        refusal(409, {"message": "the UID in the precondition (u) does not match the UID in v"}),
    ],
)
def test_a_pod_that_is_gone_or_was_made_again_is_not_evicted(gone: Step) -> None:
    evicted, _ = evict(gone)

    assert evicted is False


@pytest.mark.parametrize("second", [ok({}), refusal(404)])
def test_an_eviction_without_an_answer_is_asked_for_once_more(second: Step) -> None:
    evicted, server = evict(cut, second)

    assert isinstance(evicted, bool)
    assert [request.json() for request in server.requests[1:]] == [server.requests[0].json()]


def test_an_eviction_without_a_second_answer_is_an_error() -> None:
    error, server = evict(cut, cut, ok({}))

    assert isinstance(error, ClusterError)
    assert error.status == 0
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [429, 409, 500, 403])
def test_a_refused_eviction_is_an_error_and_not_repeated(status: int) -> None:
    error, server = evict(refusal(status), ok({}))

    assert isinstance(error, ClusterError)
    assert error.status == status
    assert len(server.requests) == 1

"""One Binding is one request; a lost answer leaves it uncertain."""

import asyncio

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.server import Server, Step, client, cut, ok, refusal, serving
from core.requests.request import PodRef


def bind(*steps: Step) -> tuple[ClusterError | None, Server]:
    async def main() -> tuple[ClusterError | None, Server]:
        async with serving(*steps) as server, client(server) as api:
            try:
                await PodClient(api).bind(PodRef("n", "p", "u"), "here", {"grant": "g"}, {"l": "x"})
            except ClusterError as error:
                return error, server
            return None, server

    return asyncio.run(main())


def test_a_binding_is_one_request_with_everything_in_its_metadata() -> None:
    error, server = bind(ok({}))

    assert error is None
    assert [(each.method, each.path) for each in server.requests] == [
        ("POST", "/api/v1/namespaces/n/pods/p/binding")
    ]
    assert server.requests[0].json()["metadata"] == {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "annotations": {"grant": "g"},
        "labels": {"l": "x"},
    }
    assert server.requests[0].json()["target"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "here",
    }


@pytest.mark.parametrize("lost", [cut, refusal(500), refusal(504)])
def test_a_binding_whose_response_was_lost_is_uncertain_and_not_repeated(lost: Step) -> None:
    error, server = bind(lost)

    assert error is not None
    assert error.uncertain
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [403, 404, 409])
def test_a_rejected_binding_is_certain(status: int) -> None:
    error, server = bind(refusal(status))

    assert error is not None
    assert (error.status, error.uncertain) == (status, False)
    assert len(server.requests) == 1

"""What a Binding that goes wrong comes to."""

import asyncio

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.binding import BindingClient
from adapters.cluster.tests.server import Server, Step, client, cut, ok, refusal, serving
from core.requests.pod_ref import PodRef

CONFLICT = {"code": 409, "reason": "Conflict", "message": "already assigned to node n"}


def pod(node: str = "", uid: str = "u", **annotations: str) -> Step:
    return ok({"metadata": {"uid": uid, "annotations": annotations}, "spec": {"nodeName": node}})


def bind(*steps: Step) -> tuple[ClusterError | None, Server]:
    async def main() -> tuple[ClusterError | None, Server]:
        async with serving(*steps) as server, client(server) as api:
            try:
                await BindingClient(api).bind(
                    PodRef("n", "p", "u"), "here", {"grant": "g"}, {"l": "x"}
                )
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


@pytest.mark.parametrize("lost", [cut, refusal(500), refusal(504), refusal(409, CONFLICT)])
def test_a_binding_whose_answer_was_lost_is_looked_up(lost: Step) -> None:
    error, server = bind(lost, pod("here", grant="g", other="x"))

    assert error is None
    assert [each.method for each in server.requests] == ["POST", "GET"]


@pytest.mark.parametrize("lost", [cut, refusal(500), refusal(409, CONFLICT)])
@pytest.mark.parametrize("found", [pod("there", grant="g"), pod("here"), pod("here", grant="h")])
def test_a_pod_that_somebody_else_has_bound_is_a_conflict(lost: Step, found: Step) -> None:
    error, _ = bind(lost, found)

    assert error is not None
    assert (error.status, error.uncertain) == (409, False)


@pytest.mark.parametrize("found", [refusal(404), pod("here", uid="another", grant="g")])
def test_a_pod_that_is_gone_is_not_found(found: Step) -> None:
    error, _ = bind(cut, found)

    assert error is not None
    assert (error.status, error.uncertain) == (404, False)


@pytest.mark.parametrize("found", [pod(), refusal(403), ok(b"garbage")])
def test_what_may_still_happen_is_said(found: Step) -> None:
    error, _ = bind(cut, found)

    assert error is not None
    assert error.uncertain


def test_a_refusal_is_not_looked_up() -> None:
    error, server = bind(refusal(403))

    assert error is not None
    assert (error.status, error.uncertain) == (403, False)
    assert len(server.requests) == 1

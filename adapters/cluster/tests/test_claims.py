"""Claims are deallocated, against a scripted server."""

import asyncio
from typing import Any

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.claims import ClaimClient
from adapters.cluster.tests.server import Request, Step, client, ok, refusal, serving
from core.requests.pod_ref import PodRef

PATH = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c"
RESULT = {"driver": "d", "pool": "p", "device": "gpu-0"}


def found(uid: str = "u", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team", "uid": uid, "resourceVersion": "7"},
        "spec": {"devices": {}},
        "status": status,
    }


UNUSED = found(allocation={"devices": {"results": [RESULT]}}, devices=[RESULT])


def deallocated(*steps: Step) -> tuple[bool, list[Request]]:
    async def main() -> tuple[bool, list[Request]]:
        async with serving(*steps) as server, client(server) as api:
            done = await ClaimClient(api).deallocate(PodRef("team", "c", "u"))
            return done, server.requests

    return asyncio.run(main())


def test_the_status_is_emptied_where_the_claim_has_not_changed() -> None:
    done, (read, written) = deallocated(ok(UNUSED), ok({}))

    assert done
    assert (read.method, read.path) == ("GET", PATH)
    assert (written.method, written.path) == ("PUT", f"{PATH}/status")
    assert written.json() == UNUSED | {"status": {}}


@pytest.mark.parametrize(
    "live",
    [
        found(),
        found("other", allocation={"devices": {"results": [RESULT]}}),
        found(
            allocation={"devices": {"results": [RESULT]}},
            reservedFor=[{"apiGroup": "g", "resource": "jobs", "name": "j", "uid": "v"}],
        ),
        found(allocation=1),
    ],
)
def test_a_claim_that_is_free_another_used_or_not_clear_stays(live: dict[str, Any]) -> None:
    done, requests = deallocated(ok(live))

    assert (done, len(requests)) == (False, 1)


@pytest.mark.parametrize("status", [404, 409])
def test_a_claim_that_is_reserved_meanwhile_stays(status: int) -> None:
    done, _ = deallocated(ok(UNUSED), refusal(status, {"kind": "Status", "code": status}))

    assert not done


def test_a_claim_that_was_deleted_needs_nothing() -> None:
    assert deallocated(refusal(404, {"kind": "Status", "code": 404}))[0] is False


def test_a_rejected_write_is_an_error() -> None:
    with pytest.raises(ClusterError, match="403"):
        deallocated(ok(UNUSED), refusal(403, {"kind": "Status", "code": 403}))

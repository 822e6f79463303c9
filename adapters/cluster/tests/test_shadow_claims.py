"""Shadow claims, against a scripted server."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.claims import ShadowClaimClient
from adapters.cluster.tests.server import Request, Step, client, ok, refusal, serving
from adapters.dialects.dra.shadows import ShadowDevice, shadow_claim

CLAIM = shadow_claim("system", "n1", ShadowDevice(("d", "p", "gpu-0")))
PATH = "/apis/resource.k8s.io/v1/namespaces/system/resourceclaims"
CONFLICT = {"kind": "Status", "code": 409, "reason": "AlreadyExists"}
GONE = {"kind": "Status", "code": 404, "reason": "NotFound"}
CREATED = {**CLAIM.manifest, "apiVersion": "resource.k8s.io/v1"}


def asked(
    work: Callable[[ShadowClaimClient], Coroutine[Any, Any, None]], *steps: Step
) -> list[Request]:
    async def main() -> list[Request]:
        async with serving(*steps) as server, client(server) as api:
            await work(ShadowClaimClient(api, "system"))
            return server.requests

    return asyncio.run(main())


def create(claims: ShadowClaimClient) -> Coroutine[Any, Any, None]:
    return claims.create(CLAIM)


def test_a_claim_is_created_and_then_allocated() -> None:
    made, written = asked(create, ok(CREATED), ok({}))

    assert (made.method, made.path) == ("POST", PATH)
    assert (written.method, written.path) == ("PUT", f"{PATH}/{CLAIM.name}/status")
    assert written.json() == {**CREATED, "status": CLAIM.status}


def test_a_claim_that_is_there_without_an_allocation_gets_it() -> None:
    methods = [each.method for each in asked(create, refusal(409, CONFLICT), ok(CREATED), ok({}))]

    assert methods == ["POST", "GET", "PUT"]


def test_a_claim_that_is_there_stays() -> None:
    there = {**CREATED, "status": CLAIM.status}

    methods = [each.method for each in asked(create, refusal(409, CONFLICT), ok(there))]

    assert methods == ["POST", "GET"]


def test_another_object_of_the_name_is_an_error() -> None:
    with pytest.raises(ClusterError, match=f"system/{CLAIM.name} is not a shadow claim"):
        asked(create, refusal(409, CONFLICT), ok({"metadata": {"name": CLAIM.name}}))


def test_a_rejected_claim_is_an_error() -> None:
    with pytest.raises(ClusterError, match="403"):
        asked(create, refusal(403, {"kind": "Status", "code": 403}))


def test_only_the_claim_of_the_uid_is_deleted() -> None:
    (deleted,) = asked(lambda claims: claims.delete("c", "u"), ok({}))

    assert (deleted.method, deleted.path) == ("DELETE", f"{PATH}/c")
    assert deleted.json()["preconditions"] == {"uid": "u"}


@pytest.mark.parametrize("status", [404, 409])
def test_a_claim_that_is_gone_or_another_needs_no_deletion(status: int) -> None:
    assert asked(lambda claims: claims.delete("c", "u"), refusal(status, GONE))


def test_a_deletion_that_is_rejected_is_an_error() -> None:
    with pytest.raises(ClusterError, match="403"):
        asked(lambda claims: claims.delete("c", "u"), refusal(403, {"kind": "Status", "code": 403}))

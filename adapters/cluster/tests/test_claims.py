"""Claims are deallocated and answered, against a scripted server."""

import asyncio
from datetime import datetime
from typing import Any

import msgspec
import pytest

from adapters.cluster.api.error import ClusterError
from adapters.cluster.objects.claims import ClaimClient
from adapters.cluster.tests.server import Request, Step, client, ok, refusal, serving
from adapters.dialects.dra.conditions import COMMITTED, awaiting
from adapters.wire.dra import ClaimStatus
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


WAITING = {
    "request": "r",
    "driver": "gpu.dragoman.dev",
    "pool": "n1",
    "device": "gpu-0",
    "bindingConditions": [COMMITTED],
}
FOREIGN = {"driver": "net.example.com", "pool": "n1", "device": "eth0", "data": {"ip": "::1"}}
ALLOCATED = {
    "metadata": {"name": "c", "namespace": "team", "uid": "u", "resourceVersion": "7"},
    "status": {"allocation": {"devices": {"results": [WAITING]}}, "devices": [FOREIGN]},
}


def test_the_answer_is_written_beside_what_others_say_and_only_into_what_was_read() -> None:
    async def main() -> None:
        async with serving(ok(ALLOCATED), ok({})) as server, client(server) as api:
            claims = ClaimClient(api)
            claim = await claims.get(PodRef("team", "c", "u"))
            assert claim is not None
            devices = awaiting(msgspec.json.decode(claim.status, type=ClaimStatus))
            await claims.report(claim, devices, None)
            _, written = server.requests

        assert (written.method, written.path) == ("PATCH", f"{PATH}/status")
        body: Any = written.json()
        assert body["metadata"] == {"uid": "u", "resourceVersion": "7"}
        assert list(body["status"]) == ["devices"]
        foreign, ours = body["status"]["devices"]
        assert foreign == FOREIGN
        assert ours["device"] == "gpu-0"
        assert [each["type"] for each in ours["conditions"]] == [COMMITTED]
        assert datetime.fromisoformat(ours["conditions"][0]["lastTransitionTime"]).tzinfo

    asyncio.run(main())


def created(*steps: Step) -> tuple[bool, list[Request]]:
    async def main() -> tuple[bool, list[Request]]:
        async with serving(*steps) as server, client(server) as api:
            own = await ClaimClient(api).create(PodRef("team", "p", "u-pod"), "c", {"devices": {}})
            return own, server.requests

    return asyncio.run(main())


def test_a_claim_is_created_with_its_pod_as_owner() -> None:
    own, (made,) = created(ok({}))

    assert own
    assert (made.method, made.path) == ("POST", PATH.removesuffix("/c"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-pod", "controller": True}
    assert made.json()["metadata"] == {"name": "c", "ownerReferences": [owner]}
    assert made.json()["spec"] == {"devices": {}}


@pytest.mark.parametrize(("uid", "own"), [("u-pod", True), ("another", False), (None, False)])
def test_a_claim_that_is_there_is_the_pods_if_the_pod_owns_it(uid: str | None, own: bool) -> None:
    taken = {"kind": "Status", "code": 409, "reason": "AlreadyExists"}
    there = found()
    if uid:
        there["metadata"]["ownerReferences"] = [{"uid": uid}]

    assert created(refusal(409, taken), ok(there))[0] is own


def test_a_claim_that_the_server_rejects_is_an_error() -> None:
    with pytest.raises(ClusterError):
        created(refusal(403, {"kind": "Status", "code": 403, "message": "exceeded quota"}))


def taint_rules(step: Step) -> list[bool]:
    """Which of two devices the rules of a server taint."""

    async def main() -> list[bool]:
        async with serving(step) as server, client(server) as api:
            rules = await ClaimClient(api).taint_rules()
            return [
                any(rule.selects("d", "p", device) for rule in rules)
                for device in ("gpu-0", "gpu-1")
            ]

    return asyncio.run(main())


def test_rules_that_may_not_be_read_taint_all_devices_and_a_missing_kind_none() -> None:
    rule = {"spec": {"deviceSelector": {"device": "gpu-1"}}}

    assert taint_rules(ok({"items": [rule]})) == [False, True]
    assert taint_rules(refusal(404, "NotFound")) == [False, False]
    assert taint_rules(refusal(403, "Forbidden")) == [True, True]
    with pytest.raises(ClusterError):
        taint_rules(refusal(500, "InternalError"))

"""Shadow claims, as the watch reports them."""

import json
from collections.abc import Collection

import msgspec

from adapters.accounting.claim_cache import KnownShadow, ShadowCache
from adapters.dialects.dra.shadows import ShadowDevice, shadow_claim
from adapters.dialects.dra.tests.builders import a_claim, a_result
from adapters.wire.dra import ResourceClaim

MADE = shadow_claim("system", "n1", ShadowDevice(("d", "p", "gpu-0")))


def reported(status: object, uid: str = "u") -> ResourceClaim:
    made = json.loads(json.dumps(MADE.manifest))
    made["metadata"]["uid"] = uid
    return msgspec.json.decode(json.dumps({**made, "status": status}), type=ResourceClaim)


def test_a_claim_is_known_with_its_allocation_until_it_is_deleted() -> None:
    changes: list[Collection[str] | None] = []
    cache = ShadowCache(changes.append)

    cache.put(reported({}))
    assert not cache.of_node("n1", "system")[MADE.name].is_allocated
    cache.put(reported(MADE.status))
    cache.put(reported(MADE.status))
    assert cache.of_node("n1", "system") == {
        MADE.name: KnownShadow("system", MADE.name, "u", is_allocated=True)
    }
    assert cache.of_node("n1", "team") == {}
    assert [*cache.nodes()] == ["n1"]
    before = len(changes)
    cache.drop(f"system/{MADE.name}")
    cache.drop(f"system/{MADE.name}")
    assert [*cache.nodes()] == []
    assert changes[before:] == [{"n1"}]


def test_other_claims_and_an_unreadable_status_are_no_allocation() -> None:
    cache = ShadowCache(lambda _: None)

    cache.put(a_claim(a_result("gpu-0")))
    cache.put(reported({"allocation": 7}))

    assert not cache.of_node("n1", "system")[MADE.name].is_allocated
    assert [*cache.nodes()] == ["n1"]

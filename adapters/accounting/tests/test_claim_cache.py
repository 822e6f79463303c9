"""What claims hold, as the watches report them."""

from collections.abc import Collection

import msgspec

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra.tests.builders import (
    NVIDIA,
    a_card_device,
    a_claim,
    a_result,
    a_slice,
    with_status,
)
from adapters.wire.dra import (
    DeviceTaintRule,
    ListedClaim,
    Pool,
    ResourceSlice,
    TaintRuleSpec,
    TaintSelector,
)
from adapters.wire.kube import Metadata
from core.ledger.node_ledger import NodeLedger
from core.tests.builders import a_card, a_node

NODE = a_node(a_card("GPU-0"))
SLICE = a_slice(a_card_device("gpu-0", "GPU-0"))


class Rig:
    def __init__(self) -> None:
        self.changes: list[Collection[str] | None] = []
        self.cache = ClaimCache(self.changes.append)

    def held(self) -> list[str]:
        return [each.uid for each in self.cache.holding(NodeLedger.of(NODE), NODE)]


def test_a_claim_holds_its_card_until_it_is_deallocated_or_deleted() -> None:
    rig = Rig()
    rig.cache.put_slice(SLICE)

    rig.cache.put_claim(a_claim(a_result("gpu-0")))
    assert rig.held() == ["u-claim"]
    rig.cache.put_claim(with_status({}))
    assert rig.held() == []
    rig.cache.put_claim(a_claim(a_result("gpu-0")))
    rig.cache.drop_claim("team/c")
    rig.cache.drop_claim("team/c")
    assert rig.held() == []
    assert rig.changes == [{"n"}] * 5


def test_a_claim_of_another_node_is_not_looked_at() -> None:
    rig = Rig()

    rig.cache.put_claim(a_claim(a_result("gpu-0"), node="m"))

    assert rig.held() == []
    assert rig.changes == [{"m"}]


def test_a_claim_that_names_no_node_may_be_everywhere() -> None:
    rig = Rig()

    rig.cache.put_claim(a_claim(a_result("gpu-0"), node=None))

    assert rig.held() == ["u-claim"]
    assert rig.changes == [None]


def test_an_unchanged_claim_or_slice_changes_nothing() -> None:
    rig = Rig()
    for _ in range(2):
        rig.cache.put_claim(a_claim(a_result("gpu-0")))
        rig.cache.put_slice(SLICE)

    assert rig.changes == [{"n"}, {"n"}]


def test_a_slice_describes_the_cards_of_its_node_until_it_is_deleted() -> None:
    rig = Rig()

    rig.cache.put_slice(SLICE)
    (found,) = rig.cache.described("n")
    assert [card.uuid for card in found.cards] == ["GPU-0"]
    rig.cache.drop_slice(SLICE.metadata.name)
    rig.cache.drop_slice(SLICE.metadata.name)
    assert rig.cache.described("n") == ()
    assert rig.changes == [{"n"}, {"n"}]


def test_a_rule_closes_cards_until_it_is_deleted() -> None:
    rig = Rig()
    rig.cache.put_slice(SLICE)
    spec = TaintRuleSpec(TaintSelector(device="gpu-0"), {"key": "x", "effect": "NoExecute"})
    rule = DeviceTaintRule(Metadata(name="r"), spec)

    rig.cache.put_rule(rule)
    rig.cache.put_rule(rule)
    (found,) = rig.cache.described("n")
    assert found.closed == (("GPU-0", "DeviceTaintRule r taints it: x:NoExecute"),)
    rig.cache.drop_rule("r")
    rig.cache.drop_rule("r")
    (found,) = rig.cache.described("n")
    assert found.closed == ()
    assert rig.changes == [{"n"}, None, None]


def test_a_slice_without_a_node_concerns_all() -> None:
    rig = Rig()

    rig.cache.put_slice(SLICE.__replace__(spec=SLICE.spec.__replace__(node_name=None)))

    assert rig.changes == [None]


def named(name: str, node: str | None, pool: str = "n", generation: int = 1) -> ResourceSlice:
    spec = SLICE.spec.__replace__(node_name=node, pool=Pool(pool, generation))
    return SLICE.__replace__(metadata=Metadata(name=name), spec=spec)


def test_a_pool_has_the_newest_slices_of_each_node() -> None:
    cache = Rig().cache
    old, new = named("old", "n"), named("new", "n", generation=2)
    other, fabric = named("other", "m"), named("fabric", None)
    for each in (old, new, other, fabric, named("else", "n", pool="else")):
        cache.put_slice(each)

    assert cache.pool(NVIDIA, "n") == [new, other, fabric]
    assert cache.pool(NVIDIA, "n", {"m"}) == [other, fabric]
    assert cache.pool("nic", "n") == []


def test_a_slice_is_in_the_pool_that_it_names_last_and_in_none_after_it_was_deleted() -> None:
    cache = Rig().cache
    cache.put_slice(named("a", "n"))
    cache.put_slice(named("a", "n", pool="m"))
    assert (cache.pool(NVIDIA, "n"), len(cache.pool(NVIDIA, "m"))) == ([], 1)

    cache.drop_slice("a")

    assert cache.pool(NVIDIA, "m") == []


def test_answers_change_with_what_a_claim_requests_not_with_its_annotations() -> None:
    cache = ClaimCache(lambda _: None)

    def put(count: int, **annotations: str) -> int:
        metadata = Metadata(name="w", namespace="team", uid="u-w", annotations=annotations)
        cache.put_claim(ListedClaim(metadata, spec=msgspec.Raw(b'{"count":%d}' % count)))
        return cache.revision

    assert put(1) == put(1, at="now") < put(2)


def test_a_claim_that_was_made_after_a_full_list_never_had_devices_until_it_has_some() -> None:
    cache, found = ClaimCache(lambda _: None), list[bool]()

    def put(uid: str, status: str = "{}", *, listed: bool = False) -> None:
        metadata = Metadata(name="w", namespace="team", uid=uid)
        claim = ListedClaim(metadata, msgspec.Raw(status.encode()), msgspec.Raw(b"{}"))
        cache.put_claim(claim, listed=listed)
        found.append(cache.never_had_devices(metadata))

    put("listed", listed=True)
    put("listed")
    cache.drop_claim("team/w")
    put("made")
    put("made", '{"allocation": {}}')
    put("made")
    cache.drop_claim("team/w")
    put("again")
    put("again")
    put("again", listed=True)

    assert found == [False, False, True, False, False, True, True, False]


def test_a_claim_of_which_the_watch_lacks_the_newest_version_may_have_had_devices() -> None:
    cache = ClaimCache(lambda _: None)
    known, newer = (Metadata(name="w", uid="u", resource_version=each) for each in "12")
    cache.put_claim(ListedClaim(known, spec=msgspec.Raw(b"{}")))

    assert (cache.never_had_devices(known), cache.never_had_devices(newer)) == (True, False)

"""Whatever a scheduler writes into a claim: an answer, no double allocation, no card freed.

docs/concepts/security.md states what they show.
"""

import json
from base64 import b64decode
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dra.claims import allocated
from adapters.dialects.dra.tests.builders import a_card_device, a_result, a_share
from adapters.service.decide.commit.claim_review import holdings, nodes_of
from adapters.service.tests.builders import a_node, a_service, body, run
from adapters.service.tests.claims import (
    ClaimBench,
    a_claim,
    asking,
    claim_review,
    slice_of,
)
from adapters.wire.decode.decoder import Decoder
from adapters.wire.dra import DeviceTaintRule, ResourceClaim
from core.requests.grant import Allocation, Grant

NODES = ("n1", "n2")
SHARED = {"allowMultipleAllocations": True}
RANGE = {"default": "8Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
MEMORY = {"memory": {"value": "8Gi", "requestPolicy": RANGE}}


def devices(node: str) -> list[dict[str, object]]:
    """Two cards that claims share, and one with two partitions: one that names its card by the
    only counters that both take, and one of an unknown start.
    """
    cards = [
        {**a_card_device(f"gpu-{i}", f"GPU-{node}-{i}"), "capacity": MEMORY, **SHARED}
        for i in range(3)
    ]
    counters = [{"counterSet": "card-2", "counters": {"memory": {"value": "8Gi"}}}]
    part = {"uuid": {"string": "PART-0"}}
    mig = {"parentUUID": {"string": f"GPU-{node}-2"}, "profile": {"string": "1g.5gb"}}
    return [
        *cards[:2],
        {**cards[2], "consumesCounters": counters},
        {"name": "part", "attributes": part, "consumesCounters": counters},
        {"name": "mig", "attributes": mig, "consumesCounters": counters},
    ]


class Rig(ClaimBench):
    """Two nodes, and what the API server stores after each answer."""

    def __init__(self) -> None:
        super().__init__(run(a_service(*(a_node(name, 3) for name in NODES))))
        for node in NODES:
            made = slice_of(node, *devices(node))
            pool = made.spec.pool.__replace__(name=node)
            self.catalog.put_slice(made.__replace__(spec=made.spec.__replace__(pool=pool)))

    def stored(self, claim: Any, answer: Any) -> ResourceClaim:
        """The claim that the API server stores: with the answer's patch."""
        made = deepcopy(claim)
        for each in json.loads(b64decode(answer.get("patch", "W10="))):
            *path, last = each["path"].split("/")[1:]
            place = made
            for part in path:
                place = place[int(part)] if isinstance(place, list) else place[part]
            assert each["op"] == "add" or last in place
            place[last] = each["value"]
        return Decoder(ResourceClaim).decode(body(made))

    def held(self) -> dict[str, dict[str, Allocation]]:
        return {node: dict(self.ledger(node).allocations) for node in NODES}


AMOUNTS = st.sampled_from(["1Gi", "2Gi", "8Gi", "0", "-1", "9Gi", "1e999", "many", "", "1m"])
NAMES = st.sampled_from(["memory", "cores", "evil.dev/memory", "shares", ""])
RESULTS = st.fixed_dictionaries(
    {
        "request": st.sampled_from(["r", "s", "r/a", "x", ""]),
        "driver": st.sampled_from(
            ["gpu.nvidia.com", "gpu.nvidia.com", "hami-core-gpu.project-hami.io", "nic"]
        ),
        "pool": st.sampled_from(["n1", "n1", "n1", "n2", "", "../n1"]),
        "device": st.sampled_from(["gpu-0", "gpu-0", "gpu-1", "gpu-2", "part", "mig", "none", ""]),
    },
    optional={
        "adminAccess": st.booleans(),
        "shareID": st.sampled_from(["b7542072", "same", ""]),
        "consumedCapacity": st.dictionaries(NAMES, AMOUNTS, max_size=2),
        "bindingConditions": st.just(["gpu.example.com/committed"]),
    },
)
REQUESTS = st.sampled_from(
    [
        [{"name": "r", "exactly": {"deviceClassName": "cards"}}],
        [{"name": "r", "exactly": {"deviceClassName": "cards", "allocationMode": "All"}}],
        [{"name": "r", "exactly": {"deviceClassName": "cards", "adminAccess": True}}],
        [
            {"name": name, "exactly": {"capacity": {"requests": {"memory": "2Gi"}}}}
            for name in ("r", "s")
        ],
        [{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "cards"}]}],
        [{"name": "r"}],
    ]
)
CLAIMS = st.builds(
    lambda results, requests, uid, nodes: {
        **a_claim(*results, uid=uid, nodes=nodes),
        "spec": {"devices": {"requests": requests}},
    },
    st.lists(RESULTS, max_size=3),
    REQUESTS,
    st.sampled_from(["u1", "u2", "u3"]),
    st.sampled_from([("n1",), ("n1",), ("n2",), ("n1", "n2"), ("ghost",), ()]),
)


@given(st.lists(CLAIMS, min_size=1, max_size=6))
def test_no_allocation_of_claims_takes_a_card_twice_or_frees_one(claims: list[Any]) -> None:
    """Also not one that differs between what the ledger has and what the API server stores."""
    rig = Rig()
    for claim in claims:
        before = rig.held()

        answer = rig.ask(claim)

        after = rig.held()
        assert answer["allowed"] or answer["status"]["code"] == 403, answer
        assert not [problem for node in NODES for problem in rig.ledger(node).problems()]
        for node, allocations in before.items():
            for uid, held in allocations.items():
                assert places(held.grants) <= places(after[node][uid].grants)
                assert uid == claim["metadata"]["uid"] or held == after[node][uid]
        stored = allocated(rig.stored(claim, answer)) if answer["allowed"] else None
        ledgers, published = rig.bench.service.ledgers, rig.catalog.devices
        nodes = {} if stored is None else nodes_of(stored, ledgers)
        for want in () if stored is None else holdings(stored, nodes, published):
            have = after[want.node][want.uid]
            assert places(want.grants) <= places(have.grants)
            assert memory(want.grants) <= memory(have.grants)


def places(grants: Sequence[Grant]) -> set[tuple[str, object]]:
    return {(each.card, each.slice) for each in grants}


def memory(grants: Sequence[Grant]) -> int:
    return sum(each.memory for each in grants)


@pytest.mark.parametrize("consumed", [{"memory": "1Mi"}, {"memory": "many"}, {}])
def test_a_share_below_its_request_is_rejected(consumed: dict[str, str]) -> None:
    rig = Rig()
    share = a_share("gpu-0", **consumed) | {"pool": "n1"}

    answer = rig.ask(asking(a_claim(share), capacity={"requests": {"memory": "2Gi"}}))

    assert not answer["allowed"]
    problem = "is not a quantity" if "many" in consumed.values() else "less than its request r of"
    assert problem in answer["status"]["message"]
    assert rig.held()["n1"] == {}


@pytest.mark.parametrize("admin_first", [True, False])
def test_a_share_beside_administration_is_not_corrected(admin_first: bool) -> None:
    """The device of administration would be replaced, where it is first in the claim."""
    rig = Rig()
    assert rig.ask(a_claim(a_result("gpu-0", pool="n1"), uid="u2"))["allowed"]
    admin = a_result("gpu-1", pool="n1", adminAccess=True)
    results = [admin, a_share("gpu-0", memory="8Gi") | {"pool": "n1"}]
    claim = asking(a_claim(*(results if admin_first else reversed(results))))

    answer = rig.ask(claim)

    assert not answer["allowed"]
    assert "held exclusively" in answer["status"]["message"]
    assert rig.held()["n1"].keys() == {"u2"}


@pytest.mark.parametrize(
    ("selector", "allowed"),
    [
        ({"device": "gpu-1"}, False),
        ({"driver": "gpu.nvidia.com", "pool": "n1"}, False),
        ({}, False),
        ({"device": "gpu-1", "pool": "n2"}, True),
        ({"driver": "nic"}, True),
        (None, True),
    ],
)
def test_no_device_that_an_administrator_tainted_is_chosen(
    selector: dict[str, str] | None, allowed: bool
) -> None:
    """The pod of the device would be evicted, and the next one get it, without end."""
    rig = Rig()
    spec = {} if selector is None else {"deviceSelector": selector}
    rig.catalog.put_rule(msgspec.convert({"spec": spec}, DeviceTaintRule))
    assert rig.ask(a_claim(a_result("gpu-0", pool="n1"), uid="u2"))["allowed"]

    answer = rig.ask(asking(a_claim(a_result("gpu-0", pool="n1"))))

    assert answer["allowed"] is allowed


def test_a_partition_holds_the_card_whose_counters_it_takes() -> None:
    rig = Rig()

    part = rig.ask(a_claim(a_result("part", pool="n1")))
    assert rig.ask(a_claim(a_result("gpu-2", pool="n1"), uid="u2"))["allowed"] != part["allowed"]


NESTED = "[" * 1100 + "]" * 1100


def test_text_that_no_decision_reads_delays_no_claim() -> None:
    """Parameters of a driver that nest deeply, with half a character, as they may be stored."""
    rig = Rig()
    claim = asking(a_claim(a_share("gpu-0", memory="8Gi") | {"pool": "n1"}))
    claim["spec"]["devices"]["config"] = [{"opaque": {"parameters": "NESTED"}}]
    content = claim_review(claim).replace(b'"NESTED"', NESTED.encode())
    content = content.replace(b'"parameters":', b'"text":"\\ud800","parameters":')

    answer = json.loads(run(rig.endpoint.statuses(content)))["response"]

    assert answer["allowed"]
    assert rig.held()["n1"].keys() == {"u1"}

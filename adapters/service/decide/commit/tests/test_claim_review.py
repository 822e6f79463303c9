"""What becomes of the devices of a claim, case by case."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
import pytest

from adapters.dialects.dra.claims import allocated
from adapters.dialects.dra.devices import Devices
from adapters.dialects.dra.tests.builders import a_card_device, a_result, a_share, a_slice
from adapters.service.decide.commit.attempt import (
    IN_USE,
    PLACED,
    UNCLEAR,
    ClaimAttempt,
    ClaimOption,
    ClaimRefusal,
    LedgerView,
)
from adapters.service.decide.commit.claim_review import (
    ClaimFacts,
    as_good,
    contradiction,
    decide_claim,
    without_taints,
)
from adapters.service.tests.claims import CLASS, a_claim, asking, bare
from adapters.wire.dra import DeviceTaintRule, RequestedClaim, ResourceClaim, ResourceSlice
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.tests.builders import a_card, a_node

KindT = TypeVar("KindT")

NIC = "nic.example.com"
RANGE = {"default": "80Gi", "validRange": {"min": "1Mi"}}
SHARED = {"memory": {"value": "80Gi", "requestPolicy": RANGE}}


def decode(content: Any, kind: type[KindT]) -> KindT:
    return msgspec.json.decode(msgspec.json.encode(content), type=kind)


def cards(node: str, count: int = 3) -> list[dict[str, object]]:
    """The devices of a node, which claims can share."""
    return [
        {
            **a_card_device(f"gpu-{number}", f"GPU-{node}-{number}"),
            "capacity": SHARED,
            "allowMultipleAllocations": True,
        }
        for number in range(count)
    ]


def slice_of(node: str, *devices: dict[str, object], driver: str = "gpu.nvidia.com") -> Any:
    made = a_slice(*devices, driver=driver)
    return made.__replace__(spec=made.spec.__replace__(node_name=node))


def node_of(name: str) -> Node:
    return a_node(*(a_card(f"GPU-{name}-{i}", i, 80 * GIB) for i in range(3)), name=name)


@dataclass
class Given:
    """Some nodes with three cards each, and what their drivers publish."""

    nodes: Sequence[str] = ("n1",)
    slices: Sequence[ResourceSlice] = field(default_factory=lambda: [slice_of("n1", *cards("n1"))])

    def facts(self, content: Any) -> ClaimFacts:
        requested = decode(content, RequestedClaim)
        claim = allocated(requested)
        assert claim is not None
        return ClaimFacts(
            "r",
            claim,
            requested,
            {name: node_of(name) for name in self.nodes},
            Devices(self.slices),
            {(each.spec.driver, "n"): [each] for each in self.slices},
            {"cards": CLASS},
        )


def wanting(memory: str, *results: object, **more: Any) -> Any:
    return asking(a_claim(*results, **more), capacity={"requests": {"memory": memory}})


def decided(content: Any, given: Given | None = None) -> ClaimOption | ClaimRefusal | None:
    return decide_claim((given or Given()).facts(content))


@pytest.mark.parametrize(
    ("claim", "memory"),
    [
        (a_claim(a_result("gpu-0")), 80),
        (a_claim(a_share("gpu-0", memory="2Gi")), 2),
        (wanting("2Gi", a_result("gpu-0")), 2),
        (wanting("2Gi", a_share("gpu-0", memory="3Gi")), 3),
        (a_claim(a_share("gpu-0", memory="2Gi"), a_share("gpu-1", memory="1Gi")), 3),
        (a_claim(a_share("gpu-0", memory="2Gi"), a_result("gpu-1", adminAccess=True)), 2),
        (a_claim(a_share("gpu-0", memory="2Gi"), a_result("eth-0", NIC)), 2),
    ],
)
def test_the_ledger_is_asked_for_what_the_claim_holds(claim: Any, memory: int) -> None:
    found = decided(claim)

    assert isinstance(found, ClaimOption)
    assert found.node == "n1"
    assert sum(each.memory for each in found.asked.grants) == memory * GIB


NICS = slice_of(
    "n1", {"name": "eth-0", "capacity": SHARED, "allowMultipleAllocations": True}, driver=NIC
)


@pytest.mark.parametrize(
    "claim",
    [
        a_claim(a_result("eth-0", NIC)),
        wanting("2Gi", a_result("eth-0", NIC)),
        wanting("900Gi", a_result("eth-0", NIC)),
        wanting("2Gi", a_share("eth-0", NIC, memory="1Mi")),
        a_claim(a_result("gpu-0", adminAccess=True)),
        a_claim(),
    ],
)
def test_a_claim_without_a_card_is_none_of_the_ledgers(claim: Any) -> None:
    assert decided(claim, Given(slices=[NICS, slice_of("n1", *cards("n1"))])) is None


@pytest.mark.parametrize(
    ("claim", "given", "node", "text"),
    [
        (a_claim(a_result("gpu-0"), nodes=("new",)), Given(), "new", "new has no ledger yet"),
        (
            wanting("900Gi", a_result("gpu-0")),
            Given(),
            "n1",
            "a request of 900Gi of memory is more than a claim can have, 85899345920",
        ),
        (
            wanting("2Gi", a_share("gpu-0", memory="1Gi")),
            Given(),
            "n1",
            "the share of gpu-0 has 1Gi of memory, less than its request r of 2147483648",
        ),
        (
            a_claim(a_result("gpu-9")),
            Given(),
            "n1",
            "n1: no ResourceSlice describes gpu.nvidia.com/n/gpu-9",
        ),
        (
            a_claim(a_result("gpu-9"), nodes=("n1", "n2")),
            Given(nodes=("n1", "n2")),
            "n1",
            "its devices may be cards of several nodes: n1, n2",
        ),
        (
            {**a_claim(), "status": {"allocation": 7}},
            Given(),
            "n1",
            "n1: the status of the claim cannot be decoded: Expected `object | null`, got `int`"
            " - at `$.allocation`",
        ),
    ],
)
def test_what_is_not_clear_is_refused(claim: Any, given: Given, node: str, text: str) -> None:
    assert decided(claim, given) == ClaimRefusal(UNCLEAR, text, node)


CLAIM = a_claim(a_result("gpu-0"))


@pytest.mark.parametrize(
    ("live", "text"),
    [
        (None, "the API server has no such claim team/c"),
        (bare(a_claim(uid="u2")), "the API server has no such claim team/c"),
        (CLAIM, "the API server's team/c has devices already"),
        (a_claim(a_result("gpu-1")), "the API server's team/c has devices already"),
        ({**CLAIM, "status": {"allocation": 7}}, "the API server's team/c has devices already"),
        (bare(CLAIM), None),
    ],
)
def test_a_claim_gets_devices_if_the_api_server_has_it_without_any(
    live: Any, text: str | None
) -> None:
    there = None if live is None else decode(live, ResourceClaim)

    found = contradiction(Given().facts(CLAIM).claim, there)

    assert found == (None if text is None else ClaimRefusal(PLACED, text))


def names(options: Sequence[ClaimOption]) -> list[str]:
    return [each.claim.results[0].device for each in options]


def options_of(content: Any, given: Given | None = None) -> tuple[ClaimOption, ...]:
    facts = (given or Given()).facts(content)
    chosen = decide_claim(facts)
    assert isinstance(chosen, ClaimOption)
    return as_good(facts, chosen)


PLAIN = {**a_card_device("other", "GPU-n1-2")}


@pytest.mark.parametrize(
    ("claim", "given", "expected"),
    [
        (asking(a_claim(a_result("gpu-0"))), Given(), ["gpu-1", "gpu-2"]),
        (wanting("2Gi", a_result("gpu-1")), Given(), ["gpu-0", "gpu-2"]),
        (a_claim(a_result("gpu-0")), Given(), []),  # nothing says what was requested
        (asking(a_claim(a_result("gpu-0"), a_result("gpu-1"))), Given(), []),
        (asking(a_claim(a_result("gpu-0"), a_result("gpu-1", adminAccess=True))), Given(), []),
        (asking(a_claim(a_result("gpu-1", adminAccess=True), a_result("gpu-0"))), Given(), []),
        (
            asking(a_claim(a_result("gpu-0"))),
            Given(slices=[slice_of("n1", *cards("n1", 1), PLAIN)]),
            [],
        ),
        (  # the other device states no card, and may be each
            asking(a_claim(a_result("gpu-0"))),
            Given(
                slices=[
                    slice_of(
                        "n1", *cards("n1", 1), {**cards("n1")[0], "name": "bare", "attributes": {}}
                    )
                ]
            ),
            [],
        ),
    ],
)
def test_devices_that_are_as_good_stand_in_for_the_chosen_one(
    claim: Any, given: Given, expected: list[str]
) -> None:
    assert names(options_of(claim, given)) == expected


def test_a_device_of_another_node_does_not_stand_in() -> None:
    """Where a claim names no node, the pool of its device may be one of several nodes."""
    fabric = slice_of(
        "n1",
        *cards("n1", 1),
        *({**each, "name": f"far-{i}"} for i, each in enumerate(cards("n2", 2))),
    )
    fabric = fabric.__replace__(spec=fabric.spec.__replace__(node_name=None))
    claim = asking(a_claim(a_result("gpu-0"), nodes=()))
    del claim["status"]["allocation"]["nodeSelector"]

    assert options_of(claim, Given(("n1", "n2"), [fabric])) == ()


def test_a_device_that_stands_in_has_the_share_of_the_chosen_one() -> None:
    (first, *_) = options_of(wanting("2Gi", a_result("gpu-0")))

    (result,) = first.claim.all_results
    assert result.device == "gpu-1"
    assert result.consumed_capacity == {"memory": str(2 * GIB)}
    assert [(each.card, each.memory) for each in first.asked.grants] == [("GPU-n1-1", 2 * GIB)]


def test_no_tainted_device_stands_in() -> None:
    options = options_of(asking(a_claim(a_result("gpu-0"))))
    spec = {"deviceSelector": {"device": "gpu-1"}}
    rule = msgspec.convert({"spec": spec}, DeviceTaintRule)

    assert names(without_taints(options, [])) == ["gpu-1", "gpu-2"]
    assert names(without_taints(options, [DeviceTaintRule(), rule])) == ["gpu-2"]


def test_the_first_free_option_is_allocated() -> None:
    chosen = decided(asking(a_claim(a_result("gpu-0"))))
    assert isinstance(chosen, ClaimOption)
    options = (chosen, *options_of(asking(a_claim(a_result("gpu-0")))))
    ledger = NodeLedger.of(node_of("n1"))
    for used, expected in enumerate(options):
        found = ClaimAttempt(options).decide(LedgerView(ledger, lambda stored: stored))

        assert found.answer is expected
        assert found.allocation == expected.asked
        ledger = ledger.allocate(replace(expected.asked, uid=f"other-{used}", pod="team/other"))

    found = ClaimAttempt(options).decide(LedgerView(ledger, lambda stored: stored))

    text = "n1: card GPU-n1-0 cannot take team/c: in use, and asked for exclusively"
    assert found.answer == ClaimRefusal(IN_USE, text, "n1")
    assert found.after is ledger

"""Allocations of claims, as the API server asks about them."""

import json
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from adapters.dialects.dra.tests.builders import a_card_device, a_result, a_share, a_slice
from adapters.service.decide.ports import EndedPods, NotReady, Outcome
from adapters.service.decide.service import MAX_AGE
from adapters.service.tests.builders import a_node, a_pod, a_service, read_pod, run
from adapters.service.tests.claims import (
    ClaimBench,
    a_claim,
    asking,
    bare,
    slice_of,
)
from adapters.wire.dra import ResourceSlice
from core.feasibility.fit import fit
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant, Placement

CARDS = ("GPU-n1-0", "GPU-n1-1")
SLICE = slice_of("n1")


class Rig(ClaimBench):
    def __init__(
        self, *slices: ResourceSlice, cards: int = 2, ended: EndedPods | None = None
    ) -> None:
        bench = run(a_service(a_node("n1", cards), a_node("n2"), ended=ended))
        super().__init__(bench, *(slices or (SLICE,)))

    def held(self, node: str = "n1") -> dict[str, int]:
        return {
            uid: sum(grant.memory for grant in each.grants)
            for uid, each in self.ledger(node).allocations.items()
        }

    @property
    def outcomes(self) -> list[Outcome]:
        return [each.outcome for each in self.bench.decision_log.decisions]


def test_a_sound_allocation_is_committed_before_the_claim_is_written() -> None:
    rig = Rig()

    assert rig.ask(a_claim(a_share("gpu-0", memory="2Gi"))) == {"uid": "r", "allowed": True}

    assert rig.held() == {"u1": 2 * GIB}
    stored = run(rig.bench.store.read("n1"))
    assert stored is not None
    assert stored.ledger.allocations["u1"].attempt > 0
    assert rig.outcomes == [Outcome.ADOPTED]


def test_an_allocation_is_not_admitted_long_after_its_review_began() -> None:
    rig = Rig()
    rig.bench.stop_after_writes(MAX_AGE + 1)

    answer = rig.ask(a_claim(a_share("gpu-0", memory="2Gi")))

    assert not answer["allowed"]
    assert "31 s ago, at most 30 s may pass" in answer["status"]["message"]


def test_what_does_not_fit_is_rejected_with_403_and_a_reason() -> None:
    rig = Rig()
    rig.ask(a_claim(a_share("gpu-0", memory="6Gi")))

    answer = rig.ask(a_claim(a_share("gpu-0", memory="4Gi"), uid="u2"))

    assert not answer["allowed"]
    assert answer["status"] == {
        "code": 403,
        "message": "dragoman: n1: card GPU-n1-0 cannot take team/c: memory",
    }
    assert rig.held() == {"u1": 6 * GIB}
    assert rig.outcomes[-1] is Outcome.REFUSED


def test_a_card_of_a_pod_is_not_allocated_to_a_claim() -> None:
    rig = Rig()
    service = rig.bench.service
    limits = {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 1000}
    pod_request = service.pod_requests.read(read_pod(a_pod("p", limits=limits)))
    assert pod_request is not None
    run(service.commit(pod_request, "n1"))

    assert not rig.ask(a_claim(a_result("gpu-0")))["allowed"]
    assert not rig.ask(a_claim(a_share("gpu-0", memory="8Gi")))["allowed"]
    assert rig.ask(a_claim(a_share("gpu-0", memory="1Gi")))["allowed"]


def test_another_attempt_holds_its_devices_beside_those_of_the_earlier_one() -> None:
    rig = Rig()
    rig.ask(a_claim(a_share("gpu-0", memory="2Gi")))

    assert rig.ask(a_claim(a_share("gpu-1", memory="1Gi")))["allowed"]
    assert rig.ask(a_claim(a_share("gpu-1", memory="1Gi")))["allowed"]

    assert rig.held() == {"u1": 3 * GIB}


def test_a_claim_waits_for_the_containers_of_pods_that_had_it_before() -> None:
    rig = Rig()
    rig.ask(a_claim(a_result("gpu-0")))
    stored = run(rig.bench.store.read("n1"))
    assert stored is not None
    kept = replace(stored.ledger.allocations["u1"], release_by=1)
    run(rig.bench.store.write(stored.ledger.adopt(kept), stored.version))
    run(rig.bench.sync())

    answer = rig.ask(a_claim(a_result("gpu-1")))

    assert answer["status"]["message"].endswith("had team/c before may still run")


class Ended:
    """All that have cards have ended."""

    async def among(self, ledger: NodeLedger) -> Sequence[Allocation]:
        return [*ledger.allocations.values()]


def test_a_claim_gets_the_card_of_one_that_has_ended_before_the_leader_writes_the_ledger() -> None:
    rig = Rig(ended=Ended())
    rig.ask(a_claim(a_result("gpu-0")))

    refused = rig.ask(a_claim(a_result("gpu-0"), uid="u2"), dry=True)
    allowed = rig.ask(a_claim(a_result("gpu-0"), uid="u2"))

    assert not refused["allowed"]
    assert allowed == {"uid": "r", "allowed": True}
    assert rig.held().keys() == {"u2"}


def test_a_dry_run_commits_nothing() -> None:
    rig = Rig()

    assert rig.ask(a_claim(a_result("gpu-0")), dry=True)["allowed"]
    assert rig.held() == {}
    rig.ask(a_claim(a_result("gpu-0")))
    assert not rig.ask(a_claim(a_result("gpu-0"), uid="u2"), dry=True)["allowed"]


def test_deallocations_consumers_and_other_verbs_pass() -> None:
    rig = Rig()
    claim = a_claim(a_result("gpu-0"))

    assert rig.ask(bare(claim), old=claim)["allowed"]
    assert rig.ask(claim, old=claim)["allowed"]
    assert rig.ask(claim, verb="CREATE")["allowed"]
    assert rig.held() == {}
    assert rig.outcomes == []


def test_a_claim_of_another_driver_passes() -> None:
    rig = Rig()

    assert rig.ask(a_claim(a_result("nic", "nic.example.com")))["allowed"]
    assert rig.outcomes == [Outcome.UNTOUCHED]


def test_a_claim_of_another_driver_passes_whatever_its_share_is() -> None:
    """The driver of the device counts it, by rules of its own."""
    nic = a_slice(
        {
            "name": "nic",
            "allowMultipleAllocations": True,
            "capacity": {"bandwidth": {"value": "10", "requestPolicy": {"default": "1"}}},
        },
        driver="nic.example.com",
    )
    rig = Rig(SLICE, nic.__replace__(spec=nic.spec.__replace__(node_name="n1")))

    claim = a_claim(a_result("nic", "nic.example.com"))

    assert rig.ask(asking(claim, capacity={"requests": {"bandwidth": "20"}}))["allowed"]
    assert rig.outcomes == [Outcome.UNTOUCHED]


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (a_claim(a_result("gpu-7")), "n1: no ResourceSlice describes gpu.nvidia.com/n/gpu-7"),
        (
            a_claim(a_result("gpu-7"), nodes=("n1", "n2")),
            "its devices may be cards of several nodes: n1, n2",
        ),
    ],
)
def test_a_claim_that_is_not_clear_is_rejected(claim: Any, why: str) -> None:
    rig = Rig()

    answer = rig.ask(claim)

    assert answer["status"] == {"code": 403, "message": f"dragoman: {why}"}
    assert rig.held() == {}


def test_a_card_of_a_node_without_a_ledger_is_not_allocated() -> None:
    rig = Rig(SLICE.__replace__(spec=SLICE.spec.__replace__(node_name="new")))

    answer = rig.ask(a_claim(a_result("gpu-0"), nodes=("new",)))

    assert answer["status"]["message"] == "dragoman: new has no ledger yet"


def test_a_device_that_no_slice_describes_on_a_node_without_a_ledger_is_rejected() -> None:
    """The node's record was deleted, and pods may have the cards of the node."""
    rig = Rig()

    answer = rig.ask(a_claim(a_share("gpu-9", memory="2Gi"), nodes=("new",)))

    assert answer["status"]["message"] == "dragoman: new has no ledger yet"


def test_a_claim_waits_while_the_store_does_not_answer() -> None:
    rig = Rig()

    async def broken(ledger: NodeLedger, expected: str | None) -> str:  # noqa: ARG001
        raise OSError("no store")

    rig.bench.store.write = broken  # type: ignore[method-assign]

    answer = rig.ask(a_claim(a_result("gpu-0")))

    assert answer["status"]["code"] == 503
    assert rig.outcomes == [Outcome.ERROR]


def test_a_service_that_is_not_ready_decides_nothing() -> None:
    rig = Rig()
    rig.bench.service.readiness.mark_unsynced("resourceclaims")

    with pytest.raises(NotReady):
        rig.ask(a_claim(a_result("gpu-0")))


def test_a_reservation_of_a_plan_keeps_its_cards() -> None:
    rig = Rig()
    limits = {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 8192}
    pod_request = rig.bench.service.pod_requests.read(read_pod(a_pod("p", limits=limits)))
    assert pod_request is not None
    ledger = rig.bench.service.ledgers.inventory.ledger("n1")
    placement = fit(pod_request.request, ledger)
    assert isinstance(placement, Placement)
    reserved = Allocation.of(pod_request.request, placement)
    rig.bench.service.ledgers.reserve(reserved, rig.bench.clock.now() + 10**12)

    assert not rig.ask(a_claim(a_share("gpu-0", memory="1Gi")))["allowed"]


def test_a_choice_that_is_in_use_is_corrected_on_the_same_node() -> None:
    rig = Rig()
    rig.ask(a_claim(a_result("gpu-0")))

    answer = rig.ask(asking(a_claim(a_share("gpu-0", memory="2Gi"), uid="u2")))

    assert answer["allowed"]
    assert json.loads(b64decode(answer["patch"])) == [
        {
            "op": "replace",
            "path": "/status/allocation/devices/results/0/device",
            "value": "gpu-1",
        }
    ]
    assert rig.held() == {"u1": 8 * GIB, "u2": 2 * GIB}
    assert rig.outcomes == [Outcome.ADOPTED, Outcome.CORRECTED]


def test_where_no_other_device_is_free_the_choice_is_rejected() -> None:
    rig = Rig()
    for device in ("gpu-0", "gpu-1"):
        rig.ask(a_claim(a_result(device), uid=device))

    answer = rig.ask(asking(a_claim(a_share("gpu-0", memory="2Gi"), uid="u3")))

    assert answer["status"]["message"].endswith(
        "card GPU-n1-0 cannot take team/c: held exclusively"
    )
    assert set(rig.held()) == {"gpu-0", "gpu-1"}


def test_a_dry_run_corrects_without_a_commit() -> None:
    rig = Rig()
    rig.ask(a_claim(a_result("gpu-0")))

    answer = rig.ask(asking(a_claim(a_result("gpu-0"), uid="u2")), dry=True)

    assert answer["allowed"]
    assert b64decode(answer["patch"]).endswith(b'"value":"gpu-1"}]')
    assert set(rig.held()) == {"u1"}
    assert rig.outcomes == [Outcome.ADOPTED]


def test_what_another_replica_has_just_allocated_is_corrected_and_not_chosen() -> None:
    """The watch has reported neither; the decision is that on the ledger that is written."""
    cards = tuple(f"GPU-n1-{i}" for i in range(3))
    made = a_slice(*(a_card_device(f"gpu-{i}", card, "8Gi") for i, card in enumerate(cards)))
    rig = Rig(made.__replace__(spec=made.spec.__replace__(node_name="n1")), cards=3)
    stored = run(rig.bench.store.read("n1"))
    assert stored is not None
    ledger = stored.ledger
    for card in cards[:2]:
        grant = Grant("", card, 8 * GIB, 100, exclusive=True)
        ledger = ledger.allocate(Allocation(card, f"team/{card}", "dra", "n1", (grant,)))
    run(rig.bench.store.write(ledger, stored.version))

    answer = rig.ask(asking(a_claim(a_result("gpu-0"))))

    (moved,) = json.loads(b64decode(answer["patch"]))
    assert moved["value"] == "gpu-2"
    assert set(rig.held()) == {"GPU-n1-0", "GPU-n1-1", "u1"}


MEMORY = {"default": "8Gi", "validRange": {"min": "1Mi", "max": "8Gi", "step": "1Mi"}}


def a_shared_slice() -> ResourceSlice:
    """Cards that claims share."""
    devices = [
        {
            **a_card_device(f"gpu-{number}", CARDS[number]),
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "8Gi", "requestPolicy": MEMORY}},
        }
        for number in range(2)
    ]
    made = a_slice(*devices)
    return made.__replace__(spec=made.spec.__replace__(node_name="n1"))


def asking_for(memory: str, *results: object, uid: str = "u1") -> Any:
    claim = a_claim(*results, uid=uid)
    return asking(claim, capacity={"requests": {"memory": memory}})


def test_a_whole_card_for_a_request_of_a_part_is_made_a_share() -> None:
    """The request is what koord-scheduler 1.8.0 allocates."""
    rig = Rig(a_shared_slice())

    answer = rig.ask(asking_for("2Gi", a_result("gpu-1")))

    first, second = json.loads(b64decode(answer["patch"]))
    at = "/status/allocation/devices/results/0"
    assert (first["op"], first["path"]) == ("add", f"{at}/shareID")
    assert second["path"] == f"{at}/consumedCapacity"
    assert second["value"] == {"memory": str(2 * GIB)}
    assert rig.held() == {"u1": 2 * GIB}
    assert rig.outcomes == [Outcome.CORRECTED]
    assert rig.ask(asking_for("6Gi", a_result("gpu-1"), uid="u2"))["allowed"]
    assert rig.held() == {"u1": 2 * GIB, "u2": 6 * GIB}


def test_a_share_is_filled_in_where_administration_has_a_device_too() -> None:
    rig = Rig(a_shared_slice())
    admin = {**a_result("gpu-0"), "adminAccess": True}

    answer = rig.ask(asking_for("2Gi", admin, a_result("gpu-1"), a_result("unknown")))

    assert not answer["allowed"]
    answer = rig.ask(asking_for("2Gi", admin, a_result("gpu-1")))
    first, *_ = json.loads(b64decode(answer["patch"]))
    assert first["path"] == "/status/allocation/devices/results/1/shareID"


def test_a_filled_in_share_moves_to_a_card_with_room() -> None:
    rig = Rig(a_shared_slice())
    rig.ask(asking_for("7Gi", a_result("gpu-0")))

    answer = rig.ask(asking_for("2Gi", a_result("gpu-0"), uid="u2"))

    *_, moved = json.loads(b64decode(answer["patch"]))
    assert moved["value"] == "gpu-1"
    assert rig.held() == {"u1": 7 * GIB, "u2": 2 * GIB}


def test_a_request_of_more_than_the_device_is_rejected() -> None:
    rig = Rig(a_shared_slice())

    answer = rig.ask(asking_for("9Gi", a_result("gpu-0")))

    assert not answer["allowed"]
    assert "9Gi of memory is more than a claim can have" in answer["status"]["message"]
    assert rig.held() == {}

"""Claims whose scheduler waits for the ledger."""

from typing import Any

import msgspec

from adapters.dialects.dra.claims import allocated
from adapters.dialects.dra.conditions import COMMITTED, REJECTED, awaiting, reported
from adapters.dialects.dra.tests.builders import a_result, with_status
from adapters.wire.dra import ClaimStatus

OURS = "gpu.dragoman.dev"
NOW = "2026-11-23T06:00:00Z"
WAITING = a_result("gpu-0", OURS, shareID="s", bindingConditions=[COMMITTED, "other/ready"])
PLAIN = a_result("gpu-1", OURS)


def status(*results: dict[str, Any], devices: object = None) -> dict[str, Any]:
    return {"allocation": {"devices": {"results": list(results)}}, "devices": devices}


def waiting(content: dict[str, Any]) -> list[str]:
    return [each.device for each in awaiting(msgspec.convert(content, ClaimStatus))]


def answered(content: dict[str, Any], problem: str | None) -> dict[str, Any]:
    """The status after the ledger's answer."""
    devices = awaiting(msgspec.convert(content, ClaimStatus))
    stored: list[Any] = content["devices"] or []
    return {**content, "devices": reported(stored, devices, problem, NOW)}


def test_only_devices_with_our_condition_wait() -> None:
    assert waiting(status(WAITING, PLAIN)) == ["gpu-0"]
    assert waiting({}) == []


def test_a_claim_waits_until_the_ledger_has_all_of_its_devices() -> None:
    second = {**WAITING, "device": "gpu-1"}
    before = status(WAITING, second)

    after = answered(before, None)

    assert waiting(before) == ["gpu-0", "gpu-1"]
    assert waiting(after) == []
    another_share = status(WAITING, {**second, "shareID": "t"})
    assert waiting({**another_share, "devices": after["devices"]}) == ["gpu-1"]


def test_a_rejected_claim_is_pending_and_says_why() -> None:
    after = answered(status(WAITING), "card GPU-0: memory 1024 MiB short")

    claim = allocated(with_status(after))

    assert claim is not None
    assert (claim.pending, claim.rejected) == (True, True)
    assert after["devices"] == [
        {
            "driver": OURS,
            "pool": "n",
            "device": "gpu-0",
            "shareID": "s",
            "conditions": [
                {
                    "type": REJECTED,
                    "status": "True",
                    "reason": "CardsInUse",
                    "message": "card GPU-0: memory 1024 MiB short",
                    "lastTransitionTime": NOW,
                }
            ],
        }
    ]


def test_what_others_say_about_devices_stays() -> None:
    place = {"driver": OURS, "pool": "n", "device": "gpu-0", "shareID": "s"}
    ready = {"type": "other/ready", "status": "True"}
    foreign = {"driver": "net.example.com", "pool": "n", "device": "eth0", "data": {"ip": "::1"}}
    stored = [{**place, "conditions": [ready, {"type": REJECTED, "status": "False"}]}, foreign]

    found: list[dict[str, Any]] = answered(status(WAITING, devices=stored), None)["devices"]

    assert [each["type"] for each in found[0]["conditions"]] == ["other/ready", COMMITTED]
    assert found[1] == foreign

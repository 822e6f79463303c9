"""Claims that no pod uses are counted, and those of some drivers deallocated."""

import asyncio
from dataclasses import dataclass, field

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra.tests.builders import NVIDIA, a_claim, a_result, with_status
from adapters.service.reconcile.claim_previews.unused_claims import AGAIN, UnusedClaims
from core.requests.pod_ref import PodRef

OWN = "gpu.dragoman.dev"


@dataclass
class FakeServer:
    asked: list[PodRef] = field(default_factory=list)
    answer: bool | None = True

    async def deallocate(self, claim: PodRef) -> bool:
        self.asked.append(claim)
        if self.answer is None:
            raise OSError("no answer")
        return self.answer


class Rig:
    def __init__(self) -> None:
        self.claims, self.server = ClaimCache(lambda _: None), FakeServer()
        self.now, self.reports = 100.0, list[tuple[str, str]]()
        self.made = UnusedClaims(
            self.claims,
            self.server,
            [OWN],
            60,
            lambda: self.now,
            lambda claim, text: self.reports.append((claim, text)),
        )

    def unused(self, *drivers: str) -> None:
        results = [a_result("gpu-0", driver) for driver in drivers]
        self.claims.put_claim(with_status({"allocation": {"devices": {"results": results}}}))

    def look(self, after: float = 0.0) -> list[str]:
        self.now += after
        asyncio.run(self.made.look())
        return [claim.uid for claim in self.server.asked]


def test_a_claim_that_no_pod_uses_for_the_time_is_deallocated_once() -> None:
    rig = Rig()
    rig.unused(OWN)

    assert (rig.look(), rig.look(59), rig.made.count) == ([], [], 0)
    assert rig.look(1) == ["u-claim"]
    assert rig.reports == [("team/c", "was deallocated: no pod used it")]
    assert rig.server.asked == [PodRef("team", "c", "u-claim")]
    assert (rig.look(1), rig.made.count) == (["u-claim"], 1)


def test_a_claim_of_another_driver_is_counted_and_stays() -> None:
    rig = Rig()
    rig.unused(OWN, NVIDIA)

    rig.look()

    assert (rig.look(60), rig.made.count) == ([], 1)


def test_a_claim_that_is_used_in_between_begins_again() -> None:
    rig = Rig()
    rig.unused(OWN)
    rig.look()
    rig.claims.put_claim(a_claim(a_result("gpu-0", OWN)))
    assert rig.look(59) == []
    rig.unused(OWN)

    assert (rig.look(1), rig.look(59)) == ([], [])
    assert rig.look(1) == ["u-claim"]


def test_a_claim_whose_status_cannot_be_read_stays() -> None:
    rig = Rig()
    rig.claims.put_claim(with_status({"allocation": 1}))
    rig.look()

    assert (rig.look(60), rig.made.count) == ([], 0)


def test_a_write_that_fails_is_reported_and_made_again_later() -> None:
    rig = Rig()
    rig.unused(OWN)
    rig.server.answer = None
    rig.look()

    assert len(rig.look(60)) == 1
    assert rig.reports == [("team/c", "cannot be deallocated: no answer")]
    assert len(rig.look(AGAIN - 1)) == 1
    rig.server.answer = False
    assert len(rig.look(1)) == 2
    assert len(rig.reports) == 1


def test_a_claim_that_was_deleted_is_forgotten() -> None:
    rig = Rig()
    rig.unused(OWN)
    rig.look()
    rig.claims.drop_claim("team/c")

    assert (rig.look(60), rig.made.count) == ([], 0)

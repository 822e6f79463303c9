"""Claims whose scheduler waits for the ledger get an answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra.conditions import COMMITTED, REJECTED, reported
from adapters.dialects.dra.tests.builders import a_card_device, a_claim, a_share, a_slice
from adapters.service.reconcile.claim_previews.claim_conditions import AGAIN, ClaimConditions
from adapters.service.tests.builders import Bench, a_node, a_service
from adapters.stores.quotas import MemoryQuotas
from adapters.tests.waiting import until
from adapters.wire.dra import DeviceResult, ResourceClaim
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import QuotaLimits
from core.quota.quota import Quota
from core.requests.pod_ref import PodRef

CARDS = ("GPU-n1-0", "GPU-n1-1")
DEVICES = [a_card_device(f"gpu-{number}", card, "8Gi") for number, card in enumerate(CARDS)]


def a_share_that_waits(device: str, gib: int) -> dict[str, object]:
    return a_share(device, memory=f"{gib}Gi") | {"bindingConditions": [COMMITTED]}


@dataclass
class FakeServer:
    """The claims of the API server, which a cache sees at once."""

    cache: ClaimCache
    there: dict[str, ResourceClaim] = field(default_factory=dict[str, ResourceClaim])
    writes: int = 0
    fails: bool = False

    def put(self, claim: ResourceClaim) -> None:
        self.there[claim.metadata.name] = claim
        self.cache.put_claim(claim)

    async def get(self, claim: PodRef) -> ResourceClaim | None:
        return self.there.get(claim.name)

    async def report(
        self, claim: ResourceClaim, devices: Sequence[DeviceResult], problem: str | None
    ) -> None:
        if self.fails:
            raise OSError("no answer")
        status: dict[str, Any] = msgspec.json.decode(claim.status)
        status["devices"] = reported(status.get("devices") or [], devices, problem, "now")
        self.writes += 1
        self.put(msgspec.structs.replace(claim, status=msgspec.Raw(msgspec.json.encode(status))))

    def conditions(self, name: str) -> dict[str, str]:
        """The message of each condition of a claim."""
        status: dict[str, Any] = msgspec.json.decode(self.there[name].status)
        return {
            each["type"]: each["message"]
            for device in status.get("devices") or ()
            for each in device["conditions"]
        }


class Rig:
    """A node of two cards of 8 GiB, and its claims."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.cache = ClaimCache(lambda _: None)
        described = a_slice(*DEVICES)
        spec = msgspec.structs.replace(described.spec, node_name="n1")
        self.cache.put_slice(msgspec.structs.replace(described, spec=spec))
        self.server = FakeServer(self.cache)
        self.now, self.problems = 0.0, list[tuple[str, str]]()
        self.made = ClaimConditions(
            bench.service,
            self.cache,
            self.server,
            lambda: self.now,
            lambda node, text: self.problems.append((node, text)),
        )

    @property
    def node(self) -> Node:
        ledger = self.bench.service.ledgers.ledger("n1")
        assert ledger is not None
        return ledger.node

    async def look(self) -> None:
        """Answer what is due."""
        for node in self.made._queue.due():
            await self.made._one(node)

    async def answer(self, name: str, *shares: dict[str, object], node: str = "n1") -> None:
        """Let a scheduler allocate a claim, and answer it."""
        self.server.put(a_claim(*shares, node=node, name=name, uid=f"u-{name}"))
        self.made.look_at(node)
        await self.look()

    async def held(self) -> dict[str, int]:
        """GiB of each claim in the ledger."""
        stored = await self.bench.store.read("n1")
        assert stored is not None
        found = stored.ledger.allocations.values()
        return {each.pod: sum(grant.memory for grant in each.grants) // GIB for each in found}


async def a_rig() -> Rig:
    return Rig(await a_service(a_node("n1")))


def test_a_claim_is_committed_and_then_its_scheduler_goes_on() -> None:
    async def tried() -> None:
        rig = await a_rig()

        await rig.answer("a", a_share_that_waits("gpu-0", 6))

        assert await rig.held() == {"team/a": 6}
        assert rig.server.conditions("a") == {COMMITTED: "the ledger has the claim"}
        assert rig.cache.undecided("n1") == []

    asyncio.run(tried())


def test_a_claim_of_cards_that_are_in_use_is_rejected_with_the_reason() -> None:
    async def tried() -> None:
        rig = await a_rig()
        await rig.answer("a", a_share_that_waits("gpu-0", 6))

        await rig.answer("b", a_share_that_waits("gpu-0", 4))

        assert await rig.held() == {"team/a": 6}
        (found,) = rig.server.conditions("b").items()
        assert found[0] == REJECTED
        assert "memory" in found[1]
        assert rig.cache.undecided("n1") == []
        assert [each.uid for each in rig.cache.holding(NodeLedger.of(rig.node), rig.node)] == [
            "u-a"
        ]

    asyncio.run(tried())


def test_a_claim_beyond_the_quota_is_rejected_with_the_reason() -> None:
    async def tried() -> None:
        quotas = MemoryQuotas((Quota("team", QuotaLimits(memory=GIB), counted=True),))
        rig = Rig(await a_service(a_node("n1"), quotas=quotas))
        found = await quotas.read("team")
        assert found is not None
        rig.bench.service.quotas.apply(found)

        await rig.answer("a", a_share_that_waits("gpu-0", 2))

        assert await rig.held() == {}
        assert rig.server.conditions("a")[REJECTED].startswith("quota of namespace team: ")
        assert rig.bench.decision_log.decisions[-1].cause == "quota"

    asyncio.run(tried())


def test_a_claim_holds_nothing_before_the_ledger_has_it() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.server.put(a_claim(a_share_that_waits("gpu-0", 6), node="n1"))

        assert rig.cache.holding(NodeLedger.of(rig.node), rig.node) == ()
        assert [each.name for each in rig.cache.undecided("n1")] == ["team/c"]

    asyncio.run(tried())


def test_an_attempt_that_failed_is_repeated_and_commits_once() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.server.fails = True
        await rig.answer("a", a_share_that_waits("gpu-0", 6))
        assert rig.problems == [("n1", "claim team/a: no answer")]
        assert await rig.held() == {"team/a": 6}

        rig.server.fails, rig.now = False, AGAIN
        await rig.look()

        assert await rig.held() == {"team/a": 6}
        assert rig.server.writes == 1
        assert COMMITTED in rig.server.conditions("a")

    asyncio.run(tried())


def test_a_claim_of_a_node_without_a_ledger_waits() -> None:
    async def tried() -> None:
        rig = await a_rig()
        described = a_slice(a_card_device("gpu-0", "GPU-late", "8Gi"), driver="gpu.dragoman.dev")
        spec = msgspec.structs.replace(described.spec, node_name="late")
        rig.cache.put_slice(msgspec.structs.replace(described, spec=spec))
        share = a_share_that_waits("gpu-0", 6) | {"driver": "gpu.dragoman.dev"}

        await rig.answer("a", share, node="late")

        assert rig.server.writes == 0
        assert [each.name for each in rig.cache.undecided("late")] == ["team/a"]
        assert rig.made._queue.due() == []
        rig.now = AGAIN
        assert rig.made._queue.due() == ["late"]

    asyncio.run(tried())


def test_a_claim_that_was_deleted_or_answered_meanwhile_is_left_alone() -> None:
    async def tried() -> None:
        rig = await a_rig()
        waiting = a_claim(a_share_that_waits("gpu-0", 6), node="n1", name="a")
        rig.cache.put_claim(waiting)
        rig.made.look_at("n1")
        await rig.look()
        rig.server.there["a"] = a_claim(a_share("gpu-0", memory="6Gi"), node="n1", name="a")
        rig.made.look_at("n1")
        await rig.look()

        assert rig.server.writes == 0
        assert await rig.held() == {}

    asyncio.run(tried())


def test_claims_that_are_not_clear_are_rejected() -> None:
    async def tried() -> None:
        rig = await a_rig()

        await rig.answer("a", a_share_that_waits("gpu-7", 6))

        assert await rig.held() == {}
        assert "no ResourceSlice describes" in rig.server.conditions("a")[REJECTED]

    asyncio.run(tried())


def test_every_node_is_checked_at_the_start() -> None:
    async def tried() -> None:
        rig = await a_rig()
        rig.server.put(a_claim(a_share_that_waits("gpu-0", 6), node="n1", name="a"))

        running = asyncio.create_task(rig.made.run())
        await until(lambda: rig.server.writes)
        running.cancel()

        assert await rig.held() == {"team/a": 6}

    asyncio.run(tried())

"""Shadow claims follow the ledgers."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from adapters.accounting.claim_cache import ClaimCache
from adapters.dialects.dra.shadows import ShadowClaim
from adapters.dialects.dra.tests.builders import a_card_device, a_slice
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.reconcile.shadows import AGAIN, EVERY, ShadowPublisher
from adapters.service.tests.builders import stored
from adapters.stores.store import Change
from adapters.wire.dra import ResourceClaim
from core.ledger.node_ledger import NodeLedger
from core.tests.builders import a_card, a_grant, a_node, held

NODE = a_node(a_card("a"), a_card("b", 1))


@dataclass
class FakeServer:
    """The claims of a namespace; it reports them to a cache when ``see`` is called."""

    there: dict[str, ShadowClaim] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    fails: bool = False

    async def create(self, claim: ShadowClaim) -> None:
        if self.fails:
            raise OSError("no answer")
        self.there[claim.name] = claim
        self.writes.append("create")

    async def delete(self, name: str, uid: str) -> None:
        assert uid == f"uid-{name}"
        del self.there[name]
        self.writes.append("delete")


class Rig:
    def __init__(self) -> None:
        self.claims, self.ledgers, self.server = (
            ClaimCache(lambda _: None),
            LedgerCache(),
            FakeServer(),
        )
        self.now, self.problems = 100.0, list[tuple[str, str]]()
        self.claims.put_slice(a_slice(a_card_device("gpu-0", "a"), a_card_device("gpu-1", "b")))
        self.made = ShadowPublisher(
            self.ledgers,
            self.claims,
            self.server,
            "system",
            lambda: self.now,
            lambda node, text: self.problems.append((node, text)),
        )

    def use(self, *cards: str) -> None:
        pods = [held(a_grant(card), uid=f"p-{card}") for card in cards]
        before = self.ledgers.stored("n")
        version = 1 if before is None else before.ledger.version + 1
        self.ledgers.apply(Change("n", stored(NodeLedger.restored(NODE, pods, version))))
        self.made.look_at("n")

    def see(self) -> None:
        """The watch reports what is there."""
        for name in [*self.claims.shadows.of_node("n", "system")]:
            if name not in self.server.there:
                self.claims.drop_claim(f"system/{name}")
        for claim in self.server.there.values():
            manifest: Mapping[str, Any] = json.loads(json.dumps(claim.manifest))
            manifest["metadata"]["uid"] = f"uid-{claim.name}"
            text = json.dumps({**manifest, "status": claim.status})
            self.claims.put_claim(msgspec.json.decode(text, type=ResourceClaim))

    async def turn(self) -> None:
        """What the loop does once with all nodes that are due."""
        for node in self.made._queue.due():
            await self.made._one(node)
        self.see()

    def devices(self) -> list[str]:
        results = [
            result
            for claim in self.server.there.values()
            for result in json.loads(json.dumps(claim.status))["allocation"]["devices"]["results"]
        ]
        return [result["device"] for result in results]


def test_a_device_keeps_its_claim_when_others_have_one_more() -> None:
    async def tried() -> None:
        rig = Rig()
        rig.use("a")
        await rig.turn()
        assert rig.devices() == ["gpu-0"]
        rig.now += EVERY

        rig.use("a", "b")
        await rig.turn()

        assert rig.devices() == ["gpu-0", "gpu-1"]
        assert rig.server.writes == ["create", "create"]
        rig.now += EVERY
        rig.use()
        await rig.turn()
        assert rig.devices() == []

    asyncio.run(tried())


def test_a_node_is_written_once_a_second_and_a_new_claim_before_an_older_one_is_deleted() -> None:
    async def tried() -> None:
        rig = Rig()
        rig.use("a")
        await rig.turn()

        for number in range(1000):
            rig.use(*("ab" if number % 2 == 0 else "b"))
            await rig.turn()
        assert rig.server.writes == ["create"]

        rig.now += EVERY
        await rig.turn()
        assert rig.server.writes == ["create", "create", "delete"]
        assert rig.devices() == ["gpu-1"]

    asyncio.run(tried())


def test_a_claim_without_its_allocation_is_written_again() -> None:
    async def tried() -> None:
        rig = Rig()
        rig.use("a")
        await rig.turn()
        ((name, made),) = rig.server.there.items()
        rig.server.there[name] = ShadowClaim(name, made.manifest, {})
        rig.see()
        rig.now += EVERY

        rig.made.look_at("n")
        await rig.turn()

        assert rig.devices() == ["gpu-0"]

    asyncio.run(tried())


def test_claims_of_a_node_without_a_ledger_are_deleted_and_unreadable_ones_stay() -> None:
    async def tried() -> None:
        rig = Rig()
        rig.use("a")
        await rig.turn()
        rig.now += EVERY

        rig.ledgers.put(Change("n", None, "cannot be read"))
        rig.made.look_at("n")
        await rig.turn()
        assert rig.devices() == ["gpu-0"]

        rig.ledgers.put(Change("n", None))
        rig.made.look_at("n")
        await rig.turn()
        assert rig.devices() == []
        await rig.made.publish("n")

    asyncio.run(tried())


def test_a_write_that_failed_is_reported_and_tried_again() -> None:
    async def tried() -> None:
        rig = Rig()
        rig.server.fails = True
        rig.use("a")
        await rig.turn()
        assert rig.problems == [("n", "no answer")]

        rig.server.fails = False
        rig.now += AGAIN
        await rig.turn()

        assert rig.devices() == ["gpu-0"]

    asyncio.run(tried())


def test_a_leader_looks_at_all_nodes_first() -> None:
    async def tried() -> None:
        rig = Rig()
        rig.use("a")
        await rig.turn()
        rig.ledgers.put(Change("n", None))
        rig.now += EVERY

        running = asyncio.create_task(rig.made.run())
        while rig.devices():
            await asyncio.sleep(0)
        running.cancel()

        assert rig.server.writes == ["create", "delete"]

    asyncio.run(tried())

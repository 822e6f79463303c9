"""Values for the tests of the agent."""

from collections.abc import Mapping

from adapters.agent.hardware.model import Instance
from adapters.agent.injection.adjustment import Equipment
from adapters.agent.injection.profiles import NVIDIA, PROFILES, VendorProfile
from adapters.agent.nri.model import NriContainer, PodSandbox
from core.hardware.card import Card
from core.hardware.mig import MigKey, Slice
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant
from core.requests.limits import CardLimit, Limits

MEMORY = 80 * GIB
POD = PodSandbox("p1", "train", "uid-1", "ai")
ASKING = PodSandbox("p1", "train", "uid-1", "ai", frozenset({"volcano.sh/vgpu-ids-new"}))


def container(*env: str, name: str = "main", **more: object) -> NriContainer:
    return NriContainer("c1", "p1", name, env=env, **more)  # type: ignore[arg-type]  # a test's fields


def card(index: int, vendor: str = "nvidia") -> Card:
    return Card(f"GPU-{index}", "node", index, vendor, "A", MEMORY, 10)


def limit(index: int, memory: int = GIB, compute: int = 50, slot: Slice | None = None) -> CardLimit:
    shared = slot is None
    return CardLimit(
        f"GPU-{index}",
        index,
        memory,
        compute,
        shared and memory < MEMORY,
        shared and 0 < compute < 100,
        slot,
    )


def limits(*cards: CardLimit) -> Limits:
    return Limits("main", cards)


def equipment(
    *cards: Card,
    nvidia: VendorProfile = NVIDIA,
    instances: Mapping[MigKey, Instance] | None = None,
    cdi: bool = False,
) -> Equipment:
    held = cards or tuple(card(index) for index in range(4))
    profiles = {**PROFILES, "nvidia": nvidia}
    return Equipment({c.uuid: c for c in held}, profiles, {}, instances or {}, cdi)


def ledger(*grants: Grant, uid: str = "uid-1", **more: object) -> NodeLedger:
    node = Node("node", tuple(card(index) for index in range(4)))
    held = Allocation(uid, "ai/train", "volcano", "node", grants, **more)  # type: ignore[arg-type]
    return NodeLedger.of(node).adopt(held)

"""Plans that no command made: what their author wrote gives no pod more than it requests."""

import dataclasses

from msgspec.structs import replace

from adapters.service.reconcile.tests.moved_cluster import Moved, on, owned, owner_of
from adapters.service.tests.builders import Json, a_node, a_pod
from adapters.wire.records.allocation import grant_record
from adapters.wire.records.move_plan import (
    MoveController,
    MovePlace,
    MovePlanSpec,
    PlannedMove,
)
from core.hardware.card import Level, Scope

PCIE = '{"gpu": {"requiredTopologyScope": "PCIe"}}'


def with_init_containers(name: str) -> Json:
    """A pod of 8,000 MiB at its start: a sidecar, then an init container beside it."""
    pod = owned(a_pod(name, memory=1000))

    def container(name: str, **fields: object) -> Json:
        limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4000}
        return {"name": name, "resources": {"limits": limits}, **fields}

    first = [container("sidecar", restartPolicy="Always"), container("load")]
    return {**pod, "spec": {**pod["spec"], "initContainers": first}}


async def described_by_koordinator(moved: Moved, name: str) -> None:
    """Describe the cards of a node as koordlet does: two have a PCIe switch."""
    known = moved.rig.bench.service.ledgers.stored(name)
    assert known is not None
    node = known.ledger.node
    cards = [
        dataclasses.replace(
            card,
            dialects=frozenset({"koordinator"}),
            links=(Scope(Level.PCIE, str(card.index // 2)),),
        )
        for card in node.cards
    ]
    described = known.ledger.with_node(dataclasses.replace(node, cards=tuple(cards)))
    await moved.rig.bench.store.write(described, known.version)
    await moved.rig.bench.sync()


async def a_move_of(moved: Moved, name: str) -> PlannedMove:
    pod = moved.rig.pod(name)
    ledger = moved.rig.bench.service.ledgers.record("n1")
    grants = tuple(map(grant_record, ledger.allocations[pod.metadata.uid].grants))
    owner = owner_of(pod)
    source = MovePlace("n1", grants)
    target = MovePlace("n2", tuple(replace(each, card="GPU-n2-0") for each in grants))
    return PlannedMove(
        "default",
        name,
        pod.metadata.uid,
        "volcano",
        MoveController(owner.kind, owner.name, owner.uid),
        source,
        target,
    )


def test_a_place_whose_containers_start_in_another_order_is_not_held() -> None:
    @on()
    async def _(moved: Moved) -> None:
        await moved.rig.run_pod(with_init_containers("web-1"), "n1")
        move = await a_move_of(moved, "web-1")
        sidecar, load, main = move.to.grants
        # The init container would not run beside the sidecar, and 5,000 MiB be enough.
        to = replace(move.to, grants=(load, sidecar, main))
        moved.plans.create("plan", MovePlanSpec((replace(move, to=to),)))

        assert await moved.look() == "Stopped"

        reason = moved.plans.status().reason
        assert reason == "default/web-1: its place on n2 is not what it requests"


def test_a_place_whose_cards_are_not_linked_as_the_pod_requires_is_not_held() -> None:
    hint = {"scheduling.koordinator.sh/device-allocate-hint": PCIE}
    pod = owned(a_pod("web-1", limits={"nvidia.com/gpu": 2}, annotations=hint))

    @on(a_node("n1", cards=2), a_node("n2", cards=4))
    async def _(moved: Moved) -> None:
        for name in ("n1", "n2"):
            await described_by_koordinator(moved, name)
        await moved.rig.run_pod(pod, "n1")
        move = await a_move_of(moved, "web-1")
        (first, second) = move.to.grants

        async def planned(*cards: str) -> str:
            grants = (replace(first, card=cards[0]), replace(second, card=cards[1]))
            spec = MovePlanSpec((replace(move, to=MovePlace("n2", grants)),))
            moved.plans.create("plan", spec)
            return await moved.look()

        assert await planned("GPU-n2-1", "GPU-n2-2") == "Stopped"
        reason = moved.plans.status().reason
        assert reason == "default/web-1: its place on n2 is not what it requests"
        assert await planned("GPU-n2-2", "GPU-n2-3") == "Held"

"""Ledgers whose records say a lot."""

from dataclasses import replace

from core.hardware.card import Level, Mode, Scope
from core.hardware.mig import Geometry, Slice
from core.hardware.node import Partition
from core.hardware.quantity import GIB
from core.ledger.node_ledger import Hold, NodeLedger
from core.requests.grant import Grant
from core.requests.request import Phase, SharingTerms
from core.tests.builders import a_card, a_grant, a_mig_card, a_node, empty, held
from core.tests.strategies import TERMS


def a_rich_ledger(name: str = "n") -> NodeLedger:
    """With every field of every value away from its default."""
    card = replace(
        a_card("GPU-0"),
        healthy=False,
        numa=1,
        links=(Scope(Level.NUMA, "1"), Scope(Level.LINK, "0-3")),
        dialects=frozenset({"volcano", "koordinator"}),
        names=("NVIDIA-A100", "A100"),
        compute=150,
    )
    cut = a_mig_card("GPU-1", 1)
    node = replace(
        a_node(card, cut, replace(cut, uuid="GPU-2", index=2), name=name),
        isolation="hami-core",
        partitions=(Partition((0, 1), 25, 3), Partition((2,))),
        partitions_bind=True,
        losses=((1, 3), (2, -1)),
        gains=((2, 50),),
        scores=((0, 60, 100), (60, 0, 20), (100, 20, 0)),
    )
    every_term = SharingTerms(**{name: values[-1] for name, values in TERMS.items()})
    rich = replace(
        held(
            Grant("first", "GPU-0", GIB, 30, exclusive=True, phase=Phase.INIT),
            Grant("main", "GPU-1", GIB, 25, slice=cut.geometry.layouts[0].slices[1]),
            node=name,
        ),
        terms=replace(every_term, exclusions=frozenset({"b", "a"})),
        priority=-7,
        unread="its record is not readable",
        blocked=frozenset({"GPU-2", "GPU-0"}),
        attempt=4,
        release_by=1_800_000_000,
        initialized=True,
    )
    second = held(a_grant("GPU-9"), uid="second", node=name)
    kept = replace(rich, uid="kept", blocked=frozenset[str](), unread=None)
    hold = Hold("plan", "owner", by_name=True, allocation=kept, taken_by="second")
    return NodeLedger.of(node).adopt(rich).adopt(second).hold(hold)


def a_full_ledger() -> NodeLedger:
    """8 cards that are cut by a long geometry, and 80 pods with names as long as real ones."""
    slot = Slice("1g.8gb", 0, 1, 8 * GIB, 10, "group0", 0)
    layouts = tuple(
        replace(
            a_mig_card().geometry.layouts[0],
            name=f"group{number}",
            slices=tuple(replace(slot, start=place, position=place) for place in range(10)),
        )
        for number in range(5)
    )
    cards = [
        replace(
            a_card(f"GPU-{number:08x}-aaaa-bbbb-cccc-{number:012x}", number, 80 * GIB, 10),
            mode=Mode.MIG,
            model="NVIDIA-NVIDIA A100-SXM4-80GB",
            numa=number // 4,
            links=tuple(Scope(level, f"{number // 4}") for level in Level),
            names=("NVIDIA-NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"),
            dialects=frozenset({"volcano", "koordinator", "metax"}),
            geometry=Geometry(layouts),
        )
        for number in range(8)
    ]
    ledger = empty(*cards, name="gpu-worker-0001.cluster.internal")
    for number in range(80):
        place = replace(slot, start=number // 8, position=number // 8)
        grant = Grant("inference-server", cards[number % 8].uuid, 8 * GIB, 10, slice=place)
        pod = f"team-vision-production/inference-server-7d9c8b6f5-{number:05x}"
        ledger = ledger.adopt(
            replace(
                held(grant, uid=f"{number:08x}-1111-2222-3333-{number:012x}"),
                node=ledger.node.name,
                pod=pod,
                dialect="volcano",
            )
        )
    return ledger

"""Random small nodes, ledgers and requests, for properties.

Made from one seed each: what hypothesis draws piece by piece is mostly trivial, and slow.
"""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from core.feasibility.fit import fit
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig import NO_GEOMETRY, Geometry
from core.hardware.node import Node
from core.hardware.quantity import FULL, GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Placement
from core.requests.request import (
    CardKey,
    ContainerRequest,
    NodeKey,
    Phase,
    Ranking,
    Request,
    SharingTerms,
    TaskClass,
    TopologyConstraint,
    Weights,
)
from core.tests.builders import A30ISH, DIALECT, ONE_LAYOUT, placed, unreadable

OTHER = "other"
CLASSES = (*(TaskClass.NORMAL,) * 4, TaskClass.ONLINE, TaskClass.OFFLINE)
TERMS: dict[str, tuple[Any, ...]] = {
    "task_class": CLASSES,
    "qos": (None, "fixed", "burst"),
    "group": (None, None, "g"),
    "member_of": (None, "g", "h"),
    "exclusions": (frozenset(), frozenset({"x"})),
}
"""By field of ``SharingTerms``, the values that random requests have; the first is its default."""
LINKINGS = (
    TopologyConstraint(),
    TopologyConstraint((Level.NUMA, Level.LINK)),
    TopologyConstraint((), required=Level.LINK),
)
CONFIGURED = Geometry(
    tuple(
        replace(layout, configured=tuple(slot.memory + GIB // 2 for slot in layout.slices))
        for layout in ONE_LAYOUT.layouts
    )
)
"""Slices of which a scheduler's settings state more memory than they have."""
CLASSES_OF_NODES = 3
"""How many node classes there are."""


def a_random_card(seed: Random, node: str, index: int) -> Card:
    mode = seed.choice((*(Mode.SHARED,) * 4, Mode.MPS, Mode.WHOLE, Mode.MIG, Mode.MIG))
    return Card(
        uuid=f"{node}-{index}",
        node=node,
        index=index,
        vendor=seed.choice(("nvidia", "nvidia", "metax")),
        model=seed.choice(("A100", "A100", "H100")),
        memory=4 * GIB if mode is Mode.MIG else seed.choice((2, 4)) * GIB,
        slots=seed.choice((1, 2, 4, 4)),
        healthy=seed.random() < 0.9,
        mode=mode,
        links=(
            Scope(Level.NUMA, str(seed.randint(0, 1))),
            Scope(Level.LINK, str(seed.randint(0, 2))),
        )[: seed.choice((0, 2))],
        dialects=frozenset(seed.choice((*((DIALECT,),) * 6, (DIALECT, OTHER), (OTHER,)))),
        geometry=seed.choice((A30ISH, ONE_LAYOUT, CONFIGURED)) if mode is Mode.MIG else NO_GEOMETRY,
        compute=FULL if mode is Mode.MIG else seed.choice((*(FULL,) * 5, 0, 50, 2 * FULL)),
    )


def a_random_node(seed: Random, name: str, most: int) -> Node:
    class_seed = Random(seed.randrange(CLASSES_OF_NODES)) if seed.random() < 0.5 else seed  # noqa: S311
    cards = [
        a_random_card(class_seed, name, index)
        for index in range(class_seed.choice((0, *range(1, most + 1), *range(2, most + 1))))
    ]
    return Node(name, tuple(cards), seed.choice((None, "core")))


def a_random_ask(seed: Random, container: str) -> ContainerRequest:
    in_percent = seed.random() < 0.3
    compute = seed.choice((0, 0, 25, 50, FULL))
    return ContainerRequest(
        container,
        seed.choice((1, 1, 1, 1, 2)),
        memory=None if in_percent else seed.choice((1, 2, 3)) * GIB // 2,
        memory_percent=seed.choice((10, 50, FULL)) if in_percent else None,
        compute=compute,
        exclusive=compute == FULL or seed.random() < 0.1,
        linked=seed.random() < 0.4,
        phase=seed.choice((Phase.MAIN, Phase.MAIN, Phase.SIDECAR, Phase.INIT)),
        exclusive_by_compute=compute == FULL and seed.random() < 0.5,
    )


def a_random_ranking(seed: Random) -> Ranking:
    return Ranking(
        cards=tuple(seed.sample(list(CardKey), seed.randint(1, 2))),
        nodes=tuple(seed.sample(list(NodeKey), seed.randint(0, 2))),
        weights=seed.choice((Weights(), Weights(0, 2, 1), Weights(1, 0, 5))),
    )


def a_random_request(seed: Random, uid: str, containers: int, plain: float = 0.5) -> Request:
    """A request; without most constraints with the probability ``plain``."""
    uuids = [f"n{node}-{index}" for node in ("", "0", "1") for index in range(3)]
    some = frozenset(seed.sample(uuids, 6))
    is_plain = seed.random() < plain
    request = Request(
        uid=uid,
        pod=f"default/{uid}",
        dialect=DIALECT,
        containers=tuple(
            a_random_ask(seed, f"c{number}") for number in range(seed.randint(1, containers))
        ),
        modes=frozenset(seed.choice(((Mode.SHARED,), tuple(Mode), tuple(Mode)))),
        ranking=a_random_ranking(seed),
        topology=seed.choice(LINKINGS),
        terms=SharingTerms(seed.choice(CLASSES)),
        priority=seed.randint(0, 2),
    )
    if is_plain:
        return request
    return replace(
        request,
        alternatives=seed.choice((frozenset(), frozenset({OTHER}))),
        vendor=seed.choice((None, None, "nvidia")),
        allow_uuids=some if seed.random() < 0.2 else None,
        deny_uuids=some if seed.random() < 0.2 else frozenset(),
        allow_types=seed.choice((None, None, ("a100",))),
        deny_types=seed.choice(((), ("H100",))),
        isolation=seed.choice((*(None,) * 5, "core")),
        terms=SharingTerms(**{name: seed.choice(values) for name, values in TERMS.items()}),
        by_configured_size=seed.random() < 0.3,
        several_slices=seed.random() < 0.3,
    )


def a_random_ledger(seed: Random, name: str, most: int, pods: int) -> NodeLedger:
    """A node with pods that were placed, others that were only found, and unreadable ones.

    Pods are called ``{node}.{number}``.
    """
    ledger = NodeLedger.of(a_random_node(seed, name, most))
    for number in range(seed.randint(0, pods)):
        request = a_random_request(seed, f"{name}.{number}", 2)
        result = fit(request, ledger)
        how = seed.random()
        if how < 0.05:
            uuids = [card.uuid for card in ledger.node.cards]
            ledger = ledger.adopt(unreadable(request.uid, uuids[:1], name))
        elif isinstance(result, Placement):
            found = Allocation.of(request, result)
            found = replace(found, terms=replace(found.terms, task_class=TaskClass.NORMAL))
            ledger = ledger.adopt(found) if how < 0.2 else placed(ledger, request, result)
    return ledger


seeds = st.randoms(use_true_random=True)


def requests(
    uid: str = "new", containers: int = 3, plain: float = 0.5
) -> st.SearchStrategy[Request]:
    return seeds.map(lambda seed: a_random_request(seed, uid, containers, plain))


def ledgers(name: str = "n", most: int = 3, pods: int = 5) -> st.SearchStrategy[NodeLedger]:
    return seeds.map(lambda seed: a_random_ledger(seed, name, most, pods))


def clusters(nodes: int = 6, most: int = 3) -> st.SearchStrategy[list[NodeLedger]]:
    """Up to ``nodes`` ledgers, of nodes ``n0``, ``n1`` and so on."""
    return seeds.map(
        lambda seed: [
            a_random_ledger(seed, f"n{number}", most, 3) for number in range(seed.randint(0, nodes))
        ]
    )

"""Random small clusters whose pods may move."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from core.feasibility.fit import fit, placements
from core.feasibility.inventory import Inventory
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.hardware.quantity import FULL, GIB
from core.ledger.node_ledger import NodeLedger
from core.moves.situation import PlannedPod, Situation
from core.requests.grant import Allocation, Placement
from core.requests.request import ContainerRequest, Request
from core.tests.builders import A30ISH, DIALECT, ONE_LAYOUT, a_card, a_node

OTHER = "other"
MODES = frozenset({Mode.SHARED, Mode.MIG})


TRIES = 40


def a_situation(
    number: int, compute: Sequence[int] = (0, 0, 10, 30)
) -> tuple[list[PlannedPod], Situation]:
    """One or two pods that wait, and a cluster of two to six nodes, the same for each number.

    Mostly the pods do not fit now, and would fit if all movable pods were gone. ``compute`` are the
    percentages of a card's compute that shares ask for.
    """
    seed = Random(number)  # noqa: S311
    wanted, situation = _any_situation(seed, compute)
    for _ in range(TRIES):
        if not _fit(wanted, situation, ()) and _fit(wanted, situation, situation.movable):
            break
        wanted, situation = _any_situation(seed, compute)
    return wanted, situation


def _fit(wanted: list[PlannedPod], situation: Situation, gone: Iterable[str]) -> bool:
    """Whether each of the pods would fit alone after others left."""
    ledgers = [*situation.inventory]
    for uid in gone:
        ledgers = [ledger.release(uid) for ledger in ledgers]
    return all(
        any(
            isinstance(fit(pod.request, each), Placement)
            for each in ledgers
            if each.node.name in pod.nodes
        )
        for pod in wanted
    )


def _any_situation(seed: Random, compute: Sequence[int]) -> tuple[list[PlannedPod], Situation]:
    names = [f"n{each}" for each in range(seed.randint(2, 6))]
    ledgers = {name: NodeLedger.of(_node(seed, name)) for name in names}
    room = {name: {"cpu": seed.randint(5, 12)} for name in names if seed.random() < 0.7}
    movable: dict[str, PlannedPod] = {}
    for each in range(seed.randint(6, 11)):
        pod = _pod(seed, f"p{each}", names, compute)
        places = [
            place
            for name in seed.sample(names, len(names))
            if name in pod.nodes and room.get(name, pod.needs)["cpu"] >= pod.needs["cpu"]
            for place in placements(pod.request, ledgers[name])
        ]
        if places:
            place = seed.choice(places[:6])
            ledger = ledgers[place.node]
            ledgers[place.node] = ledger.allocate(Allocation.of(pod.request, place))
            if place.node in room:
                room[place.node] = {"cpu": room[place.node]["cpu"] - pod.needs["cpu"]}
            if seed.random() < 0.8:
                movable[pod.request.uid] = pod
    wanted = [
        replace(_pod(seed, f"w{each}", names, compute, least=3), weight=0)
        for each in range(seed.choice((1, 1, 1, 2)))
    ]
    return wanted, Situation(Inventory(ledgers.values()), movable, room)


def _node(seed: Random, name: str) -> Node:
    cards = [_card(seed, f"{name}-{index}", index) for index in range(seed.choice((1, 1, 2, 2, 3)))]
    return a_node(*cards, name=name)


def _card(seed: Random, uuid: str, index: int) -> Card:
    card = a_card(uuid, index, 8 * GIB, seed.choice((3, 4, 8)))
    if seed.random() < 0.2:
        geometry = seed.choice((A30ISH, ONE_LAYOUT))
        card = replace(card, mode=Mode.MIG, memory=4 * GIB, geometry=geometry)
    return replace(card, dialects=frozenset(seed.choice(((DIALECT,), (DIALECT, OTHER), (OTHER,)))))


def _pod(
    seed: Random, uid: str, names: list[str], compute: Sequence[int], least: int = 1
) -> PlannedPod:
    whole = seed.random() < 0.15
    container = ContainerRequest(
        "main",
        seed.choice((1, 1, 1, 1, 2)),
        memory=seed.choice((1, 1, 2, 2, 3, 4, 6) if least == 1 else (3, 4, 5, 6, 8)) * GIB,
        compute=FULL if whole else seed.choice(compute),
        exclusive=whole,
    )
    request = Request(
        uid,
        f"default/{uid}",
        seed.choice((DIALECT, DIALECT, OTHER)),
        (container,),
        modes=seed.choice((frozenset({Mode.SHARED}), MODES, MODES)),
    )
    nodes = names if seed.random() < 0.7 else seed.sample(names, 2)
    return PlannedPod(request, frozenset(nodes), {"cpu": seed.randint(1, 3)}, seed.randint(1, 4))

"""Values for tests, with everything said that a test does not care about."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from core.hardware.card import Card, Mode
from core.hardware.mig import Geometry, MigLayout, Slice, free_slices
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, AllocationState, Grant, Placement
from core.requests.request import ContainerRequest, Phase, Request

DIALECT = "tongue"

ONE_LAYOUT = Geometry(
    (
        MigLayout("quarters", tuple(Slice("1g", s, 1, GIB, 25, "quarters", s) for s in range(4))),
        MigLayout(
            "halves", tuple(Slice("2g", 2 * s, 2, 2 * GIB, 50, "halves", s) for s in range(2))
        ),
        MigLayout("whole", (Slice("4g", 0, 4, 4 * GIB, 100, "whole", 0),)),
    )
)
"""A card of 4 GiB that is cut in quarters, halves or not at all."""

A30ISH = replace(ONE_LAYOUT, mixed=True)
"""``ONE_LAYOUT``, where slices of several layouts may be in use."""


def a_card(uuid: str = "a", index: int = 0, memory: int = 16 * GIB, slots: int = 4) -> Card:
    return Card(
        uuid=uuid,
        node="n",
        index=index,
        vendor="nvidia",
        model="A100",
        memory=memory,
        slots=slots,
        dialects=frozenset({DIALECT}),
    )


def a_mig_card(uuid: str = "a", index: int = 0) -> Card:
    return replace(a_card(uuid, index, 4 * GIB, 7), mode=Mode.MIG, geometry=A30ISH)


def best_free_slice(
    geometry: Geometry, held: Sequence[Slice], memory: int, compute: int
) -> Slice | None:
    """The first of the ``free_slices``; None where there is none."""
    return next(iter(free_slices(geometry, held, memory, compute)), None)


def a_node(*cards: Card, name: str = "n") -> Node:
    return Node(name, tuple(replace(card, node=name) for card in cards))


def like_cards(count: int, prefix: str = "c", memory: int = 16 * GIB, slots: int = 4) -> list[Card]:
    return [a_card(f"{prefix}{index}", index, memory, slots) for index in range(count)]


def empty(*cards: Card, name: str = "n") -> NodeLedger:
    return NodeLedger.of(a_node(*cards, name=name))


def a_ledger(name: str = "n", cards: int = 2, memory: int = 16 * GIB) -> NodeLedger:
    """A node of equal cards, ``n-0`` and so on, of which no pod holds any."""
    return empty(*like_cards(cards, f"{name}-", memory), name=name)


def a_container(
    memory: int = GIB, count: int = 1, compute: int = 0, name: str = "main"
) -> ContainerRequest:
    return ContainerRequest(name, count, memory=memory, compute=compute)


def a_request(*containers: ContainerRequest, uid: str = "new") -> Request:
    return Request(uid, f"default/{uid}", DIALECT, containers or (a_container(),))


def a_grant(card: str = "a", memory: int = GIB, compute: int = 0, container: str = "main") -> Grant:
    return Grant(container, card, memory, compute)


def a_sliced_grant(
    start: int, size: int = 1, phase: Phase = Phase.MAIN, container: str = "main"
) -> Grant:
    """A slice of card ``a``, in units of a quarter of ``A30ISH``."""
    slot = Slice(f"{size}g", start, size, size * GIB, 25 * size, "x", start)
    return Grant(container, "a", slot.memory, slot.compute, phase=phase, slice=slot)


def held(*grants: Grant, uid: str = "old", node: str = "n") -> Allocation:
    return Allocation(uid, f"default/{uid}", DIALECT, node, grants)


def tentative(allocation: Allocation, expires: int | None = None) -> Allocation:
    return replace(allocation, state=AllocationState.RESERVED, expires=expires)


def unreadable(uid: str, cards: Iterable[str], node: str = "n") -> Allocation:
    return replace(
        held(uid=uid, node=node), unread="its record is not readable", blocked=frozenset(cards)
    )


def placed(ledger: NodeLedger, request: Request, result: object) -> NodeLedger:
    """The ledger after a result of ``fit``, which must be a placement."""
    assert isinstance(result, Placement)
    return ledger.reserve(Allocation.of(request, result))


def cards_of(result: object) -> Sequence[str]:
    assert isinstance(result, Placement)
    return [grant.card for grant in result.grants]

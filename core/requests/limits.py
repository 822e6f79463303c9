"""What one container may use of a node's cards, computed from its pod's grants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.hardware.card import Card
from core.hardware.mig import Slice
from core.hardware.quantity import FULL, MIB
from core.requests.grant import Grant


class GrantError(ValueError):
    """A grant that the node cannot apply: the grant and the node's cards disagree."""


@dataclass(frozen=True, slots=True)
class CardLimit:
    """What a container may use of one card.

    Attributes:
        index: the number that the node's own tools give it.
        memory: bytes.
        compute: percent; 0 where none is reserved.
        memory_limited: False where software need not limit the container's memory: it has the
            whole card's, or a MIG slice.
        compute_limited: False where software need not limit the container's compute: none is
            reserved, or all of it, or no other pod may use the card, or it is a MIG slice.
    """

    uuid: str
    index: int
    memory: int
    compute: int
    memory_limited: bool
    compute_limited: bool
    slice: Slice | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """All cards that a container may use; it may use no other.

    Attributes:
        cards: in the order in which the container sees them.
    """

    container: str
    cards: tuple[CardLimit, ...] = ()


def limits(grants: Sequence[Grant], container: str, present: Mapping[str, Card]) -> Limits:
    """Turn a pod's grants into the bounds of one of its containers.

    The limits include cards that are present but unhealthy. A container can have several slices of
    one card.

    Args:
        grants: all of the pod's, in the order in which its containers see them; one that names no
            container is for each of them.
        container: the container's name.
        present: the cards of the node, by uuid.

    Raises:
        GrantError: a card is not present, or is granted to the container twice, or is granted in
            an amount that no driver can limit.
    """
    cards: dict[tuple[str, Slice | None], CardLimit] = {}
    for grant in grants:
        if grant.container not in ("", container):
            continue
        if grant.card not in present:
            raise GrantError(f"container {container}: card {grant.card} is not on this node")
        known = [slot for uuid, slot in cards if uuid == grant.card]
        if known and (grant.slice is None or None in known or grant.slice in known):
            raise GrantError(f"container {container}: card {grant.card} is granted twice")
        card, shared = present[grant.card], grant.slice is None
        memory_limited = shared and grant.memory < card.memory
        if memory_limited and grant.memory < MIB:
            raise GrantError(
                f"{grant.memory} bytes of card {card.uuid} are granted, less than 1 MiB: drivers"
                " count MiB, and read 0 as no limit"
            )
        cards[grant.card, grant.slice] = CardLimit(
            uuid=card.uuid,
            index=card.index,
            memory=grant.memory,
            compute=grant.compute,
            memory_limited=memory_limited,
            compute_limited=shared and not grant.exclusive and 0 < grant.compute < FULL,
            slice=grant.slice,
        )
    return Limits(container, tuple(cards.values()))

"""What one container may use of a node's cards, from what its pod was granted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.hardware.card import Card
from core.hardware.mig import Slice
from core.hardware.quantity import FULL
from core.requests.grant import Grant


class GrantError(ValueError):
    """A grant that the node cannot honour: what was granted and what is there disagree."""


@dataclass(frozen=True, slots=True)
class CardLimit:
    """What a container may use of one card.

    Attributes:
        uuid: of the card.
        index: the number by which the node's own tools call it.
        memory: bytes.
        compute: percent; 0 where none is reserved.
        memory_limited: False where software need not hold the container to its memory: it has the
            whole card's, or a hardware slice.
        compute_limited: False where software need not hold the container to its compute: none is
            reserved, or all of it, or nobody else may use the card, or it is a hardware slice.
        slice: the hardware slice, on a card in MIG mode.
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
    """All that a container may use; a card that is not named here is not for it.

    Attributes:
        container: its name.
        cards: in the order in which the container shall see them.
    """

    container: str
    cards: tuple[CardLimit, ...] = ()


def limits(grants: Sequence[Grant], container: str, present: Mapping[str, Card]) -> Limits:
    """Turn a pod's grants into the bounds of one of its containers.

    A card that is present but unhealthy is still the container's.

    Args:
        grants: all of the pod's, in the order in which its containers shall see them; one that
            names no container is for each of them.
        container: the container's name.
        present: the cards of the node, by uuid.

    Raises:
        GrantError: a card is not present, or is granted to the container twice.
    """
    cards: dict[str, CardLimit] = {}
    for grant in grants:
        if grant.container not in ("", container):
            continue
        if grant.card not in present:
            raise GrantError(f"container {container}: card {grant.card} is not on this node")
        if grant.card in cards:
            raise GrantError(f"container {container}: card {grant.card} is granted twice")
        cards[grant.card] = _limit(grant, present[grant.card])
    return Limits(container, tuple(cards.values()))


def _limit(grant: Grant, card: Card) -> CardLimit:
    shared = grant.slice is None
    return CardLimit(
        uuid=card.uuid,
        index=card.index,
        memory=grant.memory,
        compute=grant.compute,
        memory_limited=shared and grant.memory < card.memory,
        compute_limited=shared and not grant.exclusive and 0 < grant.compute < FULL,
        slice=grant.slice,
    )

"""Whether a node and its cards suit a request at all, before anything is compared that changes."""

from core.hardware import mig
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.requests.reason import Cause, Obstacle, Reason
from core.requests.request import Request


def node_rejection(request: Request, node: Node) -> Reason | None:
    """Why a request never fits a node, whichever cards are free; None where its cards decide."""
    total = len(node.cards)
    if not total:
        return Reason(node.name, 0, cause=Cause.NO_CARDS)
    if not any(map(request.described, node.cards)):
        return Reason(node.name, total, cause=Cause.NO_DIALECT)
    if request.isolation is not None and request.isolation != node.isolation:
        return Reason(node.name, total, cause=Cause.ISOLATION)
    if _stacks(request, node):
        return None
    for container in request.containers:
        if container.count > total:
            return Reason(node.name, total, container.count, container.name, Cause.TOO_FEW)
    return None


def _stacks(request: Request, node: Node) -> bool:
    """Whether one card of a node can be several of the cards that a container asks for."""
    return (
        request.several_slices
        and Mode.MIG in request.modes
        and any(card.mode is Mode.MIG for card in node.cards)
    )


def unsuitable(request: Request, card: Card) -> Cause | None:
    """Why a card never suits a request, free or not; None where it suits."""
    if not request.described(card):
        return Cause.DIALECT
    if not card.healthy:
        return Cause.UNHEALTHY
    if request.vendor is not None and request.vendor != card.vendor:
        return Cause.VENDOR
    if card.mode not in request.modes:
        return Cause.MODE
    if card.uuid in request.deny_uuids:
        return Cause.UUID
    if request.allow_uuids is not None and card.uuid not in request.allow_uuids:
        return Cause.UUID
    return None if _type_allowed(request, card) else Cause.TYPE


def slice_obstacle(card: Card, memory: int, compute: int) -> Obstacle:
    """Why no slice of a card in MIG mode suits: none is free, or none is large enough."""
    large_enough = mig.free_slices(card.geometry, (), memory)
    if not large_enough:
        return Obstacle(Cause.NO_PROFILE)
    most = max(slot.compute for slot in large_enough)
    return Obstacle(Cause.NO_SLICE) if most >= compute else Obstacle(Cause.COMPUTE, compute - most)


def _type_allowed(request: Request, card: Card) -> bool:
    if request.allow_types is None and not request.deny_types:
        return True
    names = [name.lower() for name in (*card.names, card.model)]
    if request.allow_types is not None and not any(
        allowed.lower() in name for allowed in request.allow_types for name in names
    ):
        return False
    return not any(denied.lower() in name for denied in request.deny_types for name in names)

"""The places that a plan of moves keeps, as holds of the nodes' ledgers."""

from collections.abc import Mapping
from dataclasses import replace

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.wire.records.allocation import read_grant
from adapters.wire.records.move_plan import (
    MovePlace,
    MovePlanSpec,
    PlannedTarget,
    TargetKind,
)
from core.ledger.hold import Hold
from core.requests.grant import Allocation, Placement
from core.requests.request import Request

STAYS_EMPTY = "a plan of moves keeps the node empty"

NAMED_AGAIN = "StatefulSet"
"""Kind of the controllers whose pods keep their names.
Source: kubernetes pkg/controller/statefulset/stateful_set_utils.go, getPodName."""

Changes = list[str | Hold]
"""Uids of pods that leave a node, and places that are kept there, in order."""


def move_hold(plan: str, number: int) -> str:
    """Return the uid of the hold for a move, by its number from 1; they sort by the number."""
    return f"{plan}-{number:04}"


def target_hold(plan: str, position: int) -> str:
    """Return the uid of the hold for a target, by its position from 0."""
    return f"{plan}-target-{position:04}"


def placement(place: MovePlace) -> Placement:
    """Return the cards of a place."""
    return Placement(place.node, tuple(map(read_grant, place.grants)))


def changes_by_node(
    plan: str, spec: MovePlanSpec, requests: Mapping[str, Request], ledgers: LedgerCache
) -> dict[str, Changes]:
    """Return what has to happen on each node, in order: who leaves, and which places are kept.

    Args:
        plan: the plan's uid.
        spec: its spec.
        requests: by uid, of its pods: which other pods may share their cards.
        ledgers: of the nodes; of a node that is to be empty, all cards are kept.
    """
    changes: dict[str, Changes] = {}

    def keep_targets_after(step: int) -> None:
        for position, target in enumerate(spec.targets):
            if target.after_step == step:
                uid = target_hold(plan, position)
                hold = _for_target(plan, uid, target, requests.get(target.uid), ledgers)
                changes.setdefault(hold.allocation.node, []).append(hold)

    keep_targets_after(0)
    for number, move in enumerate(spec.moves, start=1):
        allocation = Allocation.of(requests[move.uid], placement(move.to))
        kept = replace(allocation, uid=move_hold(plan, number))
        by_name = move.controller.kind == NAMED_AGAIN
        hold = Hold(plan, move.controller.uid, by_name, kept)
        changes.setdefault(move.from_.node, []).append(move.uid)
        changes.setdefault(move.to.node, []).append(hold)
        keep_targets_after(number)
    return changes


def _for_target(
    plan: str, uid: str, target: PlannedTarget, request: Request | None, ledgers: LedgerCache
) -> Hold:
    name = f"({target.kind.value.lower()} {target.name})"
    if target.place is None:
        ledger = ledgers.inventory.get(target.name)
        cards = () if ledger is None else ledger.node.cards
        every = frozenset(card.uuid for card in cards)
        kept = Allocation(uid, name, "", target.name, (), unread=STAYS_EMPTY, blocked=every)
        return Hold(plan, "", by_name=False, allocation=kept)
    place = placement(target.place)
    if target.kind is not TargetKind.POD or request is None:
        kept = Allocation(uid, name, "", place.node, place.grants)
        return Hold(plan, "", by_name=False, allocation=kept)
    kept = replace(Allocation.of(request, place), uid=uid)
    return Hold(plan, target.uid, by_name=False, allocation=kept)

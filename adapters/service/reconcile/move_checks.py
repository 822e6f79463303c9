"""The places that a plan of moves keeps, and why a part of it is not what the cluster has now."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from adapters.accounting.movable import BY_CLAIM, IN_GANG, controller, hindrance
from adapters.answer.node_rules import node_rule
from adapters.dialects.dialect import DialectError
from adapters.service.decide.commit.validate import are_linked, is_asked
from adapters.service.decide.service import Service
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.wire.kube import Pod
from adapters.wire.records import move_plan
from adapters.wire.records.allocation import read_grant
from core.feasibility.suitability import kubelet_chooses
from core.ledger.node_ledger import Hold
from core.quota.amounts import amounts_of
from core.requests.grant import Allocation, Placement
from core.requests.request import PodRef, Request

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


def placement(place: move_plan.MovePlace) -> Placement:
    """Return the cards of a place."""
    return Placement(place.node, tuple(map(read_grant, place.grants)))


def changes_by_node(
    plan: str, spec: move_plan.MovePlanSpec, requests: Mapping[str, Request], ledgers: LedgerCache
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
            if target.after_step != step:
                continue
            uid, holder = target_hold(plan, position), ""
            name, place = f"({target.kind.value.lower()} {target.name})", target.place
            request = requests.get(target.uid)
            if place is None:
                ledger = ledgers.inventory.get(target.name)
                cards = () if ledger is None else ledger.node.cards
                every = frozenset(card.uuid for card in cards)
                kept = Allocation(uid, name, "", target.name, (), unread=STAYS_EMPTY, blocked=every)
            elif target.kind is not move_plan.TargetKind.POD or request is None:
                kept = Allocation(uid, name, "", place.node, placement(place).grants)
            else:
                kept = replace(Allocation.of(request, placement(place)), uid=uid)
                holder = target.uid
            hold = Hold(plan, holder, by_name=False, allocation=kept)
            changes.setdefault(kept.node, []).append(hold)

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


@dataclass(frozen=True, slots=True)
class Gone:
    """The pod of a move is deleted, or about to be: nothing is left to evict."""


class PlanError(ValueError):
    """The plan cannot be carried out; the text says which part, and why."""


async def check_move(service: Service, move: move_plan.PlannedMove) -> Request | Gone:
    """Return what the pod of a move requests.

    Raises:
        PlanError: the move is not what the plan says any more, or the pod must not be moved.
        OSError: the cluster did not answer.
    """
    name = f"{move.namespace}/{move.pod}"
    pod = await service.ports.pods.newest(PodRef(move.namespace, move.pod, move.uid))
    if pod is None or pod.metadata.uid != move.uid or pod.metadata.deletion_timestamp:
        return Gone()
    if pod.spec.node_name != move.from_.node:
        raise PlanError(f"{name} is on {pod.spec.node_name or 'no node'}, not {move.from_.node}")
    gang, why = service.ports.gangs.gang(pod), hindrance(pod)
    if not why and gang is not None and gang.minimum > 1:
        why = IN_GANG
    if not why and service.ports.objects.claims.of_pod(pod.metadata.uid):
        why = BY_CLAIM
    if why:
        raise PlanError(f"{name} stays: {why}")
    owner = controller(pod)
    if owner is None or owner.uid != move.controller.uid:
        raise PlanError(f"{name} has another controller than the plan says")
    ledger = service.ledgers.inventory.get(move.from_.node)
    if ledger is None or move.uid not in ledger.allocations:
        raise PlanError(f"{name} has no cards of {move.from_.node}")
    return _request(service, pod, name, move.to)


async def check_target(service: Service, target: move_plan.PlannedTarget) -> Request | None:
    """Return what a pod requests for which a plan makes room; None for other targets.

    Raises:
        PlanError: it is gone or bound, or its place is not what it requests.
        OSError: the cluster did not answer.
    """
    if target.place is None or not target.uid:
        return None
    name = f"{target.namespace}/{target.name}"
    pod = await waiting_pod(service, target)
    if pod is None:
        raise PlanError(f"{name}, for which the plan makes room, is gone or bound")
    return _request(service, pod, name, target.place)


async def waiting_pod(service: Service, target: move_plan.PlannedTarget) -> Pod | None:
    """Return the pod for which a plan makes room, if not bound; None where it is gone.

    Raises:
        OSError: the cluster did not answer.
    """
    pod = await service.ports.pods.newest(PodRef(target.namespace, target.name, target.uid))
    if pod is None or pod.metadata.uid != target.uid or pod.metadata.deletion_timestamp:
        return None
    return None if pod.spec.node_name else pod


def _request(service: Service, pod: Pod, name: str, place: move_plan.MovePlace) -> Request:
    """Return what a pod requests, if its place is just that, and it could be bound there.

    Raises:
        PlanError: it requests something else, or nothing, or its node or its quota refuses it.
    """
    objects = service.ports.objects
    node = objects.nodes().get(place.node)
    if node is None and objects.has_all_nodes:
        raise PlanError(f"{name}: node {place.node} is gone")
    rule = None if node is None else node_rule(pod, node)
    if rule is not None:
        raise PlanError(f"{name} cannot run on {place.node}: {rule.text()}")
    try:
        found = service.pod_requests.read(pod)
    except DialectError as error:
        raise PlanError(f"{name}: {error}") from error
    ledger = service.ledgers.inventory.get(place.node)
    if ledger is None:
        raise PlanError(f"{name}: node {place.node} has no ledger")
    if found is None or kubelet_chooses(found.request, ledger.node.cards):
        raise PlanError(f"{name} requests no cards that the ledger chooses on {place.node}")
    request, grants = found.request, placement(place).grants
    if not is_asked(request, grants, ledger.node) or not are_linked(request, grants, ledger.node):
        raise PlanError(f"{name}: its place on {place.node} is not what it requests")
    kept = Allocation.of(request, placement(place))
    short = service.quotas.refusal_of(kept.pod_ref, amounts_of(kept, ledger.node), (request.uid,))
    if short is not None:
        raise PlanError(f"{name} would get no cards: {short}")
    return request

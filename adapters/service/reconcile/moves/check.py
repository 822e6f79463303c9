"""Why a move, or a target of a plan of moves, is not what the cluster has any more."""

from dataclasses import dataclass

from adapters.accounting.movable import controller, hindrance
from adapters.answer.node_rules import node_rule
from adapters.dialects.dialect import DialectError
from adapters.service.decide.commit.validate import are_linked, is_asked
from adapters.service.decide.service import Service
from adapters.service.reconcile.moves.places import placement
from adapters.wire.kube import Pod
from adapters.wire.records.move_plan import MovePlace, PlannedMove, PlannedTarget
from core.feasibility.suitability import kubelet_chooses
from core.quota.amounts import amounts_of
from core.requests.grant import Allocation
from core.requests.request import PodRef, Request


@dataclass(frozen=True, slots=True)
class Gone:
    """The pod of a move is deleted, or about to be: nothing is left to evict."""


class PlanError(ValueError):
    """The plan cannot be carried out; the text says which part, and why."""


async def check_move(service: Service, move: PlannedMove) -> Request | Gone:
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
    why = hindrance(pod) or _bound_together(service, pod)
    if why:
        raise PlanError(f"{name} stays: {why}")
    owner = controller(pod)
    if owner is None or owner.uid != move.controller.uid:
        raise PlanError(f"{name} has another controller than the plan says")
    ledger = service.ledgers.inventory.get(move.from_.node)
    if ledger is None or move.uid not in ledger.allocations:
        raise PlanError(f"{name} has no cards of {move.from_.node}")
    return _request(service, pod, name, move.to)


async def check_target(service: Service, target: PlannedTarget) -> Request | None:
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


async def waiting_pod(service: Service, target: PlannedTarget) -> Pod | None:
    """Return the pod for which a plan makes room, if not bound; None where it is gone.

    Raises:
        OSError: the cluster did not answer.
    """
    pod = await service.ports.pods.newest(PodRef(target.namespace, target.name, target.uid))
    if pod is None or pod.metadata.uid != target.uid or pod.metadata.deletion_timestamp:
        return None
    return None if pod.spec.node_name else pod


def _bound_together(service: Service, pod: Pod) -> str:
    gang = service.ports.gangs.gang(pod)
    if gang is not None and gang.minimum > 1:
        return "is in a gang, which would lose a member"
    if service.ports.objects.claims_of(pod.metadata.uid):
        return "a ResourceClaim has the cards"
    return ""


def _request(service: Service, pod: Pod, name: str, place: MovePlace) -> Request:
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

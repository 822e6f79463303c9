"""A plan of moves as the object ``MovePlan``: what is carried out, and a report beside it."""

from collections.abc import Iterator
from hashlib import sha256

import msgspec

from adapters.cli.defrag.planning import MoveTarget, Planned
from adapters.cli.defrag.report import cards_of, owner_of
from adapters.wire.kube import pod_ref
from adapters.wire.records.allocation import grant_record
from adapters.wire.records.move_plan import (
    API_VERSION,
    KIND,
    MoveController,
    MovePlace,
    MovePlanSpec,
    PlannedMove,
    PlannedTarget,
    TargetKind,
)
from core.hardware.quantity import MIB
from core.requests.grant import Grant

Plain = dict[str, object]

PREFIX = "defrag-"


def as_object(plan: Planned) -> Plain:
    """Return the plan for programs; amounts of its report are MiB and percent."""
    spec = MovePlanSpec(tuple(_moves(plan)), tuple(_targets(plan)))
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name_of(spec)},
        "spec": msgspec.to_builtins(spec),
        "report": _report(plan),
    }


def name_of(spec: MovePlanSpec) -> str:
    """Return the name of a plan: that of the same plan is the same."""
    return f"{PREFIX}{sha256(msgspec.json.encode(spec)).hexdigest()[:8]}"


def _moves(plan: Planned) -> Iterator[PlannedMove]:
    for move in plan.moves:
        holder = plan.holders[move.pod.request.uid]
        ref, owner = pod_ref(holder.pod), holder.owner
        yield PlannedMove(
            namespace=ref.namespace,
            pod=ref.name,
            uid=ref.uid,
            dialect=move.pod.request.dialect,
            controller=MoveController(owner.kind, owner.name, owner.uid),
            from_=_place(move.source, plan.before[move.source].allocations[ref.uid].grants),
            to=_place(move.target.node, move.target.grants),
            priority=move.pod.request.priority,
            started=holder.pod.status.start_time or "",
            cost=move.pod.weight,
        )


def _targets(plan: Planned) -> Iterator[PlannedTarget]:
    """Yield the targets that fit, without pods whose cards a device plugin chooses."""
    for target in plan.targets:
        place = target.place
        has_place = place is not None and bool(place.grants)
        if target.after is not None and (has_place or target.kind is TargetKind.NODE):
            yield PlannedTarget(
                kind=target.kind,
                name=target.name,
                after_step=target.after,
                namespace=target.namespace,
                uid=target.uid,
                place=None if place is None else _place(place.node, place.grants),
            )


def _place(node: str, grants: tuple[Grant, ...]) -> MovePlace:
    return MovePlace(node, tuple(map(grant_record, grants)))


def _report(plan: Planned) -> Plain:
    return {
        "complete": plan.complete,
        "cost": plan.cost,
        "bound": plan.bound,
        "optimal": plan.optimal,
        "cut": plan.cut,
        "endedAfterSeconds": plan.seconds,
        "states": plan.states,
        "mostTargets": plan.most,
        "moves": [*_moves_for_people(plan)],
        "targets": [_target_for_people(target, plan) for target in plan.targets],
        "freeShares": [
            {
                "model": each.model,
                "largestMiB": _both(each.largest, MIB),
                "idleCards": _both(each.idle),
            }
            for each in plan.gain.models
        ],
        "fragmentation": _both(plan.gain.fragmentation),
        "emptyNodes": _both(plan.gain.empty),
        "staying": dict(plan.staying),
        "notCompared": list(plan.unknown),
    }


def _moves_for_people(plan: Planned) -> Iterator[Plain]:
    for number, move in enumerate(plan.moves, start=1):
        holder = plan.holders[move.pod.request.uid]
        old, target = plan.before[move.source], move.target
        grants = old.allocations[move.pod.request.uid].grants
        yield {
            "step": number,
            "pod": str(pod_ref(holder.pod)),
            "controller": owner_of(holder),
            "from": cards_of(move.source, grants, old),
            "to": cards_of(target.node, target.grants, plan.before[target.node]),
        }


def _target_for_people(target: MoveTarget, plan: Planned) -> Plain:
    place = target.place
    at = None if place is None else cards_of(place.node, place.grants, plan.before[place.node])
    return {
        "name": target.title,
        "dialect": target.dialect,
        "fits": not target.reason,
        "afterStep": target.after,
        "place": at,
        "reason": target.reason,
    }


def _both(values: tuple[int, int], unit: int = 1) -> dict[str, int]:
    before, after = values
    return {"before": before // unit, "after": after // unit}

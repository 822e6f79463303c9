"""A plan of moves as a table for people, and as the object ``MovePlan`` for programs."""

from collections.abc import Iterator
from hashlib import sha256

import msgspec

from adapters.answer.words import reason_lines
from adapters.cli.defrag.movable import MovablePod
from adapters.cli.defrag.planning import MoveTarget, Planned
from adapters.cli.output.rows import Row, columns, table
from adapters.wire.kube import pod_ref
from adapters.wire.records import move_plan
from adapters.wire.records.allocation import grant_record
from adapters.wire.visible import visible
from core.hardware.quantity import MIB
from core.hardware.quantity import format_gib as gib
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant

Plain = dict[str, object]

NAMED = 3
"""Claims that are named in a line."""

_COLUMNS = (
    *columns("STEP", right=True),
    *columns("NAMESPACE", "POD", "FROM", "TO"),
    *columns("PRIORITY", right=True),
    *columns("CONTROLLER", "STARTED"),
    *columns("COST", right=True),
)


def as_text(plan: Planned) -> str:
    """Return the moves, each target after those that make room for it, and what they gain."""
    targets = [target for target in plan.targets if target.after is not None]
    rows: list[Row] = []
    for number, move in enumerate(plan.moves):
        rows += [_target_row(each, plan) for each in targets if each.after == number]
        holder = plan.holders[move.pod.request.uid]
        ref = pod_ref(holder.pod)
        old = plan.before[move.source]
        cells = (
            str(number + 1), ref.namespace, ref.name,
            cards_of(move.source, old.allocations[ref.uid].grants, old),
            cards_of(move.target.node, move.target.grants, plan.before[move.target.node]),
            str(move.pod.request.priority), owner_of(holder), holder.pod.status.start_time or "",
            str(move.pod.weight),
        )  # fmt: skip
        rows.append(Row(f"pod/{ref.name}", cells, {}))
    rows += [_target_row(each, plan) for each in targets if each.after == len(plan.moves)]
    steps = f"{table(_COLUMNS, rows)}\n" if rows else ""
    return steps + "".join(f"{visible(line)}\n" for line in _lines(plan))


def _target_row(target: MoveTarget, plan: Planned) -> Row:
    """Return the row of a pod that fits, or a node that is empty, after the moves above."""
    place, name = target.place, target.name
    if place is None:  # a node
        return Row(name, ("empty", "", "", name, "", "", "", "", ""), {})
    to = cards_of(place.node, place.grants, plan.before[place.node])
    return Row(name, ("fits", target.namespace, name, "", to, "", "", "", ""), {})


def owner_of(holder: MovablePod) -> str:
    """Return the controller of a pod, such as ``ReplicaSet/web``."""
    return f"{holder.owner.kind}/{holder.owner.name}"


def cards_of(node: str, grants: tuple[Grant, ...], ledger: NodeLedger) -> str:
    """Return a place for people, such as ``gpu-1/0,1``; ``?`` is a card that nothing describes."""
    if not grants:  # a device plugin chooses the cards
        return node
    indexes = {card.uuid: str(card.index) for card in ledger.node.cards}
    cards = dict.fromkeys(indexes.get(grant.card, "?") for grant in grants)
    return f"{node}/{','.join(cards)}"


def _lines(plan: Planned) -> Iterator[str]:
    fits = sum(not target.reason for target in plan.targets)
    most = f"; at most {plan.most} can" if fits < plan.most < len(plan.targets) else ""
    yield f"targets: {fits} of {len(plan.targets)} fit after the moves{most}"
    if plan.free:
        yield f"now: {plan.free} of {len(plan.targets)} fit without a move"
    for target in plan.targets:
        if target.reason:
            first, *groups = reason_lines(target.reason)
            yield f"  {target.title}: {first}"
            yield from (f"  {each}" for each in groups)
    if plan.moves:
        count = len(plan.moves)
        deleted = f"{count} {'pod is' if count == 1 else 'pods are'} deleted and created again"
        least = f"the cheapest plan may cost {plan.bound} or more"
        least = "no plan costs less" if plan.optimal else least
        yield f"moves: {deleted}; cost {plan.cost}, {least}"
    if plan.with_claims is not None:
        one, every = plan.with_claims, len(plan.targets)
        pods = "1 pod" if len(one.claims) == 1 else f"{len(one.claims)} pods"
        names = ", ".join(one.claims[:NAMED]) + (", ..." if len(one.claims) > NAMED else "")
        after = "1 move" if one.moves == 1 else f"{one.moves} moves"
        fit = f"{one.targets} of {every} fit after {after} ({names})"
        yield f"with the claims of {pods} moved as well: {fit}"
    if plan.seconds is not None:
        yield f"time: the search ended after {plan.seconds:g} s (--seconds)"
    for each in plan.gain.models:
        before, after = (gib(amount) for amount in each.largest)
        yield (
            f"{each.model}: largest free share {_change(before, after)} GiB,"
            f" idle cards {_change(*map(str, each.idle))}"
        )
    yield f"fragmentation: {_change(*(f'{each}%' for each in plan.gain.fragmentation))}"
    if plan.staying:
        ordered = sorted(plan.staying.items(), key=lambda each: (-each[1], each[0]))
        counted = ", ".join(f"{number} ({reason})" for reason, number in ordered)
        yield f"kept where they are: {counted}"
    yield from (f"not compared: {each}" for each in plan.unknown)


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def as_object(plan: Planned) -> Plain:
    """Return the object ``MovePlan``, and a report beside it with amounts in MiB and percent."""
    spec = spec_of(plan)
    moves: list[Plain] = []
    for number, (move, planned) in enumerate(zip(plan.moves, spec.moves, strict=True), start=1):
        uid, old, to = move.pod.request.uid, plan.before[move.source], move.target
        moves.append(
            {
                "step": number,
                "pod": f"{planned.namespace}/{planned.pod}",
                "controller": owner_of(plan.holders[uid]),
                "from": cards_of(move.source, old.allocations[uid].grants, old),
                "to": cards_of(to.node, to.grants, plan.before[to.node]),
            }
        )
    targets: list[Plain] = []
    for target in plan.targets:
        at = target.place
        targets.append(
            {
                "name": target.title,
                "dialect": target.dialect,
                "fits": not target.reason,
                "afterStep": target.after,
                "place": at and cards_of(at.node, at.grants, plan.before[at.node]),
                "reason": target.reason,
            }
        )
    report = {
        "complete": plan.complete,
        "cost": plan.cost,
        "bound": plan.bound,
        "optimal": plan.optimal,
        "cut": plan.cut,
        "endedAfterSeconds": plan.seconds,
        "states": plan.states,
        "mostTargets": plan.most,
        "moves": moves,
        "targets": targets,
        "freeShares": [
            {
                "model": each.model,
                "largestMiB": _both(each.largest, MIB),
                "idleCards": _both(each.idle),
            }
            for each in plan.gain.models
        ],
        "withClaims": msgspec.to_builtins(plan.with_claims),
        "fragmentation": _both(plan.gain.fragmentation),
        "emptyNodes": _both(plan.gain.empty),
        "staying": dict(plan.staying),
        "notCompared": list(plan.unknown),
    }
    return {
        "apiVersion": move_plan.API_VERSION,
        "kind": move_plan.KIND,
        "metadata": {"name": name_of(spec)},
        "spec": msgspec.to_builtins(spec),
        "report": report,
    }


def name_of(spec: move_plan.MovePlanSpec) -> str:
    """Return the name of a plan: that of the same plan is the same."""
    return f"defrag-{sha256(msgspec.json.encode(spec)).hexdigest()[:8]}"


def spec_of(plan: Planned) -> move_plan.MovePlanSpec:
    """Return what is carried out, without targets whose cards a device plugin chooses."""
    moves: list[move_plan.PlannedMove] = []
    for move in plan.moves:
        request, holder = move.pod.request, plan.holders[move.pod.request.uid]
        ref, owner = pod_ref(holder.pod), holder.owner
        grants = plan.before[move.source].allocations[ref.uid].grants
        moves.append(
            move_plan.PlannedMove(
                namespace=ref.namespace,
                pod=ref.name,
                uid=ref.uid,
                dialect=request.dialect,
                controller=move_plan.MoveController(owner.kind, owner.name, owner.uid),
                from_=_place(move.source, grants),
                to=_place(move.target.node, move.target.grants),
                priority=request.priority,
                started=holder.pod.status.start_time or "",
                cost=move.pod.weight,
            )
        )
    targets = tuple(
        move_plan.PlannedTarget(
            kind=target.kind,
            name=target.name,
            after_step=target.after,
            namespace=target.namespace,
            uid=target.uid,
            place=None if target.place is None else _place(target.place.node, target.place.grants),
        )
        for target in plan.targets
        if target.after is not None
        and (
            target.kind is move_plan.TargetKind.NODE
            or (target.place is not None and target.place.grants)
        )
    )
    return move_plan.MovePlanSpec(tuple(moves), targets)


def _place(node: str, grants: tuple[Grant, ...]) -> move_plan.MovePlace:
    return move_plan.MovePlace(node, tuple(map(grant_record, grants)))


def _both(values: tuple[int, int], unit: int = 1) -> dict[str, int]:
    before, after = values
    return {"before": before // unit, "after": after // unit}

"""A plan of moves as a table, for people."""

from collections.abc import Iterator

from adapters.cli.defrag.movable import MovablePod
from adapters.cli.defrag.planning import MoveTarget, Planned
from adapters.cli.output.amounts import gib
from adapters.cli.output.rows import Row, columns, table
from adapters.wire.kube import pod_ref
from adapters.wire.visible import visible
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant

_COLUMNS = (
    *columns("STEP", right=True),
    *columns("NAMESPACE", "POD", "FROM", "TO"),
    *columns("PRIORITY", right=True),
    *columns("CONTROLLER", "STARTED"),
    *columns("COST", right=True),
)

PLACED = "fits"
"""The step of a pod that waits and fits after the moves above."""

EMPTIED = "empty"
"""The step of a node that has no pod with cards after the moves above."""


def as_text(plan: Planned) -> str:
    """Return the steps, and what they cost and gain."""
    rows = [*_rows(plan)]
    steps = f"{table(_COLUMNS, rows)}\n" if rows else ""
    return steps + "".join(f"{visible(line)}\n" for line in _lines(plan))


def _rows(plan: Planned) -> Iterator[Row]:
    """Yield the moves in order, each target after the moves that make room for it."""
    targets = [target for target in plan.targets if target.after is not None]
    for number, move in enumerate(plan.moves):
        yield from (_target_row(each, plan) for each in targets if each.after == number)
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
        yield Row(f"pod/{ref.name}", cells, {})
    yield from (_target_row(each, plan) for each in targets if each.after == len(plan.moves))


def _target_row(target: MoveTarget, plan: Planned) -> Row:
    place, name = target.place, target.name
    if place is None:
        return Row(name, (EMPTIED, "", "", name, "", "", "", "", ""), {})
    to = cards_of(place.node, place.grants, plan.before[place.node])
    return Row(name, (PLACED, target.namespace, name, "", to, "", "", "", ""), {})


def owner_of(holder: MovablePod) -> str:
    """Return the controller of a pod, such as ``ReplicaSet/web``."""
    return f"{holder.owner.kind}/{holder.owner.name}"


def cards_of(node: str, grants: tuple[Grant, ...], ledger: NodeLedger) -> str:
    """Return a place for people, such as ``gpu-1:0,1``; ``?`` is a card that nothing describes."""
    indexes = {card.uuid: str(card.index) for card in ledger.node.cards}
    cards = dict.fromkeys(indexes.get(grant.card, "?") for grant in grants)
    return f"{node}:{','.join(cards)}"


def _lines(plan: Planned) -> Iterator[str]:
    fits = sum(not target.reason for target in plan.targets)
    most = f"; at most {plan.most} can" if fits < plan.most < len(plan.targets) else ""
    yield f"targets: {fits} of {len(plan.targets)} fit after the moves{most}"
    for target in plan.targets:
        if target.reason:
            yield f"  {target.title}: {target.reason}"
    if plan.moves:
        count = len(plan.moves)
        deleted = f"{count} {'pod is' if count == 1 else 'pods are'} deleted and created again"
        than = "" if plan.optimal else f" than {plan.bound}"
        yield f"moves: {deleted}; cost {plan.cost}, no plan costs less{than}"
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

"""Plans of moves: how far each is, and a picture of the nodes that it changes.

They are read when a person looks at them, and never otherwise. The author of a plan chooses its
content: a part that cannot be used is a problem, which the view names, and no name in it is
trusted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from adapters.accounting.moves_picture import picture
from adapters.cluster.api import timestamps
from adapters.service.web.dashboard.rows import MAX_DIGITS, Window, number
from adapters.wire.records import move_plan
from adapters.wire.records.allocation import read_grant
from adapters.wire.visible import visible
from core.feasibility.inventory import Inventory
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation

FRESH = 5.0
"""Seconds for which an answer of the API server is shown again; the page asks every five."""

PATIENCE = 3.0
"""Seconds for which the API server may take."""

PLANS = 10
"""Plans of one answer, each with up to 512 moves."""

View = dict[str, object]

PlanSource = Callable[[], Awaitable[Sequence[move_plan.MovePlanObject]]]
"""Lists all plans; raises OSError."""


@dataclass(frozen=True, slots=True)
class RecentPlans:
    """The plans as they were a few seconds ago, in any order, or why they are not known."""

    plans: Sequence[move_plan.MovePlanObject] = ()
    problem: str = ""


class PlanReader:
    """Asks the API server once for all who ask within ``FRESH``."""

    def __init__(self, source: PlanSource, now: Callable[[], float] = monotonic) -> None:
        self._source = source
        self._now = now
        self._until = 0.0
        self._asking: asyncio.Task[RecentPlans] | None = None

    async def read(self) -> RecentPlans:
        """Return what the API server said last, or ask it."""
        task = self._asking
        if task is None or (task.done() and self._now() >= self._until):
            self._until = self._now() + FRESH
            task = self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(task)

    async def _ask(self) -> RecentPlans:
        try:
            async with asyncio.timeout(PATIENCE):
                return RecentPlans(await self._source())
        except TimeoutError:
            return RecentPlans(problem=f"no answer in {PATIENCE:.0f} s")
        except OSError as error:
            return RecentPlans(problem=str(error))


async def moves(inventory: Inventory, recent: RecentPlans, query: Mapping[str, str]) -> View:
    """Return the plans from ``offset`` on, the newest first; with ``pod``, those that are for it.

    Raises:
        QueryError: the offset is invalid.
    """
    window = Window(number(query, "offset", 0, 10**MAX_DIGITS), PLANS)
    newest = sorted(
        (plan for plan in recent.plans if "pod" not in query or _is_for(plan, query["pod"])),
        key=lambda plan: (plan.metadata.creation_timestamp, plan.metadata.name),
        reverse=True,
    )
    rows: list[View] = []
    for plan in window.part(newest):
        rows.append(_plan(plan, inventory))
        await asyncio.sleep(0)
    return {"total": len(newest), "problem": visible(recent.problem), "rows": rows}


def _is_for(plan: move_plan.MovePlanObject, pod: str) -> bool:
    try:
        return any(
            f"{each.namespace}/{each.name}" == pod for each in move_plan.read_spec(plan).targets
        )
    except move_plan.MovePlanRecordError:
        return False


def plan_picture(inventory: Inventory, recent: RecentPlans, name: str) -> str | None:
    """Return the picture of a plan; None where there is no such plan, or it is invalid.

    Before is what ``spec`` says of the moved pods, after what it says of them and of the targets;
    of the other pods, both have what the ledgers have now.
    """
    plan = next((each for each in recent.plans if each.metadata.name == name), None)
    if plan is None:
        return None
    try:
        spec, status = move_plan.read_spec(plan), move_plan.read_status(plan)
    except move_plan.MovePlanRecordError:
        return None
    before: dict[str, list[Allocation]] = {node: [] for node in _nodes(spec)}
    after: dict[str, list[Allocation]] = {node: [] for node in before}
    for move in spec.moves:
        pod = f"{move.namespace}/{move.pod}"
        before[move.from_.node].append(_allocation(move.uid, pod, move.from_))
        after[move.to.node].append(_allocation(move.uid, pod, move.to))
    for position, target in enumerate(spec.targets):
        if target.place is not None:
            named = f"{target.namespace}/{target.name}" if target.namespace else target.name
            uid = target.uid or f"target-{position}"
            after[target.place.node].append(_allocation(uid, named, target.place))
    ledgers = {node: found for node in before if (found := inventory.get(node)) is not None}
    # No part of the plan are the others: not its pods, their successors, and its holds.
    planned = {move.uid for move in spec.moves} | {target.uid for target in spec.targets}
    for hold in (hold for ledger in ledgers.values() for hold in ledger.holds):
        if hold.plan == plan.metadata.uid:
            planned |= {hold.id, hold.taken_by}
    came = {
        f"{spec.moves[each.step - 1].namespace}/{each.replacement}"
        for each in status.steps
        if each.step <= len(spec.moves)
    }

    def with_others(own: Mapping[str, list[Allocation]]) -> dict[str, NodeLedger]:
        """Put first what the plan says, which is exact: the others may exceed the card by now."""
        return {
            node: NodeLedger.restored(
                ledger.node,
                [
                    *own[node],
                    *(
                        each
                        for each in ledger.allocations.values()
                        if each.uid not in planned and each.pod not in came
                    ),
                ],
            )
            for node, ledger in ledgers.items()
        }

    return picture(with_others(before), with_others(after), {move.uid for move in spec.moves})


def _plan(plan: move_plan.MovePlanObject, inventory: Inventory) -> View:
    """Return a plan with the state of each move, and the time at which it came to be in it."""
    view: View = {
        "name": visible(plan.metadata.name),
        "created": _time(plan.metadata.creation_timestamp),
        "problem": "",
        "phase": "",
        "step": 0,
        "reason": "",
        "updated": None,
        "moves": [],
        "picture": None,
    }
    try:
        status = move_plan.read_status(plan)
        view["phase"], view["step"] = status.phase.value, status.step
        view["reason"], view["updated"] = visible(status.reason), _time(status.updated_at)
        spec = move_plan.read_spec(plan)
    except move_plan.MovePlanRecordError as error:
        return {**view, "problem": visible(str(error))}
    nodes = _nodes(spec)
    ledgers = [found for node in nodes if (found := inventory.get(node)) is not None]
    unknown = [node for node in nodes if inventory.get(node) is None]
    version = sum(ledger.version for ledger in ledgers)
    begun = {each.step: each for each in status.steps}
    shown: list[View] = []
    for step, move in enumerate(spec.moves, start=1):
        done = begun.get(step)
        if done is None:
            state, at = "stays" if status.phase.has_ended else "waits", ""
        elif done.skipped:
            state, at = "skipped", done.evicted_at
        elif done.ready_at:
            state, at = "ready", done.ready_at
        elif done.evicted_at:
            state, at = "evicted", done.evicted_at
        else:
            state, at = "evicting", done.begun_at
        came = visible(done.replacement) if done is not None else ""
        shown.append(
            {
                "step": step,
                "pod": f"{move.namespace}/{move.pod}",
                "from": move.from_.node,
                "to": move.to.node,
                "state": state,
                "replacement": f"{move.namespace}/{came}" if came else "",
                "at": _time(at),
            }
        )
    return {
        **view,
        "problem": f"there is no ledger of node {unknown[0]}" if unknown else "",
        "moves": shown,
        "picture": f"{plan.metadata.resource_version}-{version}" if ledgers else None,
    }


def _nodes(spec: move_plan.MovePlanSpec) -> list[str]:
    """Return the nodes that a plan changes, each once."""
    moved = (place.node for move in spec.moves for place in (move.from_, move.to))
    placed = (target.place.node for target in spec.targets if target.place is not None)
    return list(dict.fromkeys((*moved, *placed)))


def _allocation(uid: str, pod: str, place: move_plan.MovePlace) -> Allocation:
    return Allocation(uid, pod, "", place.node, tuple(map(read_grant, place.grants)))


def _time(text: str) -> str | None:
    """Return a time as the page reads it; None where it is none."""
    moment = timestamps.read(text)
    try:
        return None if moment is None else timestamps.seconds(moment)
    except OverflowError:
        return None

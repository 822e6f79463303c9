"""Plans moves for a goal, on a cluster from files or a live one."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import monotonic
from typing import assert_never

from adapters.accounting.gang_members import too_few
from adapters.accounting.movable import BY_CLAIM, hindrance
from adapters.answer.answer import PodAnswer
from adapters.answer.judge import Judge, finished
from adapters.answer.node_rules import NodeChooser
from adapters.cli.defrag.goal import (
    FOR,
    FreeNodes,
    Gain,
    Goal,
    Group,
    LargestShare,
    PendingPods,
    gain,
    groups,
    nodes_of_pool,
)
from adapters.cli.defrag.movable import OTHERS, Holders, MovablePod, holders, needs, room
from adapters.cli.fleet.facts import FleetFacts, plugin_devices
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.source import InputError
from adapters.dialects.dra import DRA
from adapters.wire.kube import Pod, full_name, gates_of, pod_ref
from adapters.wire.records.move_plan import TargetKind
from core.feasibility.cache import request_signature
from core.feasibility.inventory import NodeNames
from core.hardware.card import Mode
from core.ledger.node_ledger import NodeLedger
from core.moves.bound import Bound
from core.moves.make_room import SearchLimits, free_nodes, make_room
from core.moves.places import Places
from core.moves.situation import Move, MovePlan, PlannedPod, Proof, Situation
from core.requests.grant import Placement
from core.requests.request import ContainerRequest, Request

SHARE = "share"
"""Uid of what stands for the share of ``--largest-share``."""

FULL_SEARCHES = 3
"""Searches of full length in a run: each takes seconds where hardly any pod fits."""

SHORT_SEARCH = 50
"""Partial plans for each group after those; a pod that fits as it is needs one."""

NOT_COMPARED = (
    "affinity between pods, spread constraints, volumes, host ports, pod overhead, other resources"
)
"""What no field says that is read."""

PART = 4
"""Each of several groups gets this part of the time that is left, and so do the bounds."""

Progress = Callable[[Sequence[Sequence[PodAnswer]]], Iterable[Sequence[PodAnswer]]]
"""Iterates over the groups of pods and shows the progress."""


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """Something that is to fit.

    Attributes:
        kind: what it is.
        name: of the pod or node; a text for anything else.
        namespace: of the pod; empty for anything else.
        uid: of the pod; empty for anything else.
        dialect: of the pod; None where it has none.
        after: how many moves are made before it fits; None where it does not.
        place: where it fits then; None where it does not, or is no pod.
        reason: why it does not fit; empty where it does.
    """

    kind: TargetKind
    name: str
    namespace: str = ""
    uid: str = ""
    dialect: str | None = None
    after: int | None = None
    place: Placement | None = None
    reason: str = ""

    @property
    def title(self) -> str:
        """The name for people: ``namespace/name`` of a pod."""
        if self.kind is TargetKind.POD:
            return f"{self.namespace}/{self.name}"
        is_node = self.kind is TargetKind.NODE and not self.reason
        return f"node {self.name}" if is_node else self.name


@dataclass(frozen=True, slots=True)
class WithClaims:
    """A plan that also moves pods with ResourceClaims, which nothing carries out.

    Attributes:
        targets: how many fit.
        moves: how many, those of claims included.
        claims: that move, by name; each is of one pod.
    """

    targets: int
    moves: int
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of moves, and what it is about.

    Attributes:
        targets: what is to fit, in the order in which the plan makes room.
        moves: in order.
        holders: by uid, the pods that may be moved.
        proofs: what is known of better plans, for each group of targets.
        bound: no plan for all targets that fit costs less.
        free: how many targets have room now, and get it without a move.
        most: how many targets may fit by any plan; those beyond fit even if all others leave.
        states: how many partial plans were looked at.
        staying: by reason, how many holders of cards stay.
        gain: what the moves change of the cluster.
        before: the ledgers of all nodes.
        after: the same after the moves, and with the targets.
        unknown: what was not compared.
        seconds: after which the search ended; None where it ended before.
        with_claims: what would fit beside, if claims moved too; None where no more.
    """

    targets: tuple[MoveTarget, ...]
    moves: tuple[Move, ...]
    holders: Mapping[str, MovablePod]
    proofs: tuple[Proof, ...]
    bound: int
    free: int
    most: int
    states: int
    staying: Mapping[str, int]
    gain: Gain
    before: Mapping[str, NodeLedger]
    after: Mapping[str, NodeLedger]
    unknown: tuple[str, ...]
    seconds: float | None
    with_claims: "WithClaims | None" = None

    @property
    def cost(self) -> int:
        """The weights of all moves."""
        return sum(move.pod.weight for move in self.moves)

    @property
    def cut(self) -> bool:
        """Whether a search ended before it was certain."""
        return any(not proof.settled for proof in self.proofs)

    @property
    def complete(self) -> bool:
        """Whether every target fits."""
        return not any(target.reason for target in self.targets)

    @property
    def optimal(self) -> bool:
        """Whether no plan for the targets that fit costs less."""
        return self.cost <= self.bound


def planned(
    fleet: Fleet,
    found: Manifests,
    goal: Goal,
    limits: SearchLimits,
    progress: Progress = iter,
    seconds: float | None = None,
) -> Planned:
    """Return the cheapest moves that reach a goal, as far as the search goes.

    The objects that are found include PodDisruptionBudgets and Jobs. The search ends after some
    seconds; None for never.

    Raises:
        InputError: the goal names something that does not exist.
    """
    time, having = TimeLimit(seconds), holders(fleet, found)
    made = _Planning(fleet, having, limits, time, claims=False).run(goal, progress)
    if made.complete or BY_CLAIM not in made.staying:
        return made
    other = _Planning(fleet, having, limits, time, claims=True).run(goal, iter)
    names = {uid: each.pod for one in made.before.values() for uid, each in one.allocations.items()}
    moved = [each.pod.request.uid for each in other.moves]
    claims = tuple(sorted({names[uid] for uid in moved if uid not in made.holders}))
    fit = sum(not each.reason for each in other.targets)
    if fit <= sum(not each.reason for each in made.targets):
        return made
    return replace(made, with_claims=WithClaims(fit, len(moved), claims))


class TimeLimit:
    """A limit that begins when it is created.

    Attributes:
        seconds: the limit; None for no limit.
        reached: whether a part of a run ended early.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.reached = False
        self._end = monotonic() + (inf if seconds is None else seconds)

    def part(self, of: int) -> Callable[[], bool]:
        """Return what says whether a part of the time left is over: of 1 all, of 4 a quarter."""
        now = monotonic()
        end = now + (self._end - now) / of

        def expired() -> bool:
            over = monotonic() >= end
            self.reached |= over
            return over

        return expired


class _Planning:
    def __init__(
        self, fleet: Fleet, found: Holders, limits: SearchLimits, time: TimeLimit, *, claims: bool
    ) -> None:
        self.fleet = fleet
        self.limits = limits
        self.time = time
        self.facts = FleetFacts(fleet)
        self.judge = Judge(self.facts)
        self.found = found
        self._chooser = NodeChooser(self.facts.nodes())
        self._without_plan: dict[Hashable, MovePlan] = {}
        self._states_left = FULL_SEARCHES * limits.states
        self._nodes: dict[NodeNames, frozenset[str]] = {}
        self._with_cards = frozenset(
            ledger.node.name for ledger in self.facts.inventory if ledger.node.cards
        )
        self.before = {ledger.node.name: ledger for ledger in self.facts.inventory}
        self.movable = {
            uid: self._pod(each.pod, each.request, each.weight)
            for uid, each in self.found.movable.items()
        } | ({each.request.uid: each for each in self._claims()} if claims else {})
        free = room(self.facts.nodes(), fleet.pods.values(), self.movable)
        self.places = Places(Situation(self.facts.inventory, self.movable, free))
        self.plans: list[MovePlan] = []
        self.targets: list[MoveTarget] = []
        self.moves: list[Move] = []
        self.bound = 0
        self.free = 0
        self.unresolvable = 0

    def run(self, goal: Goal, progress: Progress) -> Planned:
        match goal:
            case PendingPods():
                self._pending(groups(self.fleet, goal), progress, named=bool(goal.names))
            case FreeNodes():
                self._free_nodes(goal)
            case LargestShare():
                self._share(goal)
            case _:
                assert_never(goal)
        after = {ledger.node.name: ledger for ledger in self.places.situation.inventory}
        unknown = [NOT_COMPARED]
        gated = sum(bool(gates_of(pod)) for pod in self.fleet.pending())
        if gated:
            unknown.append(f"{gated} waiting pods that scheduling gates hold back")
        free, every = self.places.situation.room, len(self._with_cards)
        without = sum("cpu" not in free.get(name, {}) for name in self._with_cards)
        if without:
            resources = f"CPU and memory of {without} of {every} nodes"
            unknown.append(f"{resources}, which state no allocatable")
        return Planned(
            targets=tuple(self.targets),
            moves=tuple(self.moves),
            holders=self.found.movable,
            proofs=tuple(plan.proof for plan in self.plans),
            bound=self.bound,
            free=self.free,
            most=len(self.targets) - self.unresolvable,
            states=sum(plan.states for plan in self.plans),
            staying=Counter(self.found.staying.values()),
            gain=gain(self.before, after),
            before=self.before,
            after=after,
            unknown=tuple(unknown),
            seconds=self.time.seconds if self.time.reached else None,
        )

    def _pending(self, every: Sequence[Group], progress: Progress, *, named: bool) -> None:
        """Make room for one group after the other."""
        answers: list[list[PodAnswer]] = []
        begun: list[MoveTarget] = []
        outside: list[MoveTarget] = []
        for group in every:
            having = self.facts.inventory.nodes_of
            waiting = [pod for pod in group if not having(pod.metadata.uid)]
            asked = [self.judge.alone(pod, explain=False) for pod in waiting]
            found = [each for each in asked if each.requests]
            if named and not found:
                name = full_name(group[0])
                raise InputError(FOR, f"{name} requests no cards, or has some already")
            gang = self.facts.gang(found[0].pod) if found else None
            missing = None if gang is None else too_few(gang)
            if missing is not None:
                begun += [_pod_target(each, reason=missing) for each in found]
            elif len(waiting) < len(group):
                some = len(group) - len(waiting)
                why = (
                    f"{some} of {len(group)} pods of its gang that wait"
                    f" {'has' if some == 1 else 'have'} cards already:"
                    " plan again when all are bound, or none has any"
                )
                begun += [_pod_target(each, reason=why) for each in found]
            elif len(found) == 1 and found[0].best and found[0].best not in self._with_cards:
                # Only a device plugin knows the cards of its node.
                outside.append(_pod_target(found[0], 0, Placement(found[0].best, ())))
            elif found:
                answers.append(found)
        pods = [
            self._pod(each.pod, each.found.request)
            for group in answers
            for each in group
            if each.found is not None
        ]
        part = PART if len(answers) > 1 else 1
        bound = Bound(pods, self.places, self.time.part(part))
        for wanted in progress(sorted(answers, key=_importance)):
            self._group(wanted, part)
        fits = [target.uid for target in self.targets if not target.reason]
        self.free += len(outside)
        self.targets += [*outside, *begun]
        alone = len(self.plans) == 1 and self.plans[0].found
        self.bound = self.plans[0].bound if alone else bound.cost(fits)
        invalid = sum(each.found is None for group in answers for each in group)
        # A device plugin may have room for the others: its pods may end, but are not moved.
        plugged = {e.pod.metadata.uid for g in answers for e in g if e.devices is not None}
        self.unresolvable = len(bound.unresolvable() - plugged) + invalid + len(begun)

    def _group(self, wanted: Sequence[PodAnswer], part: int) -> None:
        """Make room for pods that wait, all of a gang or none, in a part of the time."""
        refused: dict[str, str] = {}
        for each in wanted:
            if each.found is None:
                refused[full_name(each.pod)] = each.text()
            elif against := self.facts.evaluate(each.found.request).refusal:
                refused[full_name(each.pod)] = f"no move helps: {against}"
        if refused:
            name, text = next(iter(refused.items()))
            for each in wanted:
                own = refused.get(full_name(each.pod)) or f"{name} of its gang does not fit: {text}"
                self.targets.append(_pod_target(each, reason=own))
            return
        pods = [self._pod(each.pod, each.found.request) for each in wanted if each.found]
        plan = self._room_for(pods, part)
        proof = plan.proof.value
        if plan.proof is Proof.IMPOSSIBLE:
            if any(each.devices is not None for each in wanted):
                plan = replace(plan, proof=Proof.UNKNOWN)
                proof = "not searched: pods with devices of a device plugin are not moved"
            elif len(self.found.movable) > self.limits.moves:
                proof = f"no plan of at most {self.limits.moves} moves exists"
            if any(target.place is not None for target in self.targets):
                proof += ", beside the targets that fit"
        self._make(plan)
        at = {pod.request.uid: place for pod, place in plan.placed}
        for each in wanted:
            place = at.get(each.pod.metadata.uid)
            self.free += bool(place and each.best and not plan.moves)
            alone = "only without its gang: " if each.best and len(wanted) > 1 else ""
            why = "" if place else f"{proof}; {alone}{each.text()}"
            after = None if place is None else len(self.moves)
            self.targets.append(_pod_target(each, after, place, why))

    def _room_for(self, pods: Sequence[PlannedPod], part: int) -> MovePlan:
        """Return the plan for a group; that of an alike group that found none, until one does."""
        alike = tuple(
            (request_signature(pod.request), pod.nodes, tuple(sorted(pod.needs.items())))
            for pod in pods
        )
        known = self._without_plan.get(alike)
        if known is not None:
            return replace(known, states=0)
        states = min(self.limits.states, max(self._states_left, SHORT_SEARCH))
        plan = make_room(pods, self.places, replace(self._limits(part), states=states))
        self._states_left -= plan.states
        if plan.found:
            self._without_plan.clear()
        else:
            self._without_plan[alike] = plan
        return plan

    def _limits(self, part: int = 1) -> SearchLimits:
        return replace(self.limits, expired=self.time.part(part))

    def _free_nodes(self, goal: FreeNodes) -> None:
        every_node = nodes_of_pool(self.fleet, goal.pool)
        pool = every_node & self._with_cards
        served = every_node & plugin_devices(self.fleet).nodes.keys()
        movable = self.movable.keys()
        candidates = [
            name for name in sorted(pool) if self.before[name].allocations.keys() <= movable
        ]
        plan = self._make(free_nodes(goal.number, candidates, self.places, self._limits()))
        self.targets += [
            MoveTarget(TargetKind.NODE, name, after=len(self.moves)) for name in sorted(plan.freed)
        ]
        if not plan.found:
            has = "has" if len(candidates) == 1 else "have"
            every = f"{len(candidates)} of {len(pool)} nodes with cards {has} only pods that may"
            proof = plan.proof.value
            if plan.proof is Proof.IMPOSSIBLE and served:
                are = (
                    "node of device plugins is"
                    if len(served) == 1
                    else "nodes of device plugins are"
                )
                proof = f"{len(served)} {are} not searched"
            why = f"{proof}; {every} be moved"
            name = "1 free node" if goal.number == 1 else f"{goal.number} free nodes"
            self.targets.append(MoveTarget(TargetKind.NODE, name, reason=why))

    def _share(self, goal: LargestShare) -> None:
        pool = nodes_of_pool(self.fleet, goal.pool) & self._with_cards
        cards = [card for name in pool for card in self.before[name].node.cards]
        of_model = {card.model for card in cards if card.model == goal.pool}
        request = Request(
            SHARE,
            SHARE,
            SHARE,
            (ContainerRequest(SHARE, 1, memory=goal.memory),),
            modes=frozenset(Mode),
            allow_uuids=frozenset(c.uuid for c in cards if c.model in of_model or not of_model),
            alternatives=frozenset(name for card in cards for name in card.dialects),
        )
        plan = self._make(make_room([PlannedPod(request, pool)], self.places, self._limits()))
        inventory = self.places.situation.inventory
        name = f"share of {goal.memory >> 20} MiB"
        if not plan.found:
            self.targets.append(MoveTarget(TargetKind.SHARE, name, reason=plan.proof.value))
        for _, place in plan.placed:
            # The share stays free: nothing is there that wants it yet.
            inventory.put(inventory.ledger(place.node).release(SHARE))
            after = len(self.moves)
            self.targets.append(MoveTarget(TargetKind.SHARE, name, after=after, place=place))

    def _make(self, plan: MovePlan) -> MovePlan:
        self.plans.append(plan)
        self.bound = plan.bound
        self.moves += plan.moves
        return plan

    def _claims(self) -> Iterator[PlannedPod]:
        """Yield the claims of one pod each that may go to any card that a ResourceSlice describes.

        A slice of a card stays.
        """
        pods = {pod.metadata.uid: pod for pod in self.fleet.pods.values()}
        names = self.before.keys()
        published = [one for name in names for one in self.fleet.claims.devices.own(name)]
        cards = frozenset(one.card for one in published if one.card and not one.profile)
        every = [card for ledger in self.before.values() for card in ledger.node.cards]
        dialects = frozenset(name for card in every for name in card.dialects)
        for claim in self.fleet.claims.all():
            pod = pods.get(claim.pods[0].uid) if len(claim.pods) == 1 else None
            held = [
                self.before[name].allocations[claim.uid]
                for name in self.facts.inventory.nodes_of(claim.uid)
            ]
            if pod is None or hindrance(pod) or len(held) != 1 or held[0].unread is not None:
                continue
            if any(grant.slice is not None for grant in held[0].grants):
                continue
            containers = tuple(
                ContainerRequest(str(at), 1, each.memory, None, each.compute, each.exclusive)
                for at, each in enumerate(held[0].grants)
            )
            request = Request(
                claim.uid, claim.name, DRA, containers, allow_uuids=cards, alternatives=dialects
            )
            yield self._pod(pod, request, OTHERS)

    def _pod(self, pod: Pod, request: Request, weight: int = 0) -> PlannedPod:
        names = finished(self._chooser.steps(pod)).selection
        nodes = self._nodes.get(names)
        if nodes is None:
            nodes = self._nodes[names] = self._with_cards.intersection(names.names)
        return PlannedPod(request, nodes, needs(pod), weight)


def _importance(group: Sequence[PodAnswer]) -> tuple[int, int]:
    """Sort groups of higher priority first, and of these the larger ones."""
    priority = max(each.pod.spec.priority or 0 for each in group)
    totals = [each.found.request.totals() for each in group if each.found is not None]
    return -priority, -sum(total.memory or total.memory_percent << 30 for total in totals)


def _pod_target(
    answer: PodAnswer, after: int | None = None, place: Placement | None = None, reason: str = ""
) -> MoveTarget:
    ref, kind = pod_ref(answer.pod), TargetKind.POD
    return MoveTarget(kind, ref.name, ref.namespace, ref.uid, answer.dialect, after, place, reason)

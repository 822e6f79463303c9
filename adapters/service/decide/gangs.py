"""Gangs under kube-scheduler and koord-scheduler: cards for all their pods, or for none.

Both schedulers place all pods of a gang in their own memory before they bind the first, and an
extender sees none of that. So at the first filter of a gang one plan is made for all its pods, and
their cards are committed to the ledgers at once, pod by pod, by the steps of every commit
(``committer``). Each pod is answered with its own node then, and its bind finds its cards there.

    planned   nothing is held; a plan that does not place enough pods ends here
    held      the allocations of pods that are not bound: all replicas and the quotas count them
    bound     pod by pod; the first bind is rejected unless enough pods of the gang are held

A gang that its scheduler asks about again and again without binding it lacks something else than
cards: it gives them back after ``ROUNDS``. What no scheduler asks about any more, the leader
releases, as after every commit (``GRACE`` of ``reconcile``), and marks the pod with the time. For
``REST`` after either the gang holds nothing, so that others get their turn.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar
from weakref import WeakValueDictionary

from adapters.accounting.gang_cache import Gang
from adapters.accounting.gang_members import NONE, GangMembers, members_of
from adapters.accounting.gang_texts import KINDS, incomplete, named, together, too_few, too_many
from adapters.accounting.pod_requests import PodRequest, PodRequestCache
from adapters.accounting.repairs import RELEASED, RELEASED_LABEL
from adapters.service.decide.advice.feasibility import Feasibility
from adapters.service.decide.commit.card_choice import Committed
from adapters.service.decide.commit.committer import Committer
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import Clock, GangSource
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.wire.kube import Pod, annotations, labels
from core.durations import SECOND
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.gang_plan import GangPlan
from core.feasibility.node_names import NodeNames
from core.requests.gang import GangRef
from core.requests.grant import Placement
from core.requests.reason import Reason
from core.requests.request import Request

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

LARGEST = 512
"""Pods of a namespace that are not bound and have cards for their gang, at most."""

ROUNDS = 3
"""How often a pod is answered with the node that is held for it before the gang gives its cards
back: a scheduler binds a gang after one answer for each pod, unless it lacks something else."""

REST = 60
"""Seconds in which a gang holds nothing after it held cards that it did not use."""

LEFT = 180
"""Seconds in which a gang rests that could not give all cards back: the leader releases the others
in that time, because no pod of the gang is bound meanwhile."""

LOOK, LOOKS = 0.02, 50
"""Seconds between two looks, and how many there are, for what the watches will report: pods that
the scheduler knows, and ledgers that another replica has just written."""

NOT_AGAIN = 20 * SECOND
"""Nanoseconds in which no filter of a namespace waits for pods, after one did in vain."""

IN_VAIN = 4
"""Namespaces of which a filter waited in vain a moment ago; no further one waits then."""

FRESH = 30 * SECOND
"""Nanoseconds after which cards that are held are renewed before a bind."""

REMEMBERED = 64
"""Gangs, and pods, of which something is remembered; the least recent one is dropped. To forget
costs another plan, or another write."""


@dataclass(frozen=True, slots=True)
class GangRefusal:
    """Why no pod of a gang may be bound now.

    Attributes:
        text: for people; it names the gang and what is missing.
    """

    text: str


@dataclass(slots=True)
class _Hold:
    """Cards that this process has committed for a gang.

    Attributes:
        since: when the oldest of them were committed, in nanoseconds of the clock.
        asked: by uid of a pod, how often its scheduler was answered since.
        written: by uid and node, ``since`` of the allocation, of which it is sure that no Binding
            is on its way. Each attempt to bind the pod, in any replica, gives it another one.
    """

    since: int
    asked: Counter[str] = field(default_factory=Counter)
    written: dict[tuple[str, str], int] = field(default_factory=dict)

    def forget_except(self, uids: Collection[str]) -> None:
        """Forget the pods that are no more."""
        self.asked = Counter({uid: times for uid, times in self.asked.items() if uid in uids})
        self.written = {key: since for key, since in self.written.items() if key[0] in uids}


@dataclass(frozen=True, slots=True)
class _Fitting:
    """Which pods of a gang fit.

    Attributes:
        gang: as it was then; the same object as long as nothing changes.
        revision: of the ledgers.
        state: what it depends on; equal also where another pod of the cluster has changed.
        placeable: the pods that fit or are placed, if they are enough; None for each alone.
        marked_until: until when the gang rests by the leader's marks, in seconds since 1970.
    """

    gang: Gang
    revision: object
    state: object
    placeable: frozenset[str] | None
    marked_until: float


class Gangs:
    """Plans gangs, holds their cards and lets none be bound in part."""

    def __init__(
        self,
        ledgers: LedgerCache,
        feasibility: Feasibility,
        committer: Committer,
        pod_requests: PodRequestCache,
        clock: Clock,
        source: GangSource,
        quotas: Quotas,
    ) -> None:
        self._ledgers = ledgers
        self._feasibility = feasibility
        self._committer = committer
        self._pod_requests = pod_requests
        self._clock = clock
        self._source = source
        self._quotas = quotas
        self._locks: WeakValueDictionary[GangRef, asyncio.Lock] = WeakValueDictionary()
        self._committing: set[str] = set()
        self._binding: Counter[GangRef] = Counter()
        self._limited: OrderedDict[str, NodeNames] = OrderedDict()
        self._holds: OrderedDict[GangRef, _Hold] = OrderedDict()
        self._given_back_at: OrderedDict[GangRef, int] = OrderedDict()
        self._refused: OrderedDict[GangRef, tuple[object, GangRefusal]] = OrderedDict()
        self._rested_at: int | None = None
        self._in_vain: dict[str, int] = {}
        self._fitting: OrderedDict[GangRef, _Fitting] = OrderedDict()

    async def place(self, pod_request: PodRequest, names: NodeNames) -> str | GangRefusal | None:
        """Return the node that is held for a pod of a gang, after all its gang's cards are held.

        Args:
            pod_request: the pod.
            names: the nodes on which its scheduler can place it.

        Returns:
            the node; why the gang gets no cards; None where the pod is in no gang, or its gang is
            complete without it.
        """
        gang = self._gang(pod_request)
        if gang is None:
            return None
        uid = pod_request.request.uid
        gang = await self._known(pod_request, gang)
        async with self._locks.setdefault(gang.key, asyncio.Lock()):
            gang = self._gang(pod_request) or gang
            node = self._node_of(uid, names)
            is_complete = self._is_complete(gang)
            if node is not None and is_complete:
                return await self._given_back(gang, uid) or node
            elsewhere = [node for node, _ in self._ledgers.committed(uid)] if node is None else []
            if is_complete and not elsewhere:
                return None
            if elsewhere:
                _remember(self._limited, uid, names)
            moving = frozenset((uid,)) if elsewhere else NONE
            refusal = self._refusal(gang, names) or await self._hold(
                gang, pod_request, names, moving
            )
            node = self._node_of(uid, names)
            if node is not None:
                for other in elsewhere:
                    await self._release_held(gang, uid, other)
        return refusal or node

    async def check_bind(self, pod_request: PodRequest) -> GangRefusal | None:
        """Return why a pod must not be bound: cards of its gang are missing; None where none are.

        Before a bind the cards of the whole gang are renewed where that was long ago, so that none
        are released while the gang is bound: a bind that waits for the lock of its node renews
        nothing by itself.
        """
        gang = self._gang(pod_request)
        if gang is None:
            return None
        own = frozenset((pod_request.request.uid,))
        for _ in range(LOOKS):
            if not self._members(gang).lacks(own):
                break
            await asyncio.sleep(LOOK)
            gang = self._gang(pod_request) or gang
        else:
            return _unheld(gang, self._members(gang))
        async with self._locks.setdefault(gang.key, asyncio.Lock()):
            gang = self._gang(pod_request) or gang
            members = self._members(gang)
            if members.lacks(own):  # they were given back while this bind waited
                return _unheld(gang, members)
            hold = self._holds.get(gang.key)
            if hold is not None and self._clock.now() - hold.since < FRESH:
                return None
            refusal = await self._renew(gang)
        return None if _is_begun(gang) else refusal

    @contextmanager
    def binding(self, pod_request: PodRequest) -> Iterator[None]:
        """Keep what the gang of a pod holds while the pod is bound."""
        gang = self._gang(pod_request)
        if gang is None:
            yield
            return
        self._binding[gang.key] += 1
        try:
            yield
        finally:
            self._binding[gang.key] -= 1
            if not self._binding[gang.key]:
                del self._binding[gang.key]

    def not_bound(self, pod_request: PodRequest, node: str, attempt: Committed) -> None:
        """Note that a Binding was refused for good: what its gang holds can be given back.

        Not where an earlier Binding may be on its way.
        """
        gang = self._gang(pod_request)
        if gang is not None:
            change = attempt.earlier, attempt.since
            self._note_change(gang, pod_request.request.uid, node, change)

    def fits(self, pod_request: PodRequest) -> bool:
        """Whether a pod fits any node now, with all of its gang; nothing is held."""
        gang = self._gang(pod_request)
        if gang is None:
            return self._feasibility.fits_any(pod_request)
        revision, known = self._feasibility.revision, self._fitting.get(gang.key)
        if known is None or known.gang is not gang or known.revision != revision:
            state = self._state(gang)
            same = known is not None and known.state == state
            placeable = known.placeable if known and same else self._placeable(gang)
            known = _Fitting(gang, revision, state, placeable, self._marked_until(gang))
            _remember(self._fitting, gang.key, known)
        if self._rests(gang, known.marked_until):
            self._rested_at = self._rested_at or self._clock.now() + REST * SECOND
            return False
        if known.placeable is None:
            return self._feasibility.fits_any(pod_request)
        return pod_request.request.uid in known.placeable

    def has_rested(self) -> bool:
        """Whether a gang that did not fit because it rested may fit now; once each time."""
        if self._rested_at is None or self._clock.now() < self._rested_at:
            return False
        self._rested_at = None
        return True

    def waiting(self, pod: Pod) -> Sequence[Pod]:
        """Return the pods that are to be tried together with a pod, which is one of them.

        Those of its gang that are not bound, ``LARGEST`` at most; the pod alone where it is in no
        gang, or enough pods of its gang are bound.
        """
        gang = self._source.gang(pod)
        if gang is None:
            return (pod,)
        bound = frozenset(each.metadata.uid for each in gang.pods if each.spec.node_name)
        if not gang.lacks(bound):
            return (pod,)
        others = (each for each in gang.pods if not each.spec.node_name)
        return [pod, *(each for each in others if each.metadata.uid != pod.metadata.uid)][:LARGEST]

    def _placeable(self, gang: Gang) -> frozenset[str] | None:
        """The pods that have room now or are placed, if they are enough; None for each alone."""
        if self._is_complete(gang):
            return None
        members = self._members(gang)
        if members.lacks() > LARGEST or len(members.kinds()) > KINDS:
            return NONE
        every = self._every()
        planned = self._plan(members.at_first(LARGEST), {}, lambda _: every).placed
        return NONE if members.lacks(planned) else members.placed.union(planned)

    def _gang(self, pod_request: PodRequest) -> Gang | None:
        if pod_request.request.plugin is not None:
            return None
        return self._source.gang(pod_request.pod)

    async def _known(self, pod_request: PodRequest, gang: Gang) -> Gang:
        """The gang with as many pods as its scheduler must know, if the watch reports them soon.

        A scheduler places no other pod meanwhile: not again for a while where it was in vain.
        """
        if not incomplete(gang):
            return gang
        namespace, now = gang.ref.namespace, self._clock.now()
        self._in_vain = {name: until for name, until in self._in_vain.items() if now < until}
        if namespace in self._in_vain or len(self._in_vain) >= IN_VAIN:
            return gang
        for _ in range(LOOKS):
            await asyncio.sleep(LOOK)
            gang = self._gang(pod_request) or gang
            if not incomplete(gang):
                return gang
        self._in_vain[namespace] = self._clock.now() + NOT_AGAIN
        return gang

    def _refusal(self, gang: Gang, names: NodeNames) -> GangRefusal | None:
        """Why no plan is made for a gang."""
        problem = too_few(gang)
        if problem is not None:
            return GangRefusal(problem)
        if self._rests(gang):
            return _rest(gang)
        known = self._refused.get(gang.key)
        return known[1] if known is not None and known[0] == self._state(gang, names) else None

    async def _hold(
        self, gang: Gang, pod_request: PodRequest, names: NodeNames, moving: frozenset[str]
    ) -> GangRefusal | None:
        """Plan the pods that have no cards, and commit the cards of all of them.

        Args:
            gang: with all its pods.
            pod_request: the pod that is asked about.
            names: where it may go.
            moving: as of ``GangMembers``: their scheduler names their nodes no more.
        """
        members, namespace = self._members(gang, moving), gang.ref.namespace
        if members.lacks(moving) > LARGEST - self._held_in(namespace):
            return _full(gang)
        kinds = members.kinds()
        if len(kinds) > KINDS:
            return GangRefusal(too_many(gang, KINDS))
        evaluated = await self._evaluated(kinds)
        members = self._members(gang, moving).at_first(LARGEST)
        plan = self._plan(members, evaluated, self._may_go(pod_request, names))
        lacks = members.lacks(plan.placed)
        if lacks:
            return self._refuse(gang, names, lacks, plan)
        planned = members.at_most(LARGEST - self._held_in(namespace), plan.placed)
        if members.lacks(planned):
            return _full(gang)
        requests = {each.request.uid: each for each in members.waiting}
        self._committing |= planned.keys()
        try:
            committed = await asyncio.gather(
                *(self._commit(requests[uid], to) for uid, to in planned.items())
            )
        finally:
            self._committing -= planned.keys()
        answers = {
            uid: answer
            for uid, answer in zip(planned, committed, strict=True)
            if isinstance(answer, Committed)
        }
        if self._members(gang, moving).lacks(answers):
            for uid, answer in answers.items():
                if answer.new:
                    await self._release(uid, planned[uid].node, answer.since)
            why = next((each for each in committed if isinstance(each, str)), "ledgers changed")
            return GangRefusal(f"{named(gang)}: try again: {why}")
        uids = {pod.metadata.uid for pod in gang.pods}
        is_first = not any(self._ledgers.has_committed(uid) for uid in uids - answers.keys())
        hold = self._hold_of(gang, self._clock.now() - (0 if is_first else FRESH))
        hold.forget_except(uids)
        for uid, answer in answers.items():
            if answer.new:
                hold.written[uid, planned[uid].node] = answer.since
        return None

    async def _evaluated(
        self, kinds: Mapping[Hashable, Sequence[PodRequest]]
    ) -> Mapping[Hashable, NodeEvaluation]:
        """Evaluate kinds of pods, so that a plan is made fast; other calls run in between.

        None of them where nodes came or went meanwhile: an evaluation knows its nodes only.
        """
        inventory = self._ledgers.inventory
        version = inventory.membership_version
        evaluated: dict[Hashable, NodeEvaluation] = {}
        for kind, alike in kinds.items():
            evaluated[kind] = self._feasibility.evaluate_request(alike[0].request)
            evaluated[kind].ranks(inventory.rows())
            await asyncio.sleep(0)
            if (self._ledgers.inventory, inventory.membership_version) != (inventory, version):
                return {}
        return evaluated

    async def _given_back(self, gang: Gang, uid: str) -> GangRefusal | None:
        """Release what a gang holds if its scheduler cannot use it; None where it keeps it.

        Args:
            gang: of which all pods have cards.
            uid: of the pod that its scheduler asks about again.
        """
        if self._rests(gang):
            return _rest(gang)
        hold = self._hold_of(gang, self._clock.now() - FRESH)
        hold.asked[uid] += 1
        if hold.asked[uid] <= ROUNDS or _is_begun(gang) or gang.key in self._binding:
            return None
        for other, node in [*hold.written]:
            await self._release_held(gang, other, node)
        self._holds.pop(gang.key, None)
        _remember(self._given_back_at, gang.key, self._clock.now())
        return _rest(gang)

    def _hold_of(self, gang: Gang, since: int) -> _Hold:
        """What this process holds for a gang; where it holds nothing yet, from a time on."""
        hold = self._holds.get(gang.key) or _Hold(since)
        _remember(self._holds, gang.key, hold)
        return hold

    def _plan(
        self,
        members: GangMembers,
        evaluated: Mapping[Hashable, NodeEvaluation],
        may_go: Callable[[PodRequest], NodeNames],
    ) -> GangPlan:
        """Where the pods go that wait; those kinds are evaluated that are not yet."""

        def evaluate(kind: Hashable, request: Request) -> NodeEvaluation:
            known = evaluated.get(kind)
            return self._feasibility.evaluate_request(request) if known is None else known

        return members.plan(evaluate, may_go, self._quotas.refusal_of)

    def _may_go(self, asked: PodRequest, names: NodeNames) -> Callable[[PodRequest], NodeNames]:
        """Where the pods of a gang may go whose scheduler asks about one of them.

        Args:
            asked: that one.
            names: where that one may go, and so those that select their nodes alike. The others
                may go where their scheduler named nodes before, else anywhere.
        """
        every = self._every()

        def may_go(each: PodRequest) -> NodeNames:
            if each.request.uid == asked.request.uid:
                return names
            alike = _selection(each.pod) == _selection(asked.pod)
            return self._limited.get(each.request.uid, names if alike else every)

        return may_go

    def _every(self) -> NodeNames:
        return NodeNames(self._ledgers.inventory.names())

    def _members(self, gang: Gang, moving: frozenset[str] = NONE) -> GangMembers:
        """What the pods of a gang have now."""
        return members_of(gang, self._ledgers.has_committed, self._pod_requests.read, moving)

    def _is_complete(self, gang: Gang) -> bool:
        """Whether enough pods of a gang are placed; requests are read only where that matters."""
        return not gang.lacks(self._with_cards(gang)) or not self._members(gang).lacks()

    def _with_cards(self, gang: Gang) -> frozenset[str]:
        """The pods that are bound or have cards; others may need none."""
        uids = ((pod.metadata.uid, pod.spec.node_name) for pod in gang.pods)
        return frozenset(uid for uid, node in uids if node or self._ledgers.has_committed(uid))

    def _node_of(self, uid: str, names: NodeNames) -> str | None:
        """The node on which a pod has cards, if it is one of these."""
        inventory = self._ledgers.inventory
        rows = names.rows(inventory)
        held = (node for node, _ in self._ledgers.committed(uid))
        return next((node for node in held if (rows == inventory.row(node)).any()), None)

    def _held_in(self, namespace: str) -> int:
        """How many pods of a namespace that are not bound have cards for their gang, or soon."""
        uids = (pod.metadata.uid for pod in self._source.unbound(namespace))
        return sum(uid in self._committing or self._ledgers.has_committed(uid) for uid in uids)

    def _rests(self, gang: Gang, marked_until: float | None = None) -> bool:
        """Whether cards of a gang were released a moment ago because they were not used.

        Args:
            gang: with all its pods.
            marked_until: as ``_marked_until`` returns it, where that is known.
        """
        until = self._marked_until(gang) if marked_until is None else marked_until
        if self._clock.wall() / SECOND >= until and not self._gave_back(gang):
            return False
        return not _is_begun(gang)  # the rest of it must be bound

    def _gave_back(self, gang: Gang) -> bool:
        """Whether this process released cards of a gang a moment ago, or the leader must do so."""
        given_back = self._given_back_at.get(gang.key)
        if given_back is None:
            return False
        seconds = (self._clock.now() - given_back) / SECOND
        return seconds < REST or (seconds < LEFT and bool(self._with_cards(gang)))

    def _marked_until(self, gang: Gang) -> float:
        """Until when a gang rests by the marks of the leader: seconds since 1970; 0 without one."""
        now = self._clock.wall() / SECOND
        marks = (at for pod in gang.pods for at in _released(pod) if at <= now)
        return max(marks, default=-REST) + REST

    def _refuse(self, gang: Gang, names: NodeNames, lacks: int, plan: GangPlan) -> GangRefusal:
        for pod in gang.pods:
            self._limited.pop(pod.metadata.uid, None)  # it may be another node the next time
        refusal = GangRefusal(together(gang, lacks, plan))
        _remember(self._refused, gang.key, (self._state(gang, names), refusal))
        return refusal

    def _state(self, gang: Gang, names: NodeNames | None = None) -> object:
        """What a plan depends on; without names, one for all nodes."""
        parts = tuple(
            (part.ref, part.minimum, frozenset(pod.metadata.uid for pod in part.pods))
            for part in gang.parts
        )
        rows = b"" if names is None else names.rows(self._ledgers.inventory).tobytes()
        return self._feasibility.revision, parts, hash(rows)

    async def _renew(self, gang: Gang) -> GangRefusal | None:
        """Keep the cards of a gang's pods that are not bound; why that failed."""
        unbound = (pod.metadata.uid for pod in gang.pods if not pod.spec.node_name)
        held = [(uid, node) for uid in unbound for node, _ in self._ledgers.committed(uid)]
        try:
            kept = await asyncio.gather(*(self._committer.renew(uid, node) for uid, node in held))
        except (LedgerContended, OSError) as error:
            return GangRefusal(f"{named(gang)}: try again: {error}")
        for (uid, node), change in zip(held, kept, strict=True):
            if change is not None:
                self._note_change(gang, uid, node, change)
        if not all(kept):
            return GangRefusal(f"{named(gang)}: try again: cards were released")
        now = self._clock.now()
        self._hold_of(gang, now).since = now
        return None

    def _note_change(self, gang: Gang, uid: str, node: str, change: tuple[int, int]) -> None:
        """Note that an allocation that this process holds has another ``since`` now."""
        hold, (before, after) = self._holds.get(gang.key), change
        if hold is not None and hold.written.get((uid, node)) == before:
            hold.written[uid, node] = after

    async def _commit(self, pod_request: PodRequest, to: Placement) -> Committed | str:
        """Commit the cards of a plan to one pod, or others that fit; the text says why neither."""
        try:
            answer = await self._committer.commit(pod_request, to.node, to.grants)
        except (LedgerContended, OSError) as error:
            return str(error)
        return answer.text() if isinstance(answer, Reason) else answer

    async def _release_held(self, gang: Gang, uid: str, node: str) -> None:
        """Release what this process held for a gang, unless an attempt to bind the pod has begun.

        A Binding may be on its way then, and the pod have the cards; the reconciler finds out.
        """
        hold = self._holds.get(gang.key)
        since = None if hold is None else hold.written.pop((uid, node), None)
        if since is not None:
            await self._release(uid, node, since)

    async def _release(self, uid: str, node: str, since: int) -> None:
        try:
            await self._committer.release(uid, node, since)
        except (LedgerContended, OSError):
            return  # the reconciler will


def _remember(known: OrderedDict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > REMEMBERED:
        known.popitem(last=False)


def _is_begun(gang: Gang) -> bool:
    """Whether a pod of a gang is bound."""
    return any(pod.spec.node_name for pod in gang.pods)


def _selection(pod: Pod) -> object:
    """What of a pod selects its nodes."""
    return pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations


def _rest(gang: Gang) -> GangRefusal:
    return GangRefusal(
        f"{named(gang)}: its cards were held and not used; it gets its next turn {REST} s after"
        " they were released"
    )


def _unheld(gang: Gang, members: GangMembers) -> GangRefusal:
    return GangRefusal(f"{named(gang)}: cards of {len(members.placed)} of its pods are held")


def _full(gang: Gang) -> GangRefusal:
    return GangRefusal(
        f"{named(gang)}: at most {LARGEST} pods of namespace {gang.ref.namespace} hold cards"
        " before they are bound"
    )


def _released(pod: Pod) -> Iterator[float]:
    """When the leader released cards of a pod that were not used: seconds since 1970."""
    text, label = annotations(pod).get(RELEASED), labels(pod).get(RELEASED)
    with suppress(ValueError):
        if text is not None:
            yield datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    with suppress(ValueError):
        if label is not None:
            yield datetime.strptime(label, RELEASED_LABEL).replace(tzinfo=UTC).timestamp()

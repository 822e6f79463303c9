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
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from adapters.accounting.gang_cache import Gang, GangCache
from adapters.accounting.gang_members import (
    KINDS,
    NONE,
    GangMembers,
    incomplete,
    members_of,
    named,
    together,
    too_few,
    too_many,
)
from adapters.accounting.pod_requests import PodRequest, PodRequestCache
from adapters.service.decide.advice.feasibility import Feasibility
from adapters.service.decide.commit.attempt import Committed
from adapters.service.decide.commit.committer import Committer
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.gang_state import (
    REST,
    Fitting,
    GangRefusal,
    GangState,
    GangStates,
    full,
    gives_back,
    is_begun,
    marked_until,
    rest,
    resting,
    unheld,
)
from adapters.service.decide.ports import Clock
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.wire.kube import Pod
from core.durations import SECOND, Sightings
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.gang_plan import GangPlan
from core.feasibility.inventory import NodeNames
from core.requests.grant import Placement
from core.requests.reason import Reason
from core.requests.request import Request

LARGEST = 512
"""Pods of a namespace that are not bound and have cards for their gang, at most."""

LOOK, LOOKS = 0.02, 50
"""Seconds between two looks, and how many there are, for what the watches will report: pods that
the scheduler knows, and ledgers that another replica has just written."""

NOT_AGAIN = 20 * SECOND
"""Nanoseconds in which no filter of a namespace waits for pods, after one did in vain."""

IN_VAIN = 4
"""Namespaces of which a filter waited in vain a moment ago; no further one waits then."""

MARKED = 10_000
"""Gangs with a mark of the leader of which is remembered since when it is seen."""

FRESH = 30 * SECOND
"""Nanoseconds after which cards that are held are renewed before a bind."""

REMEMBERED = 128
"""Gangs of which a state is kept, and pods of which it is known where they may go."""


@dataclass(eq=False)
class Gangs:
    """Plans gangs, holds their cards and lets none be bound in part."""

    _ledgers: LedgerCache
    _feasibility: Feasibility
    _committer: Committer
    _pod_requests: PodRequestCache
    _clock: Clock
    _source: GangCache
    _quotas: Quotas
    _states: GangStates = field(default_factory=GangStates)
    _limited: OrderedDict[str, NodeNames] = field(default_factory=OrderedDict)
    _rested_at: int | None = None
    _marks: Sightings = field(default_factory=lambda: Sightings(MARKED))
    _in_vain: dict[str, int] = field(default_factory=dict)

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
        async with self._locked(pod_request, gang) as (gang, state):
            node = self._node_of(uid, names)
            is_complete = self._is_complete(gang)
            if node is not None and is_complete:
                return await self._give_back(gang, state, uid) or node
            elsewhere = [node for node, _ in self._ledgers.committed(uid)] if node is None else []
            if is_complete and not elsewhere:
                return None
            if elsewhere:
                self._limited[uid] = names
                self._limited.move_to_end(uid)
                if len(self._limited) > REMEMBERED:
                    self._limited.popitem(last=False)
            moving = frozenset((uid,)) if elsewhere else NONE
            problem, known = too_few(gang), state.refusal
            refusal = GangRefusal(problem) if problem else self._rest(gang, state)
            if not refusal and known is not None and known[0] == self._basis(gang, names):
                refusal = known[1]
            if not refusal:
                refusal = await self._hold(gang, state, pod_request, names, moving)
            node = self._node_of(uid, names)
            if node is not None:
                for other in elsewhere:
                    await self._release_held(state, uid, other)
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
            return unheld(self._members(gang))
        async with self._locked(pod_request, gang) as (gang, state):
            members = self._members(gang)
            if members.lacks(own):  # they were given back while this bind waited
                return unheld(members)
            if state.hold is not None and self._clock.now() - state.hold.since < FRESH:
                return None
            refusal = await self._renew(gang, state)
        return None if is_begun(gang) else refusal

    @contextmanager
    def binding(self, pod_request: PodRequest) -> Iterator[None]:
        """Keep what the gang of a pod holds while the pod is bound."""
        gang = self._gang(pod_request)
        if gang is None:
            yield
            return
        state = self._states.of(gang, REMEMBERED)
        state.binding += 1
        try:
            yield
        finally:
            state.binding -= 1

    def not_bound(self, pod_request: PodRequest, node: str, committed: Committed) -> None:
        """Note that a Binding was refused for good: what its gang holds can be given back.

        Not where an earlier Binding may be on its way.
        """
        gang = self._gang(pod_request)
        state = None if gang is None else self._states.get(gang.key)
        if state is not None and state.hold is not None:
            change = committed.earlier_attempt, committed.attempt
            state.hold.note_change(pod_request.request.uid, node, change)

    def fits(self, pod_request: PodRequest) -> bool:
        """Return whether a pod fits any node now, with all of its gang; nothing is held."""
        gang = self._gang(pod_request)
        if gang is None:
            return self._feasibility.fits_any(pod_request)
        state = self._states.of(gang, REMEMBERED)
        revision, known = self._feasibility.revision, state.fitting
        if known is None or known.gang is not gang or known.revision != revision:
            basis = self._basis(gang)
            same = known is not None and known.basis == basis
            placeable = known.placeable if known and same else self._placeable(gang)
            until = self._marked_until(gang)
            known = state.fitting = Fitting(gang, revision, basis, placeable, until)
        if self._rest(gang, state, known.marked_until):
            self._rested_at = self._rested_at or self._clock.now() + REST * SECOND
            return False
        if known.placeable is None:
            return self._feasibility.fits_any(pod_request)
        return pod_request.request.uid in known.placeable

    def has_rested(self) -> bool:
        """Return whether a gang that did not fit because it rested may fit now; once each time."""
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

    @asynccontextmanager
    async def _locked(
        self, pod_request: PodRequest, gang: Gang
    ) -> AsyncIterator[tuple[Gang, GangState]]:
        """Have the gang of a pod as it is now and its state alone, while what it holds may change.

        It may have got another key meanwhile, and so another state.
        """
        key = None
        while key != gang.key:
            key = gang.key
            state = self._states.of(gang, REMEMBERED)
            state.users += 1
            try:
                async with state.lock:
                    gang = self._gang(pod_request) or gang
                    if gang.key == key:
                        yield gang, state
            finally:
                state.users -= 1

    def _placeable(self, gang: Gang) -> frozenset[str] | None:
        """Return the pods that have room now or are placed, if they are enough.

        None means that each pod stands alone.
        """
        if self._is_complete(gang):
            return None
        members = self._members(gang)
        if members.lacks() > LARGEST or len(members.kinds()) > KINDS:
            return NONE
        every = NodeNames(self._ledgers.inventory.names())
        planned = self._plan(members.at_first(LARGEST), {}, lambda _: every).placed
        return NONE if members.lacks(planned) else members.placed.union(planned)

    def _gang(self, pod_request: PodRequest) -> Gang | None:
        if pod_request.request.plugin is not None:
            return None
        return self._source.gang(pod_request.pod)

    async def _known(self, pod_request: PodRequest, gang: Gang) -> Gang:
        """Return the gang with as many pods as its scheduler must know, if the watch reports them.

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

    async def _hold(
        self,
        gang: Gang,
        state: GangState,
        pod_request: PodRequest,
        names: NodeNames,
        moving: frozenset[str],
    ) -> GangRefusal | None:
        """Plan the pods that have no cards, and commit the cards of all of them.

        Args:
            gang: with all its pods.
            state: of the gang.
            pod_request: the pod that is asked about.
            names: where it may go.
            moving: as of ``GangMembers``: their scheduler names their nodes no more.
        """
        members, lacking = self._members(gang, moving), Counter[str]()
        for part in gang.parts:
            lacking[part.ref.namespace] += part.lacks(members.placed | moving)
        for namespace, number in lacking.items():
            if number > LARGEST - self._held_in(namespace) or lacking.total() > LARGEST:
                return full(namespace, gang, LARGEST)
        kinds = members.kinds()
        if len(kinds) > KINDS:
            return GangRefusal(too_many(gang, KINDS))
        evaluated = await self._evaluated(kinds)
        members = self._members(gang, moving).at_first(LARGEST)
        plan = self._plan(members, evaluated, self._may_go(pod_request, names))
        lacks = members.lacks(plan.placed)
        if lacks:
            for pod in gang.pods:
                self._limited.pop(pod.metadata.uid, None)  # it may be another node the next time
            refusal = GangRefusal(together(gang, lacks, plan))
            state.refusal = self._basis(gang, names), refusal
            return refusal
        planned = members.at_most(lambda name: LARGEST - self._held_in(name), plan.placed)
        for part in gang.parts:
            if part.lacks(members.placed.union(planned)):
                return full(part.ref.namespace, gang, LARGEST)
        requests = {each.request.uid: each for each in members.waiting}
        state.committing = frozenset(planned)
        try:
            committed = await asyncio.gather(
                *(self._commit(requests[uid], to) for uid, to in planned.items())
            )
        finally:
            state.committing = frozenset()
        new = {
            (uid, planned[uid].node): answer.attempt
            for uid, answer in zip(planned, committed, strict=True)
            if isinstance(answer, Committed) and answer.new
        }
        refused = [each for each in committed if isinstance(each, str)]
        answered = [
            uid for uid, each in zip(planned, committed, strict=True) if isinstance(each, Committed)
        ]
        if self._members(gang, moving).lacks(answered):
            await asyncio.gather(*(self._release(*at, attempt) for at, attempt in new.items()))
            return GangRefusal(f"{named(gang)}: try again: {[*refused, 'ledgers changed'][0]}")
        uids = {pod.metadata.uid for pod in gang.pods}
        is_first = not any(self._ledgers.has_committed(uid) for uid in uids.difference(answered))
        hold = state.hold_from(self._clock.now() - (0 if is_first else FRESH))
        hold.forget_except(uids)
        hold.written |= new
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

    async def _give_back(self, gang: Gang, state: GangState, uid: str) -> GangRefusal | None:
        """Release what a gang holds if its scheduler cannot use it; None where it keeps it.

        Args:
            gang: of which all pods have cards.
            state: of the gang.
            uid: of the pod that its scheduler asks about again.
        """
        refusal = self._rest(gang, state)
        if refusal is not None:
            return refusal
        hold = state.hold_from(self._clock.now() - FRESH)
        hold.asked[uid] += 1
        if not gives_back(gang, state, hold, uid):
            return None
        await asyncio.gather(*(self._release_held(state, *held) for held in [*hold.written]))
        state.hold, state.given_back_at = None, self._clock.now()
        return resting(gang)

    def _plan(
        self,
        members: GangMembers,
        evaluated: Mapping[Hashable, NodeEvaluation],
        may_go: Callable[[PodRequest], NodeNames],
    ) -> GangPlan:
        """Return where the pods go that wait; those kinds are evaluated that are not yet."""

        def evaluate(kind: Hashable, request: Request) -> NodeEvaluation:
            known = evaluated.get(kind)
            return self._feasibility.evaluate_request(request) if known is None else known

        return members.plan(evaluate, may_go, self._quotas.refusal_of)

    def _may_go(self, asked: PodRequest, names: NodeNames) -> Callable[[PodRequest], NodeNames]:
        """Return where the pods of a gang may go whose scheduler asks about one of them.

        Args:
            asked: that one.
            names: where that one may go, and so those that select their nodes alike. The others
                may go where their scheduler named nodes before, else anywhere.
        """
        every = NodeNames(self._ledgers.inventory.names())

        def may_go(each: PodRequest) -> NodeNames:
            if each.request.uid == asked.request.uid:
                return names
            alike = _selection(each.pod) == _selection(asked.pod)
            return self._limited.get(each.request.uid, names if alike else every)

        return may_go

    def _members(self, gang: Gang, moving: frozenset[str] = NONE) -> GangMembers:
        """Return what the pods of a gang have now."""
        return members_of(gang, self._ledgers.has_committed, self._pod_requests.read, moving)

    def _is_complete(self, gang: Gang) -> bool:
        """Return whether enough pods of a gang are placed.

        Requests are read only where that matters.
        """
        return not gang.lacks(self._with_cards(gang)) or not self._members(gang).lacks()

    def _with_cards(self, gang: Gang) -> frozenset[str]:
        """Return the pods that are bound or have cards; others may need none."""
        uids = ((pod.metadata.uid, pod.spec.node_name) for pod in gang.pods)
        return frozenset(uid for uid, node in uids if node or self._ledgers.has_committed(uid))

    def _node_of(self, uid: str, names: NodeNames) -> str | None:
        """Return the node on which a pod has cards, if it is one of these."""
        inventory = self._ledgers.inventory
        rows = names.rows(inventory)
        held = (node for node, _ in self._ledgers.committed(uid))
        return next((node for node in held if (rows == inventory.row(node)).any()), None)

    def _held_in(self, namespace: str) -> int:
        """Return how many unbound pods of a namespace have cards for their gang, or soon."""
        uids = (pod.metadata.uid for pod in self._source.unbound(namespace))
        committing = NONE.union(*(state.committing for state in self._states.values()))
        return sum(uid in committing or self._ledgers.has_committed(uid) for uid in uids)

    def _marked_until(self, gang: Gang) -> int:
        return marked_until(gang, self._marks, self._clock.now(), self._clock.wall())

    def _rest(self, gang: Gang, state: GangState, marked: int | None = None) -> GangRefusal | None:
        """Return why a gang must rest; None where it may hold cards.

        Args:
            gang: with all its pods.
            state: of the gang.
            marked: as ``marked_until`` returns it, where that is known.
        """
        until = self._marked_until(gang) if marked is None else marked
        return rest(
            gang,
            state.given_back_at,
            self._clock.now(),
            is_marked=self._clock.now() < until,
            has_cards=lambda each: bool(self._with_cards(each)),
        )

    def _basis(self, gang: Gang, names: NodeNames | None = None) -> object:
        """Return what a plan depends on; without names, one for all nodes."""
        parts = tuple(
            (part.ref, part.minimum, frozenset(pod.metadata.uid for pod in part.pods))
            for part in gang.parts
        )
        rows = b"" if names is None else names.rows(self._ledgers.inventory).tobytes()
        return self._feasibility.revision, parts, hash(rows)

    async def _renew(self, gang: Gang, state: GangState) -> GangRefusal | None:
        """Keep the cards of a gang's pods that are not bound; return why that failed."""
        unbound = (pod.metadata.uid for pod in gang.pods if not pod.spec.node_name)
        held = [(uid, node) for uid in unbound for node, _ in self._ledgers.committed(uid)]
        try:
            kept = await asyncio.gather(*(self._committer.renew(uid, node) for uid, node in held))
        except (LedgerContended, OSError) as error:
            return GangRefusal(f"{named(gang)}: try again: {error}")
        for (uid, node), change in zip(held, kept, strict=True):
            if change is not None and state.hold is not None:
                state.hold.note_change(uid, node, change)
        if not all(kept):
            return GangRefusal(f"{named(gang)}: try again: cards were released")
        now = self._clock.now()
        state.hold_from(now).since = now
        return None

    async def _commit(self, pod_request: PodRequest, to: Placement) -> Committed | str:
        """Commit the cards of a plan to one pod, or others that fit; the text says why neither."""
        try:
            answer = await self._committer.commit(pod_request, to.node, to.grants)
        except (LedgerContended, OSError) as error:
            return str(error)
        return answer.text() if isinstance(answer, Reason) else answer

    async def _release_held(self, state: GangState, uid: str, node: str) -> None:
        """Release what this process held for a gang, unless an attempt to bind the pod has begun.

        A Binding may be on its way then, and the pod have the cards; the reconciler finds out.
        """
        attempt = None if state.hold is None else state.hold.written.pop((uid, node), None)
        if attempt is not None:
            await self._release(uid, node, attempt)

    async def _release(self, uid: str, node: str, attempt: int) -> None:
        try:
            await self._committer.release(uid, node, attempt)
        except (LedgerContended, OSError):
            return  # the reconciler will


def _selection(pod: Pod) -> object:
    """Return what of a pod selects its nodes."""
    return pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations

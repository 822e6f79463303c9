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
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar
from weakref import WeakValueDictionary

from adapters.accounting.gang_cache import Gang, GangPart
from adapters.accounting.pod_requests import PodRequest, PodRequestCache
from adapters.accounting.repairs import RELEASED
from adapters.dialects.dialect import DialectError
from adapters.service.decide.advice.feasibility import Feasibility
from adapters.service.decide.commit.card_choice import Committed
from adapters.service.decide.commit.committer import Committer
from adapters.service.decide.commit.ledger_writer import LedgerContended
from adapters.service.decide.ports import Clock, GangSource
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas
from adapters.wire.kube import Pod, annotations
from core.durations import SECOND
from core.feasibility.cache import request_signature
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.gang_plan import Candidate, GangPlan, place_together
from core.feasibility.node_names import NodeNames
from core.quota.amounts import NOTHING, QuotaAmounts, amounts_of
from core.requests.gang import GangRef
from core.requests.grant import Allocation, Placement
from core.requests.pod_ref import PodRef
from core.requests.reason import Reason
from core.requests.request import Request

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

NONE: frozenset[str] = frozenset()
NOT_EVALUATED: Mapping[Hashable, NodeEvaluation] = {}

LARGEST = 512
"""Pods of a namespace that are not bound and have cards for their gang, at most."""

ROUNDS = 3
"""How often a pod is answered with the node that is held for it before the gang gives its cards
back: a scheduler binds a gang after one answer for each pod, unless it lacks something else."""

REST = 60
"""Seconds in which a gang holds nothing after it held cards that it did not use."""

LOOK, LOOKS = 0.02, 50
"""Seconds between two looks, and how many there are, for what the watches will report: pods that
the scheduler knows, and ledgers that another replica has just written."""

KINDS = 32
"""Different requests of the pods of a gang, at most: each takes a look at every class of nodes."""

NOT_AGAIN = 20 * SECOND
"""Nanoseconds in which no filter of a namespace waits for pods, after one did in vain."""

FRESH = 30 * SECOND
"""Nanoseconds after which cards that are held are committed again before the first bind."""

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
        written: by uid and node, ``since`` of the allocation that was committed for the gang. Each
            attempt to bind the pod, in any replica, gives the allocation another one.
    """

    since: int
    asked: Counter[str] = field(default_factory=Counter)
    written: dict[tuple[str, str], int] = field(default_factory=dict)


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
        self._limited: OrderedDict[str, NodeNames] = OrderedDict()
        self._holds: OrderedDict[GangRef, _Hold] = OrderedDict()
        self._given_back_at: OrderedDict[GangRef, int] = OrderedDict()
        self._refused: OrderedDict[GangRef, tuple[object, GangRefusal]] = OrderedDict()
        self._in_vain: OrderedDict[str, int] = OrderedDict()
        self._fitting: OrderedDict[GangRef, tuple[object, frozenset[str]]] = OrderedDict()

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
        async with self._locks.setdefault(_key(gang), asyncio.Lock()):
            node = self._node_of(uid, names)
            if node is not None and not gang.lacks(self._placed(gang)):
                return await self._given_back(gang, uid) or node
            elsewhere = [node for node, _ in self._ledgers.committed(uid)] if node is None else []
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

        Before the first bind of a gang its cards are committed again where that was long ago, so
        that none are released while the gang is bound.
        """
        gang = self._gang(pod_request)
        if gang is None:
            return None
        own = frozenset((pod_request.request.uid,))
        for _ in range(LOOKS):
            if not gang.lacks(self._placed(gang) | own):
                break
            await asyncio.sleep(LOOK)
            gang = self._gang(pod_request) or gang
        else:
            held = len(self._placed(gang))
            return GangRefusal(f"{_named(gang)}: cards of {held} of its pods are held")
        if any(pod.spec.node_name for pod in gang.pods):
            return None
        async with self._locks.setdefault(_key(gang), asyncio.Lock()):
            hold = self._holds.get(_key(gang))
            if hold is not None and self._clock.now() - hold.since < FRESH:
                return None
            return await self._renew(gang, own)

    def fits(self, pod_request: PodRequest) -> bool:
        """Whether a pod fits any node now, with all of its gang; nothing is held."""
        gang = self._gang(pod_request)
        if gang is None:
            return self._feasibility.fits_any(pod_request)
        if self._rests(gang) or len(self._kinds(gang)) > KINDS:
            return False
        state = self._state(gang)
        known = self._fitting.get(_key(gang))
        if known is None or known[0] != state:
            placed = self._placed(gang) | self._plan(gang).placed.keys()
            known = state, NONE if gang.lacks(placed) else placed
            _remember(self._fitting, _key(gang), known)
        return pod_request.request.uid in known[1]

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

    def _gang(self, pod_request: PodRequest) -> Gang | None:
        if pod_request.request.plugin is not None:
            return None
        return self._source.gang(pod_request.pod)

    async def _known(self, pod_request: PodRequest, gang: Gang) -> Gang:
        """The gang with as many pods as its scheduler must know, if the watch reports them soon.

        A scheduler places no other pod meanwhile: not again for a while where it was in vain.
        """
        namespace = gang.ref.namespace
        if not _incomplete(gang) or self._clock.now() < self._in_vain.get(namespace, 0):
            return gang
        for _ in range(LOOKS):
            await asyncio.sleep(LOOK)
            gang = self._gang(pod_request) or gang
            if not _incomplete(gang):
                return gang
        _remember(self._in_vain, namespace, self._clock.now() + NOT_AGAIN)
        return gang

    def _refusal(self, gang: Gang, names: NodeNames) -> GangRefusal | None:
        """Why no plan is made for a gang."""
        for part in _incomplete(gang):
            return GangRefusal(f"gang {part.ref}: {len(part.pods)} of {part.minimum} pods exist")
        if self._rests(gang):
            return _rest(gang)
        known = self._refused.get(_key(gang))
        return known[1] if known is not None and known[0] == self._state(gang, names) else None

    async def _hold(
        self, gang: Gang, pod_request: PodRequest, names: NodeNames, moving: frozenset[str]
    ) -> GangRefusal | None:
        """Plan the pods that have no cards, and commit the cards of all of them.

        Args:
            gang: with all its pods.
            pod_request: the pod that is asked about.
            names: where it may go.
            moving: pods whose cards are on nodes that their scheduler does not name any more. They
                keep these until they have others.
        """
        evaluated = await self._evaluated(gang, moving)
        if evaluated is None:
            return GangRefusal(
                f"{_named(gang)}: its pods request more than {KINDS} different shares"
            )
        plan = self._plan(gang, pod_request, names, moving, evaluated)
        planned = plan.placed
        lacks = gang.lacks(self._placed(gang) - moving | planned.keys())
        if lacks:
            return self._refuse(gang, names, gang.minimum - lacks, plan)
        planned = self._within_number(gang, planned, moving)
        if gang.lacks(self._placed(gang) - moving | planned.keys()):
            return GangRefusal(
                f"{_named(gang)}: at most {LARGEST} pods of namespace"
                f" {pod_request.pod.metadata.namespace} hold cards before they are bound"
            )
        requests = {each.request.uid: each for each in self._waiting(gang, moving)}
        committed = await asyncio.gather(
            *(self._commit(requests[uid], to.node) for uid, to in planned.items())
        )
        answers = {
            uid: answer
            for uid, answer in zip(planned, committed, strict=True)
            if isinstance(answer, Committed)
        }
        held = answers.keys()
        if gang.lacks(self._placed(gang) - moving | held):
            for uid, answer in answers.items():
                if answer.new:
                    await self._release(uid, planned[uid].node, answer.since)
            why = next((each for each in committed if isinstance(each, str)), "ledgers changed")
            return GangRefusal(f"{_named(gang)}: try again: {why}")
        hold = self._hold_of(gang, self._clock.now())
        for uid, answer in answers.items():
            if answer.new:
                hold.written[uid, planned[uid].node] = answer.since
        return None

    async def _evaluated(
        self, gang: Gang, moving: frozenset[str]
    ) -> Mapping[Hashable, NodeEvaluation] | None:
        """Evaluate the pods of a gang, so that a plan is made fast; other calls run in between.

        Returns:
            by kind of request; None where there are too many kinds.
        """
        kinds = self._kinds(gang, moving)
        if len(kinds) > KINDS:
            return None
        inventory = self._ledgers.inventory
        version = inventory.membership_version
        evaluated: dict[Hashable, NodeEvaluation] = {}
        for kind, request in kinds.items():
            evaluated[kind] = self._feasibility.evaluate_request(request)
            evaluated[kind].ranks(inventory.rows())
            await asyncio.sleep(0)
            if (self._ledgers.inventory, inventory.membership_version) != (inventory, version):
                return {}  # an evaluation knows its nodes only
        return evaluated

    def _kinds(self, gang: Gang, moving: frozenset[str] = NONE) -> Mapping[Hashable, Request]:
        """The different requests of the pods of a gang that need cards."""
        return {_kind(each.request): each.request for each in self._waiting(gang, moving)}

    async def _given_back(self, gang: Gang, uid: str) -> GangRefusal | None:
        """Release what a gang holds if its scheduler cannot use it; None where it keeps it.

        Args:
            gang: of which all pods have cards.
            uid: of the pod that its scheduler asks about again.
        """
        hold = self._hold_of(gang, self._clock.now() - FRESH)
        hold.asked[uid] += 1
        if hold.asked[uid] <= ROUNDS or any(pod.spec.node_name for pod in gang.pods):
            return None
        for other, node in [*hold.written]:
            await self._release_held(gang, other, node)
        self._holds.pop(_key(gang), None)
        _remember(self._given_back_at, _key(gang), self._clock.now())
        return _rest(gang)

    def _hold_of(self, gang: Gang, since: int) -> _Hold:
        """What this process holds for a gang; where it holds nothing yet, from a time on."""
        hold = self._holds.get(_key(gang)) or _Hold(since)
        _remember(self._holds, _key(gang), hold)
        return hold

    def _plan(
        self,
        gang: Gang,
        asked: PodRequest | None = None,
        names: NodeNames | None = None,
        moving: frozenset[str] = NONE,
        evaluated: Mapping[Hashable, NodeEvaluation] = NOT_EVALUATED,
    ) -> GangPlan:
        """Where the pods without cards go.

        Args:
            gang: with all its pods.
            asked: the pod that its scheduler asks about; None where it asks about none.
            names: where that one may go, and so those that select their nodes alike. The others
                may go where their scheduler named nodes before, else anywhere.
            moving: as of ``_hold``.
            evaluated: what is known already, by kind of request.
        """
        every = NodeNames(self._ledgers.inventory.names())

        def may_go(each: PodRequest) -> NodeNames:
            if names is None or asked is None:
                return every
            if each.request.uid == asked.request.uid:
                return names
            alike = _selection(each.pod) == _selection(asked.pod)
            return self._limited.get(each.request.uid, names if alike else every)

        waiting = self._waiting(gang, moving)
        known = {**evaluated}
        for each in waiting:
            if _kind(each.request) not in known:
                known[_kind(each.request)] = self._feasibility.evaluate_request(each.request)
        plan = place_together(
            [Candidate(each.request, known[_kind(each.request)], may_go(each)) for each in waiting]
        )
        counted = {
            each.request.uid: each.request for each in waiting if each.request.uid not in moving
        }
        return self._within_quotas(gang, plan, counted)

    def _within_quotas(
        self, gang: Gang, plan: GangPlan, counted: Mapping[str, Request]
    ) -> GangPlan:
        """Drop the pods of a plan that their quotas refuse together with the others.

        Args:
            gang: with all its pods.
            plan: each of its pods is within its quota alone.
            counted: the pods that no quota counts yet, by uid.
        """
        placed, short, reason = {**plan.placed}, plan.short, plan.reason
        taken: dict[str, QuotaAmounts] = {}
        for uid in self._needed_first(gang, plan.placed.keys()):
            request, to = counted.get(uid), plan.placed[uid]
            if request is None:
                continue
            node = self._ledgers.inventory.ledger(to.node).node
            holder = PodRef.parse(request.pod, uid)
            amounts = amounts_of(Allocation.of(request, to), node)
            amounts = amounts.plus(taken.get(holder.namespace, NOTHING))
            if self._quotas.refusal_of(holder, amounts) is None:
                taken[holder.namespace] = amounts
                continue
            del placed[uid]
            if not short:
                short = request.pod
                reason = f"the gang is over the quota of namespace {holder.namespace}"
        return GangPlan(placed, short, reason)

    def _needed_first(self, gang: Gang, planned: Collection[str]) -> list[str]:
        """The pods of a plan, those first without which the gang cannot be bound."""
        placed = self._placed(gang) - frozenset(planned)
        needed, more = list[str](), list[str]()
        for part in gang.parts:
            uids = [pod.metadata.uid for pod in part.pods]
            missing = max(0, part.minimum - sum(uid in placed for uid in uids))
            new = [uid for uid in uids if uid in planned]
            needed += new[:missing]
            more += new[missing:]
        return needed + more

    def _waiting(self, gang: Gang, moving: frozenset[str]) -> list[PodRequest]:
        """The pods of a gang that need cards and have none, and those that need others."""
        placed = self._placed(gang) - moving
        requests = (self._request(pod) for pod in gang.pods if pod.metadata.uid not in placed)
        return [each for each in requests if each is not None]

    def _request(self, pod: Pod) -> PodRequest | None:
        try:
            return self._pod_requests.read(pod)
        except DialectError:
            return None

    def _placed(self, gang: Gang) -> frozenset[str]:
        """The pods that are bound, that have cards, or that need none of ours."""
        return frozenset(
            pod.metadata.uid
            for pod in gang.pods
            if pod.spec.node_name or self._has_cards(pod) or self._needs_no_cards(pod)
        )

    def _needs_no_cards(self, pod: Pod) -> bool:
        try:
            found = self._pod_requests.read(pod)
        except DialectError:
            return False
        return found is None or found.request.plugin is not None

    def _node_of(self, uid: str, names: NodeNames) -> str | None:
        """The node on which a pod has cards, if it is one of these."""
        inventory = self._ledgers.inventory
        rows = names.rows(inventory)
        held = (node for node, _ in self._ledgers.committed(uid))
        return next((node for node in held if (rows == inventory.row(node)).any()), None)

    def _within_number(
        self, gang: Gang, planned: Mapping[str, Placement], moving: frozenset[str]
    ) -> Mapping[str, Placement]:
        """The pods of a plan that may hold cards now, those first that the gang needs."""
        left = LARGEST - self._held_in(gang.ref.namespace)
        if len(planned.keys() - moving) <= left:
            return planned
        new = [uid for uid in self._needed_first(gang, planned.keys()) if uid not in moving]
        kept = moving.union(new[: max(0, left)])
        return {uid: to for uid, to in planned.items() if uid in kept}

    def _held_in(self, namespace: str) -> int:
        """How many pods of a namespace that are not bound have cards for their gang."""
        return sum(self._has_cards(pod) for pod in self._source.unbound(namespace))

    def _has_cards(self, pod: Pod) -> bool:
        """Whether the store has an allocation of a pod, on any node."""
        return next(self._ledgers.committed(pod.metadata.uid), None) is not None

    def _rests(self, gang: Gang) -> bool:
        """Whether cards of a gang were released a moment ago because they were not used."""
        given_back = self._given_back_at.get(_key(gang))
        if given_back is not None and self._clock.now() - given_back < REST * SECOND:
            return True
        now = self._clock.wall() / SECOND
        return any(0 <= now - at < REST for pod in gang.pods for at in _released(pod))

    def _refuse(self, gang: Gang, names: NodeNames, fit: int, plan: GangPlan) -> GangRefusal:
        for pod in gang.pods:
            self._limited.pop(pod.metadata.uid, None)  # it may be another node the next time
        why = f"; no room for {plan.short}: {plan.reason}" if plan.short else ""
        refusal = GangRefusal(f"{_named(gang)}: {fit} of {gang.minimum} fit together{why}")
        _remember(self._refused, _key(gang), (self._state(gang, names), refusal))
        return refusal

    def _state(self, gang: Gang, names: NodeNames | None = None) -> object:
        """What a plan depends on; without names, one for all nodes."""
        parts = tuple(
            (part.ref, part.minimum, frozenset(pod.metadata.uid for pod in part.pods))
            for part in gang.parts
        )
        rows = b"" if names is None else names.rows(self._ledgers.inventory).tobytes()
        return self._feasibility.revision, parts, hash(rows)

    async def _renew(self, gang: Gang, own: frozenset[str]) -> GangRefusal | None:
        """Commit the cards of a gang's other pods again."""
        held = [
            (request, node)
            for pod in gang.pods
            if pod.metadata.uid not in own and (request := self._request(pod)) is not None
            for node, _ in self._ledgers.committed(pod.metadata.uid)
        ]
        answers = await asyncio.gather(*(self._commit(request, node) for request, node in held))
        failed = next((why for why in answers if isinstance(why, str)), None)
        if failed is not None:
            return GangRefusal(f"{_named(gang)}: try again: {failed}")
        now = self._clock.now()
        self._hold_of(gang, now).since = now
        return None

    async def _commit(self, pod_request: PodRequest, node: str) -> Committed | str:
        """Commit the cards of one pod; a text says why it has none."""
        try:
            answer = await self._committer.commit(pod_request, node)
        except (LedgerContended, OSError) as error:
            return str(error)
        return answer.text() if isinstance(answer, Reason) else answer

    async def _release_held(self, gang: Gang, uid: str, node: str) -> None:
        """Release what this process held for a gang, unless an attempt to bind the pod has begun.

        A Binding may be on its way then, and the pod have the cards; the reconciler finds out.
        """
        hold = self._holds.get(_key(gang))
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


def _key(gang: Gang) -> GangRef:
    """A name that all gangs have in common that are bound together."""
    return gang.parts[0].ref


def _incomplete(gang: Gang) -> list[GangPart]:
    """The parts with fewer pods than are bound together."""
    return [part for part in gang.parts if len(part.pods) < part.minimum]


def _kind(request: Request) -> Hashable:
    """Equal for pods of one namespace that request alike."""
    return PodRef.parse(request.pod).namespace, request_signature(request)


def _selection(pod: Pod) -> object:
    """What of a pod selects its nodes."""
    return pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations


def _rest(gang: Gang) -> GangRefusal:
    return GangRefusal(
        f"{_named(gang)}: its cards were held and not used; it gets its next turn {REST} s after"
        " they were released"
    )


def _named(gang: Gang) -> str:
    return f"gang {gang.ref} of {gang.minimum}"


def _released(pod: Pod) -> Iterator[float]:
    """When the leader released cards of a pod that were not used: seconds since 1970."""
    text = annotations(pod).get(RELEASED)
    if text is None:
        return
    try:
        yield datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return

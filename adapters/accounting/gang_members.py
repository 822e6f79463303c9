"""The pods of a gang at one moment: what they have, a plan for the rest, and what people read."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from adapters.accounting.gang_cache import Gang, GangPart
from adapters.accounting.pod_requests import PodRequest
from adapters.dialects.dialect import DialectError
from adapters.dialects.gangs import task_of
from adapters.wire.kube import Pod, UnreadPod
from core.feasibility.cache import request_signature
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.gang_plan import GangPlan, place_together
from core.feasibility.gang_search import Candidate, LeastNumber
from core.feasibility.inventory import NodeNames
from core.quota.amounts import NOTHING, QuotaAmounts, amounts_of
from core.requests.grant import Allocation, Placement
from core.requests.request import PodRef, Request

NONE: frozenset[str] = frozenset()

QuotaRefusal = Callable[[PodRef, QuotaAmounts], str | None]
"""Why the quota of a pod's namespace refuses some amounts now; None where it does not."""


@dataclass(frozen=True, slots=True)
class GangMembers:
    """What the pods of a gang have.

    A pod that cannot be decoded, or whose request is invalid, is neither placed nor waits.

    Attributes:
        gang: with all its pods.
        placed: uids of those that are bound, that have cards, or that need none of ours.
        waiting: those that need cards.
        moving: uids of those that wait and have cards, on nodes where they cannot go. They keep
            these until they have others.
    """

    gang: Gang
    placed: frozenset[str]
    waiting: tuple[PodRequest, ...]
    moving: frozenset[str] = NONE

    def lacks(self, planned: Iterable[str] = ()) -> int:
        """Return how many pods must be placed before one may be bound.

        Args:
            planned: uids of pods that will be placed.
        """
        return self.gang.lacks(self.placed.union(planned))

    def kinds(self) -> Mapping[Hashable, Sequence[PodRequest]]:
        """Return the pods that wait, by kind: those of one namespace that request alike."""
        kinds: dict[Hashable, list[PodRequest]] = {}
        for each in self.waiting:
            request = each.request
            kind = PodRef.parse(request.pod).namespace, request_signature(request)
            kinds.setdefault(kind, []).append(each)
        return kinds

    def plan(
        self,
        evaluate: Callable[[Hashable, Request], NodeEvaluation],
        may_go: Callable[[PodRequest], NodeNames],
        refusal_of: QuotaRefusal,
    ) -> GangPlan:
        """Return where the pods that wait go.

        Args:
            evaluate: evaluates the nodes as they are now, for a kind and a request of it.
            may_go: where a pod may go.
            refusal_of: of the quotas, which count no pod that waits, except those of ``moving``.
        """
        candidates: dict[str, Candidate] = {}
        for kind, alike in self.kinds().items():
            evaluation = evaluate(kind, alike[0].request)
            for each in alike:
                candidate = Candidate(each.request, evaluation, may_go(each))
                candidates[each.request.uid] = candidate
        plan = place_together([*candidates.values()], self._least_numbers())
        placed, short, reason = {**plan.placed}, plan.short, plan.reason
        taken: dict[str, QuotaAmounts] = {}
        for uid in self._needed_first(plan.placed):
            if uid in self.moving:
                continue
            request, to = candidates[uid].request, plan.placed[uid]
            node = candidates[uid].evaluation.inventory.ledger(to.node).node
            holder = PodRef.parse(request.pod, uid)
            amounts = amounts_of(Allocation.of(request, to), node)
            amounts = amounts.plus(taken.get(holder.namespace, NOTHING))
            if refusal_of(holder, amounts) is None:
                taken[holder.namespace] = amounts
                continue
            del placed[uid]
            if not short:
                short = request.pod
                reason = f"the gang is over the quota of namespace {holder.namespace}"
        over = frozenset(plan.placed.keys() - placed.keys())
        return GangPlan(placed, short, reason, over, plan.is_best and not over)

    def at_first(self, number: int) -> "GangMembers":
        """Return this with the first pods only that wait, those that the gang needs before others.

        Args:
            number: of pods, beside those of ``moving``.
        """
        if len(self.waiting) <= number:
            return self
        waiting = {each.request.uid: each for each in self.waiting}
        kept = self.moving.union(self._needed_first(waiting)[:number])
        return replace(self, waiting=tuple(waiting[uid] for uid in waiting if uid in kept))

    def at_most(
        self, number: Callable[[str], int], planned: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return a part of a plan, those pods first without which the gang cannot be bound.

        Args:
            number: how many pods of a namespace get cards; those of ``moving`` have some already.
            planned: the plan.
        """
        parts, new = self.gang.parts, dict[str, list[str]]()
        of = {pod.metadata.uid: part.ref.namespace for part in parts for pod in part.pods}
        for uid in self._needed_first(planned.keys() - self.moving):
            new.setdefault(of[uid], []).append(uid)
        kept = self.moving.union(*(uids[: max(0, number(name))] for name, uids in new.items()))
        if planned.keys() <= kept:
            return planned
        return {uid: to for uid, to in planned.items() if uid in kept}

    def _needed_first(self, planned: Collection[str]) -> Sequence[str]:
        """Return the pods of a plan, those first without which the gang cannot be bound."""
        uids = [pod.metadata.uid for pod in self.gang.pods if pod.metadata.uid in planned]
        needed: dict[str, None] = {}
        needs = self._least_numbers()
        for each in (*chain.from_iterable(need.within for need in needs), *needs):
            missing, new = each.lacks(frozenset(needed)), each.uids.difference(needed)
            needed |= dict.fromkeys([uid for uid in uids if uid in new][:missing])
        return [*needed, *(uid for uid in uids if uid not in needed)]

    def _least_numbers(self) -> Sequence[LeastNumber]:
        """Return how many more pods of each part, and of each of its tasks, must be placed."""
        parts: list[LeastNumber] = []
        for part in self.gang.parts:
            uids = frozenset(pod.metadata.uid for pod in part.pods)
            tasks = tuple(
                self._least_number(
                    frozenset(pod.metadata.uid for pod in part.pods if task_of(pod) == task), least
                )
                for task, least in part.tasks.items()
            )
            parts.append(replace(self._least_number(uids, part.minimum), within=tasks))
        return parts

    def _least_number(self, uids: frozenset[str], least: int) -> LeastNumber:
        return LeastNumber(uids - self.placed, least - len(uids & self.placed))


def members_of(
    gang: Gang,
    has_cards: Callable[[str], bool],
    read: Callable[[Pod], PodRequest | None],
    moving: frozenset[str] = NONE,
) -> GangMembers:
    """Return what the pods of a gang have now.

    Args:
        gang: with all its pods.
        has_cards: whether a pod has cards on any node, by its uid.
        read: what a pod requests; raises ``DialectError`` where that is invalid.
        moving: as of ``GangMembers``.
    """
    placed: set[str] = set()
    waiting: list[PodRequest] = []
    for pod in gang.pods:
        uid = pod.metadata.uid
        if uid not in moving and (pod.spec.node_name or has_cards(uid)):
            placed.add(uid)
            continue
        if isinstance(pod, UnreadPod):
            continue
        try:
            found = read(pod)
        except DialectError:
            continue
        if found is None or found.request.plugin is not None:
            placed.add(uid)
        else:
            waiting.append(found)
    return GangMembers(gang, frozenset(placed), tuple(waiting), moving)


KINDS = 32
"""Different requests of the pods of a gang, at most: each takes a look at every class of nodes."""


def named(gang: Gang) -> str:
    """Return the name of a gang and how many of its pods are bound together."""
    return f"gang {gang.ref} of {gang.minimum}"


def incomplete(gang: Gang) -> list[GangPart]:
    """Return the parts with fewer pods than are bound together."""
    return [part for part in gang.parts if len(part.pods) < part.minimum]


def too_few(gang: Gang) -> str | None:
    """Return that a gang has fewer pods than are bound together; None where it has enough."""
    for part in incomplete(gang):
        return f"gang {part.ref}: {len(part.pods)} of {part.minimum} pods exist"
    return None


def too_many(gang: Gang, kinds: int) -> str:
    """Return that the pods of a gang request more different shares than are planned."""
    return f"{named(gang)}: its pods request more than {kinds} different shares"


def together(gang: Gang, lacks: int = 0, plan: GangPlan | None = None) -> str:
    """Return how many pods of a gang fit together, or at least do by a plan, and why no more.

    Args:
        gang: with all its pods.
        lacks: how many of those that are bound together have no place.
        plan: the best one that was found, where any lack.
    """
    least, why = "", ""
    if lacks and plan is not None:
        least = "" if plan.is_best else "at least "
        why = f"; no room for {plan.short}: {plan.reason}" if plan.short else ""
    return f"{named(gang)}: {least}{gang.minimum - lacks} of {gang.minimum} fit together{why}"

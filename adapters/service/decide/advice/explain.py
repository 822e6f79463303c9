"""Where a pod fits, and why it does not fit the other nodes. Nothing is allocated."""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from adapters.answer.answer import PodAnswer
from adapters.answer.eviction import NodeEviction, cost, evicting, evictions
from adapters.answer.judge import Judge
from adapters.service.decide.advice.facts import ServiceFacts
from adapters.wire.kube import Pod

T = TypeVar("T")

NODES = 200
"""Nodes that are compared with an empty one before other calls run: at most about ten
milliseconds."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One pod against all nodes.

    Attributes:
        answer: where it fits, and why not elsewhere.
        preemption_may_help: rejected nodes that it would fit if they were empty.
        eviction: the fewest pods of lower priority whose eviction would make room; None where none
            would, and for a gang, which gets nothing by evictions.
        evicts: whether the service evicts them.
    """

    answer: PodAnswer
    preemption_may_help: tuple[str, ...] = ()
    eviction: NodeEviction | None = None
    evicts: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say beside the reasons."""
        if self.eviction is None:
            return self.answer.notes
        return *self.answer.notes, self.eviction.text(self.answer.pod, evicts=self.evicts)


async def explain(facts: ServiceFacts, pod: Pod, *, evicts: bool = False) -> Explanation:
    """Evaluate all nodes for a pod. Other calls run in between; the time grows with the nodes.

    Args:
        facts: of the cluster.
        pod: the pod.
        evicts: whether the service evicts pods for others.
    """
    answer = await yielding(Judge(facts).steps(pod))
    if answer.found is None:
        return Explanation(answer)
    barred = {*answer.excluded.names, *facts.unreadable()}
    names = [name for name in answer.rejected.names if name not in barred]
    request = answer.found.request
    found: list[str] = []
    for start in range(0, len(names), NODES):
        await asyncio.sleep(0)
        part = names[start : start + NODES]
        found += facts.evaluate(request).resolvable(part)
    best: NodeEviction | None = None
    if evicting(answer) is not None:
        known = map(facts.inventory.get, found)  # a node may be gone by now
        for each in evictions(request, (ledger for ledger in known if ledger is not None)):
            best = min(filter(None, (best, each)), key=cost, default=None)
            await asyncio.sleep(0)
    return Explanation(answer, tuple(sorted(found)), best, evicts)


async def yielding(steps: Generator[None, None, T]) -> T:
    """Return the result of work in steps; other calls run after each of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)

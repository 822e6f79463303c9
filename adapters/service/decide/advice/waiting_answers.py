"""Why each pod that waits has no node, evaluated in the background for the dashboard.

A scheduler asks about a waiting pod only when it tries again, after minutes or never, and knows
nothing of what happened since. So this process evaluates the pods that have waited for ``PATIENCE``
itself, one after the other: pods alike are evaluated once, a pod again only after something
changed, and all of it takes at most ``SHARE`` of one processor, a few milliseconds at a time.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from adapters.accounting.pod_requests import template_of
from adapters.answer.answer import GangAnswer, NodeGroup, PodAnswer, joined, scheduler_message
from adapters.answer.judge import Judge
from adapters.service.decide.advice.facts import ServiceFacts
from adapters.service.decide.ports import Clock
from adapters.service.decide.state.readiness import Readiness
from adapters.wire.kube import Pod, full_name
from core.durations import MILLISECOND, SECOND

SHARE = 20
"""Work and the pause after it take together this many times as long as the work: a twentieth of
one processor."""

AT_ONCE = 2 * MILLISECOND
"""Nanoseconds of work without a pause; one step of an evaluation may take longer."""

EVERY = SECOND
"""Nanoseconds between two rounds."""

PATIENCE = 5 * SECOND
"""Nanoseconds for which a pod waits before it is evaluated. Schedulers bind most pods sooner; of
pods that came at once the evaluation took a fifth of this process's time for each pod."""

LIMIT = 10_000
"""Pods whose answer is kept; the names of pods decide which ones."""


@dataclass(frozen=True, slots=True)
class WaitingAnswer:
    """Why one pod waits.

    Attributes:
        summary: in a sentence.
        best: the node that it would go to; None where it fits none.
        fitting: how many nodes it fits.
        groups: the nodes that it does not fit, by cause.
        at: when it held, in nanoseconds since 1970.
    """

    summary: str
    best: str | None
    fitting: int
    groups: tuple[NodeGroup, ...]
    at: int


@dataclass(frozen=True, slots=True)
class _Known:
    """What is the same for pods alike, and the state of the cluster that it is about.

    Of the nodes only the groups are kept: with the reason of each node, the answers about thousands
    of pods would take a gigabyte.
    """

    text: str
    waits: bool
    best: str | None
    fitting: int
    groups: tuple[NodeGroup, ...]
    revision: object
    is_plain: bool
    gang: GangAnswer | None

    def of(self, uid: str) -> tuple[str, str | None]:
        """Return the text and the best node of one pod: those of a gang go to several nodes."""
        if self.gang is None:
            return self.text, self.best
        return self.gang.text_of(uid), self.gang.node_of(uid)


class WaitingAnswers:
    """The answers about all waiting pods."""

    def __init__(self, facts: ServiceFacts, clock: Clock, readiness: Readiness) -> None:
        """Know no answer yet.

        Args:
            facts: of the cluster. Its results are its own: those that filters need stay.
            clock: of the service.
            readiness: nothing is evaluated before the service is ready.
        """
        self._facts = facts
        self._clock = clock
        self._readiness = readiness
        self._by_uid: dict[str, WaitingAnswer] = {}
        self._alike: dict[bytes, _Known] = {}
        self._busy = 0

    def get(self, uid: str) -> WaitingAnswer | None:
        """Return the latest answer about a pod; None where it was not evaluated yet."""
        return self._by_uid.get(uid)

    async def run(self, unbound: Callable[[], Sequence[Pod]]) -> NoReturn:
        """Evaluate the pods that no scheduler has bound, round by round, until cancelled."""
        since: dict[str, int] = {}
        while True:
            await self._clock.sleep(EVERY)
            if not self._readiness.awaited:
                now, pods = self._clock.now(), unbound()
                since = {pod.metadata.uid: since.get(pod.metadata.uid, now) for pod in pods}
                late = [pod for pod in pods if now - since[pod.metadata.uid] >= PATIENCE]
                await self.round(late)

    async def round(self, pods: Sequence[Pod]) -> None:
        """Evaluate each pod once."""
        judge = Judge(self._facts)
        waiting = sorted(pods, key=full_name)[:LIMIT]
        uids = {pod.metadata.uid for pod in waiting}
        self._by_uid = {uid: each for uid, each in self._by_uid.items() if uid in uids}
        seen: dict[bytes, _Known] = {}
        for pod in waiting:
            began = self._clock.now()
            template = template_of(pod)
            # A pod with cards, which count as free for it, is like no other.
            has_cards = self._facts.inventory.nodes_of(pod.metadata.uid)
            key = template + pod.metadata.uid.encode() if has_cards else template
            known = seen.get(key) or self._alike.get(key)
            self._busy += self._clock.now() - began
            if known is None or (key not in seen and not self._holds(known)):
                known = await self._evaluated(judge, pod)
            seen[key] = known
            message = scheduler_message(pod) if known.waits else ""
            text, best = known.of(pod.metadata.uid)
            self._by_uid[pod.metadata.uid] = WaitingAnswer(
                joined(text, message), best, known.fitting, known.groups, self._clock.wall()
            )
            await self._pause()
        self._alike = seen

    def _holds(self, known: _Known) -> bool:
        """Return whether nothing has changed; devices of plugins change without a revision."""
        return known.revision == self._facts.revision and not known.is_plain

    async def _evaluated(self, judge: Judge, pod: Pod) -> _Known:
        revision = self._facts.revision
        answer = await self._slowly(judge.steps(pod))
        return _Known(
            answer.text(),
            answer.waits,
            answer.best,
            len(answer.fitting),
            answer.groups(),
            revision,
            answer.devices is not None,
            answer.gang if answer.gang is not None and answer.gang.decides else None,
        )

    async def _slowly(self, steps: Generator[None, None, PodAnswer]) -> PodAnswer:
        while True:
            began = self._clock.now()
            try:
                next(steps)
            except StopIteration as end:
                answer: PodAnswer = end.value
                return answer
            finally:
                self._busy += self._clock.now() - began
            await self._pause()

    async def _pause(self) -> None:
        """Let other calls run for as long as this work's share of the time demands."""
        if self._busy >= AT_ONCE:
            busy, self._busy = self._busy, 0
            await self._clock.sleep(busy * (SHARE - 1))

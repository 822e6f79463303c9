"""Makes schedulers retry rejected pods as soon as a node may have room for them.

kube-scheduler and koord-scheduler retry an unschedulable pod when the pod changes. They do not see
what a ledger has free, and would otherwise retry after minutes; vc-scheduler retries every second.
After a change of ledgers or quotas, and after a gang's rest, each waiting pod is evaluated once, in
the order of the rejections; after a start first those that wait already. Only a few are woken at a
time: the first of them may take the room of all. A gang is woken as a whole, and evaluated once:
koord-scheduler asks about one pod of it, and rejects the others with that one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from adapters.dialects.dialect import DialectError
from adapters.service.decide.service import Service
from adapters.wire.kube import Pod, rejection_of
from core.durations import MILLISECOND

EVERY = 0.5
"""Seconds between two rounds."""

WOKEN = 20
"""Pods woken in a round, and the others of the last one's gang."""

EVALUATED = 200
"""Pods evaluated in a round."""

Wake = Callable[[Pod, str], Awaitable[None]]
"""Changes a pod; the text is a new one each time, whichever process wakes it."""


@dataclass(eq=False, slots=True)
class PodRequeuer:
    """Evaluates the waiting pods again after each change of the ledgers.

    ``failed`` is called when to wake a pod failed, and returns whether to try again. ``unbound``
    are the pods that no scheduler has bound: those that are there at the first round may have been
    rejected by a process that has ended.
    """

    _service: Service
    _wake: Wake
    _failed: Callable[[Pod, OSError], bool]
    _unbound: Callable[[], Sequence[Pod]]
    _began: bool = False
    _revision: tuple[int, int] = (-1, -1)
    _to_evaluate: int = 0

    async def run(self) -> NoReturn:
        """Run rounds until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            await self.round()

    async def round(self) -> int:
        """Wake the pods that have room now.

        Returns:
            how many were woken.
        """
        service = self._service
        if service.readiness.awaited:
            return 0
        if not self._began:
            # The pods wait that request a share and that their scheduler could not place. Those of
            # device plugins are not ours.
            self._began = True
            for pod in filter(rejection_of, self._unbound()):
                with suppress(DialectError):
                    found = service.pod_requests.read(pod)
                    if found is not None and found.request.plugin is None:
                        service.waiting_pods.add(found)
        if service.revision != self._revision or service.gangs.has_rested():
            self._revision, self._to_evaluate = service.revision, len(service.waiting_pods)
        woken: dict[str, Pod] = {}
        evaluated = 0
        while self._to_evaluate > 0 and evaluated < EVALUATED and len(woken) < WOKEN:
            for pod in service.waiting_pods.pop_fitting(1, service.fits):
                for each in service.gangs.waiting(pod):
                    service.waiting_pods.discard(each.metadata.uid)
                    service.rejected_pods.woken(each.metadata.uid)
                    woken[each.metadata.uid] = each
            evaluated += 1
            self._to_evaluate -= 1
            await asyncio.sleep(0)
        for pod in woken.values():
            pod_request = service.pod_requests.get(pod.metadata.uid)
            try:
                await self._wake(pod, str(service.ports.clock.wall() // MILLISECOND))
            except OSError as error:
                if self._failed(pod, error) and pod_request is not None:
                    service.waiting_pods.add(pod_request)
                    self._to_evaluate += 1
        return len(woken)

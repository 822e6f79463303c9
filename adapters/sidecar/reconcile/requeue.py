"""Wakes the schedulers of refused pods as soon as there is room for these.

kube-scheduler and koord-scheduler look again at a pod that they could not place when the pod
changes; what a ledger has free they cannot see, and else they would wait for minutes. vc-scheduler
looks every second. Every pod is looked at once after a change, in the order of its refusal, and
only so many are woken at a time: the first of them may take the room of all.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from adapters.sidecar.decide.service import Service
from adapters.wire.kube import Pod

EVERY = 0.5
"""Seconds between two turns."""

WOKEN = 20
"""Pods that are woken in a turn, at most by ``STEP`` more."""

LOOKED = 200
"""Pods for which room is looked for in a turn."""

STEP = 10
"""Pods for which room is looked for before others are let run."""

Wake = Callable[[Pod, str], Awaitable[None]]
"""Changes a pod, with a text that is new each time."""


class PodRequeuer:
    """One turn after the other."""

    def __init__(
        self, service: Service, wake: Wake, failed: Callable[[Pod, OSError], bool]
    ) -> None:
        """Nobody is woken yet.

        Args:
            service: that refuses.
            wake: changes a pod.
            failed: told when that was not possible; says whether it is to be tried again.
        """
        self._service = service
        self._wake = wake
        self._failed = failed
        self._seen = -1
        self._left = 0

    async def run(self) -> NoReturn:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            await self.turn()

    async def turn(self) -> int:
        """Wake those that have room now.

        Returns:
            how many there were.
        """
        service = self._service
        if service.missing:
            return 0
        if service.ledgers.revision != self._seen:
            self._seen, self._left = service.ledgers.revision, service.waiting
        woken: list[Pod] = []
        looked = 0
        while self._left > 0 and looked < LOOKED and len(woken) < WOKEN:
            woken += service.retry(STEP)
            looked += STEP
            self._left = max(0, self._left - STEP)
            await asyncio.sleep(0)
        for pod in woken:
            await self._one(pod)
        return len(woken)

    async def _one(self, pod: Pod) -> None:
        asking = self._service.pod_requests.get(pod.metadata.uid)
        try:
            await self._wake(pod, str(self._seen))
        except OSError as error:
            if self._failed(pod, error) and asking is not None:
                self._service.waits(asking, refused=True)
                self._left += 1

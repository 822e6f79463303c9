"""Pods that no scheduler has bound yet, with all that was reported of them."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from adapters.wire.kube import Pod


class UnboundPods:
    """The pods that wait for a scheduler and that some function selects, by uid."""

    def __init__(self, selects: Callable[[Pod], bool]) -> None:
        """Begin empty.

        Args:
            selects: whether a pod counts.
        """
        self._selects = selects
        self._pods: dict[str, Pod] = {}
        self._added = asyncio.Event()

    def put(self, pod: Pod) -> None:
        """Add or replace a pod; one that is bound, ends or is deleted is removed."""
        waits = not pod.spec.node_name and pod.status.phase in (None, "Pending")
        if waits and not pod.metadata.deletion_timestamp and self._selects(pod):
            self._pods[pod.metadata.uid] = pod
            self._added.set()
        else:
            self.drop(pod.metadata.uid)

    def drop(self, uid: str) -> None:
        """Remove a deleted pod."""
        self._pods.pop(uid, None)

    def all(self) -> dict[str, Pod]:
        """Return the pods by uid, the oldest report first."""
        return dict(self._pods)

    async def wait(self, longest: float) -> None:
        """Wait until a pod is added, for at most ``longest`` seconds."""
        self._added.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._added.wait()

"""Extended resources in the status of nodes, for clusters without the vocabularies' device plugins.

Schedulers that count for themselves, and kubelets, know only of resources that a node states. They
are written when they differ from what the node's own record of its cards says, such as after a
kubelet has reset them, or when the cards are gone, and never otherwise.
"""

from asyncio import Event, timeout
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import msgspec

from adapters.dialects.dialect import Dialect
from adapters.dialects.merge import read_node
from adapters.sidecar.reconcile.cluster_cache import ClusterCache
from adapters.sidecar.reconcile.concurrency import for_each_limited
from adapters.sidecar.reconcile.published_resources import MARK, mark, states, withdrawn
from adapters.wire.hardware import NodeHardware
from adapters.wire.kube import DeviceObject, KubeNode, NodeStatus, annotations

FIRST = 1.0
"""Seconds after a write in which the same one is not made again."""

LONGEST = 600.0
"""Seconds. Whoever sets other amounts again and again is not answered more often."""

POLL = 1.0
"""Seconds between two looks at the nodes whose time has not come."""


def amounts(
    node: KubeNode,
    device: DeviceObject | None,
    dialects: Sequence[Dialect],
    wanted: Collection[str],
    agent: NodeHardware | None = None,
) -> dict[str, int]:
    """What a node should state, by the name of the resource.

    What it states now does not count: cards that a vocabulary believes withdrawn because their
    resources are 0 would never come back.

    Args:
        node: the node object.
        device: Koordinator's inventory of it, if there is one.
        dialects: the vocabularies.
        wanted: the names of those that are asked for.
        agent: what our agent on the node says, if there is one.
    """
    bare = msgspec.structs.replace(node, status=NodeStatus())
    cards = read_node(bare, device, dialects, agent)[0].cards
    return {
        name: amount
        for dialect in dialects
        if dialect.name in wanted
        for name, amount in dialect.resources(cards).items()
    }


def patch(node: KubeNode, stated: Mapping[str, int]) -> dict[str, str]:
    """Those amounts that a node does not state as they are, as capacity and as allocatable."""
    return {name: str(amount) for name, amount in stated.items() if not states(node, name, amount)}


class NodeStatusWriter(Protocol):
    """Writes the status of nodes."""

    async def publish(
        self,
        name: str,
        resources: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
    ) -> None:
        """Set capacity and allocatable, and annotations in the same write; None takes one away.

        Raises:
            OSError: it was refused, or the answer did not come.
        """
        ...


@dataclass(slots=True)
class _Written:
    """What was written to a node last, when, and for how long it is not written again."""

    patch: Mapping[str, str]
    when: float
    pause: float = FIRST


class NodeResourcePublisher:
    """Writes to nodes as they are named, to some of them at a time."""

    def __init__(
        self,
        mirror: ClusterCache,
        status: NodeStatusWriter,
        dialects: Callable[[], Sequence[Dialect]],
        wanted: Collection[str],
        clock: Callable[[], float],
        failed: Callable[[str, str], None],
    ) -> None:
        """Nothing is written yet.

        Args:
            mirror: what the cluster has.
            status: writes.
            dialects: the vocabularies as they are now.
            wanted: the names of those whose resources are written.
            clock: seconds that only go forward.
            failed: told the node and what went wrong.
        """
        self._mirror = mirror
        self._status = status
        self._dialects = dialects
        self._wanted = frozenset(wanted)
        self._clock = clock
        self._failed = failed
        self._due: set[str] = set()
        self._again: set[str] = set()
        self._written: dict[str, _Written] = {}
        self._woken = Event()

    def look_at(self, node: str) -> None:
        """A node may not state what it should."""
        if self._wanted:
            self._due.add(node)
            self._woken.set()

    async def run(self) -> None:
        """Work until cancelled; without anything that is asked for there is no work."""
        self._due |= self._mirror.nodes.keys() if self._wanted else set()
        while True:
            self._woken.clear()
            due, self._due = self._due, set()
            await for_each_limited(self._one, sorted(due))
            with suppress(TimeoutError):
                async with timeout(POLL if self._again else None):
                    await self._woken.wait()
            self._due |= self._again
            self._again.clear()

    async def _one(self, node: str) -> None:
        if not await self.publish(node):
            self._again.add(node)

    async def publish(self, name: str) -> bool:
        """Write what a node should state, if it does not.

        Returns:
            whether it need not be looked at again unless something changes.
        """
        node = self._mirror.nodes.get(name)
        if node is None:
            self._written.pop(name, None)
            return True
        device = self._mirror.devices.get(name)
        agent = self._mirror.hardware.get(name)
        stated = amounts(node, device, self._dialects(), self._wanted, agent)
        wanted = {**patch(node, stated), **withdrawn(node, stated)}
        ours = mark(node, stated, wanted)
        if not wanted and ours == annotations(node).get(MARK):
            return True
        now, last = self._clock(), self._written.get(name)
        pause = FIRST
        if last is not None and last.patch == wanted:
            if now - last.when < last.pause:
                return False
            pause = min(2 * last.pause, LONGEST)
        self._written[name] = _Written(wanted, now, pause)
        try:
            await self._status.publish(name, wanted, {MARK: ours})
        except OSError as error:
            self._failed(name, str(error))
            return False
        return True

"""Publishes extended resources in the status of nodes, in clusters without device plugins for them.

kube-scheduler's resource fit and the kubelet know only resources in the node's status. The
publisher writes them when they differ from what the node's cards amount to, such as after a kubelet
has reset them or when cards were removed, and never otherwise.
"""

from asyncio import Event, timeout
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from adapters.accounting.published_resources import MARK, mark, states, withdrawn
from adapters.dialects.dialect import Dialect
from adapters.dialects.merge import read_node
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.reconcile.work_queue import for_each_limited
from adapters.wire.kube import Changes, DeviceObject, KubeNode, NodeStatus, annotations
from adapters.wire.records.hardware import NodeHardware

FIRST = 1.0
"""Seconds after a write before the same write is repeated; doubled after each repetition."""

LONGEST = 600.0
"""Seconds. Another controller that keeps overwriting the amounts is answered at most so often."""

POLL = 1.0
"""Seconds between two looks at the nodes whose repeated write is not due yet."""


def amounts(
    node: KubeNode,
    device: DeviceObject | None,
    dialects: Sequence[Dialect],
    wanted: Collection[str],
    agent: NodeHardware | None = None,
) -> dict[str, int]:
    """Return the amounts that a node's status should have, by the name of the resource.

    Of a resource of several dialects it is the largest: where the ledger chooses, a sum must not
    keep a pod out that a card has room for.

    The present amounts do not count: a dialect takes cards for withdrawn where their resource is
    0, and these would never come back.

    Args:
        node: the node object.
        device: Koordinator's inventory of it; None without one.
        dialects: all dialects.
        wanted: names of the dialects to publish.
        agent: report of our agent on the node; None without one.
    """
    bare = msgspec.structs.replace(node, status=NodeStatus())
    cards = read_node(bare, device, dialects, agent)[0].cards
    found: dict[str, int] = {}
    for dialect in dialects:
        for name, amount in dialect.resources(cards).items() if dialect.name in wanted else ():
            found[name] = max(amount, found.get(name, 0))
    return found


def patch(node: KubeNode, stated: Mapping[str, int]) -> dict[str, str]:
    """Return the amounts that differ from the node's capacity or allocatable."""
    return {name: str(amount) for name, amount in stated.items() if not states(node, name, amount)}


Publish = Callable[[str, Changes, Changes], Coroutine[None, None, None]]
"""Sets capacity, allocatable and annotations of a node in one write; None removes an entry.

Raises OSError where the API server rejected the write, or did not answer.
"""


@dataclass(slots=True)
class _Written:
    """The last write to a node, its time, and the seconds before it may be repeated."""

    patch: Changes
    when: float
    pause: float = FIRST


@dataclass(eq=False, slots=True)
class NodeResourcePublisher:
    """Writes to nodes as they change, to a few of them at a time.

    Published are the resources of the dialects whose names are ``wanted``. The clock has
    monotonic seconds, and ``failed`` is called with the node and the error of a write.
    """

    _cache: ClusterCache
    _write: Publish
    _dialects: Callable[[], Sequence[Dialect]]
    _wanted: Collection[str]
    _clock: Callable[[], float]
    _failed: Callable[[str, str], None]
    _due: set[str] = field(default_factory=set)
    _again: set[str] = field(default_factory=set)
    _written: dict[str, _Written] = field(default_factory=dict)
    _woken: Event = field(default_factory=Event)

    def look_at(self, node: str) -> None:
        """Check a node soon: its status may be out of date."""
        if self._wanted:
            self._due.add(node)
            self._woken.set()

    async def run(self) -> None:
        """Publish until cancelled; nothing where no dialect is published."""

        async def publish(node: str) -> None:
            if not await self.publish(node):
                self._again.add(node)

        self._due |= self._cache.nodes.keys() if self._wanted else set()
        while True:
            self._woken.clear()
            due, self._due = self._due, set()
            await for_each_limited(publish, sorted(due))
            with suppress(TimeoutError):
                async with timeout(POLL if self._again else None):
                    await self._woken.wait()
            self._due |= self._again
            self._again.clear()

    async def publish(self, name: str) -> bool:
        """Write a node's amounts if its status differs.

        Returns:
            whether nothing is left to do until something changes.
        """
        node = self._cache.nodes.get(name)
        if node is None:
            self._written.pop(name, None)
            return True
        device = self._cache.devices.get(name)
        agent = self._cache.hardware.get(name)
        stated = amounts(node, device, self._dialects(), self._wanted, agent)
        wanted: dict[str, str | None] = {**patch(node, stated), **withdrawn(node, stated)}
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
            await self._write(name, wanted, {MARK: ours})
        except OSError as error:
            self._failed(name, str(error))
            return False
        return True

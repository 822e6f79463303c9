"""Asks node agents for what is used, for people who look at the dashboard, and never otherwise.

The agents are found by the watch of their pods.
"""

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

from adapters.cluster.watch.object_tracker import Identity
from adapters.service.cluster_state.cluster_cache import Key
from adapters.wire.agent_report import AgentPod, NodeReport, parse
from adapters.wire.kube import Unreadable

FRESH = 4.0
"""Seconds for which a report is shown again; the page asks every five."""

SILENT = 20.0
"""Seconds for which an agent that did not answer is not asked again."""

WAIT = 2.5
"""Seconds for which a question waits; what comes later is shown by the next one."""

AT_ONCE = 8
"""Agents that are asked at a time."""

WAITING = 400
"""Agents that wait to be asked; further ones are not known until the next question."""

KEPT = 1000
"""Reports that are kept, the newest ones."""

Read = Callable[[str], Awaitable[bytes]]
"""The text of the metrics at an IP address; raises OSError."""


class AgentPods:
    """The agents' pods as a watch reports them; an ``EventHandler``.

    Who may create pods in the agents' namespace may give one their labels: where two pods of a
    node have them, neither counts.
    """

    def __init__(self) -> None:
        self._node: dict[Key, str] = {}
        self._by_node: dict[str, dict[Key, str]] = {}

    def address(self, node: str) -> str | None:
        """Return the IP address of a node's agent; None where there is no or more than one."""
        addresses = self._by_node.get(node, {})
        return next(iter(addresses.values())) if len(addresses) == 1 else None

    def on_update(self, thing: AgentPod) -> None:
        """Put a new or changed pod."""
        key = (thing.metadata.namespace, thing.metadata.name)
        self._remove(key)
        ends = thing.metadata.deletion_timestamp is not None
        if thing.status.phase == "Running" and not ends and is_of_a_pod(thing.status.pod_ip):
            self._node[key] = thing.spec.node_name
            self._by_node.setdefault(thing.spec.node_name, {})[key] = thing.status.pod_ip

    def on_delete(self, what: Identity) -> None:
        """Drop a deleted pod."""
        self._remove((what.namespace, what.name))

    def on_unreadable(self, what: Unreadable, problem: str) -> None:  # noqa: ARG002 - the port's
        """Drop a pod that cannot be decoded."""
        self._remove((what.namespace, what.name))

    def on_synced(self) -> None:
        """Ignore it: no decision waits for a full list of agents."""

    def _remove(self, key: Key) -> None:
        node = self._node.pop(key, None)
        if node is not None:
            self._by_node[node].pop(key)
            if not self._by_node[node]:
                del self._by_node[node]


def is_of_a_pod(address: str) -> bool:
    """Return whether a pod may have this IP address.

    A node writes the addresses of its pods: none may lead to the service's own machine, or to the
    metadata of a cloud. The API server has the same rule for its proxy
    (k8s.io/kubernetes pkg/proxy/util/utils.go, IsProxyableIP).
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None) or found
    return not (
        mapped.is_loopback or mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified
    )


@dataclass(eq=False, slots=True)
class AgentMetrics:
    """Reports of the agents' pods, kept for a few seconds; ``reports`` is an ``AskAgents``.

    The address is that of a node's agent, None where it has none.
    """

    _address: Callable[[str], str | None]
    _read: Read
    _now: Callable[[], float] = monotonic
    _kept: OrderedDict[str, tuple[float, NodeReport | None]] = field(default_factory=OrderedDict)
    _asking: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def reports(self, nodes: Sequence[str]) -> Mapping[str, NodeReport]:
        """Return what the agents report, without those that do not answer in time."""
        tasks = [task for node in nodes if (task := self._ask(node)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT)
        found = {node: self._kept[node][1] for node in nodes if node in self._kept}
        return {node: report for node, report in found.items() if report is not None}

    async def close(self) -> None:
        """Ask nothing any more."""
        tasks = [*self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ask(self, node: str) -> "asyncio.Task[None] | None":
        """Return the question to a node's agent, one at a time; None where none is needed."""
        if node in self._asking:
            return self._asking[node]
        if node in self._kept:
            if self._now() < self._kept[node][0]:
                return None
            del self._kept[node]
        address = self._address(node)
        if address is None or len(self._asking) >= WAITING:
            return None
        task = asyncio.create_task(self._answer(node, address))
        self._asking[node] = task
        task.add_done_callback(lambda _: self._asking.pop(node, None))
        return task

    async def _answer(self, node: str, address: str) -> None:
        async with self._turns:
            try:
                text = (await self._read(address)).decode()
                # The parser is slow: schedulers must not wait for it.
                report = await asyncio.to_thread(parse, text, node)
                until = self._now() + FRESH
            except (OSError, ValueError):
                report, until = None, self._now() + SILENT
        self._kept[node] = (until, report)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

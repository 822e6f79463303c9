"""Where the node agents are, and what they report."""

import ipaddress
from collections.abc import Callable

from adapters.cluster.watch.object_tracker import EventHandler, Identity
from adapters.service.cluster_state.cluster_cache import Key
from adapters.wire.agent_report import AgentPod
from adapters.wire.kube import Unreadable
from adapters.wire.records.hardware import HardwareRecordError, NodeHardware, decode
from adapters.wire.records.ledger import LedgerObject


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


HardwareReported = Callable[[str, NodeHardware | None], None]
"""Called with the name of a node and its agent's report; None where there is none any more."""


class AgentStatusFeed:
    """Decodes the agents' reports and hands them on."""

    def __init__(self, reported: HardwareReported, invalid: Callable[[str, str], None]) -> None:
        """Store the callbacks.

        Args:
            reported: called for each status.
            invalid: called with the node and the problem of a status that cannot be decoded.
        """
        self._reported = reported
        self._invalid = invalid

    def tee(self, handler: EventHandler[LedgerObject]) -> EventHandler[LedgerObject]:
        """Return a handler that feeds the reports from here and all else to another handler."""
        return _Tee(handler, self)

    def updated(self, ledger: LedgerObject) -> None:
        """Hand on a report; ignore one that cannot be decoded, so that the earlier one counts."""
        node = ledger.metadata.name
        try:
            hardware = decode(ledger.status, node)
        except HardwareRecordError as error:
            self._invalid(node, str(error))
            return
        self._reported(node, hardware)

    def deleted(self, node: str) -> None:
        """Hand on that a node has no report any more."""
        self._reported(node, None)


class _Tee:
    def __init__(self, handler: EventHandler[LedgerObject], agents: AgentStatusFeed) -> None:
        self._handler = handler
        self._agents = agents

    def on_update(self, thing: LedgerObject) -> None:
        """Hand on an object, and the report in it."""
        self._agents.updated(thing)
        self._handler.on_update(thing)

    def on_delete(self, what: Identity) -> None:
        """Hand on that an object was deleted."""
        self._agents.deleted(what.name)
        self._handler.on_delete(what)

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """Hand on an object that cannot be decoded."""
        self._handler.on_unreadable(what, problem)

    def on_synced(self) -> None:
        """Hand on that all objects were listed."""
        self._handler.on_synced()

"""Devices that device plugins serve: which pods have them, and what is free.

They are counted as kube-scheduler counts them: the allocatable amount of a node, less the requests
of the pods that are bound to it. Only the kubelet knows which card a pod has.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from adapters.cli.fleet.fleet import Fleet, NodeState
from adapters.cli.input.candidates import CandidateChoice
from adapters.dialects.device_plugins.nodes import PluginNode, read_plugin_node
from adapters.dialects.device_plugins.resources import plugin_amounts
from adapters.dialects.dialect import DialectError
from adapters.wire.kube import Pod
from core.feasibility.node_names import NodeNames
from core.feasibility.plugin import is_not_ours, kubelet_chooses
from core.requests.request import Request


@dataclass(frozen=True, slots=True)
class DeviceUser:
    """A bound pod with devices of a plugin.

    Attributes:
        pod: the pod.
        amounts: of devices, by resource.
    """

    pod: Pod
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """Where a pod's devices are free, among the nodes where the kubelet chooses them.

    Attributes:
        amounts: of devices that it requests, by resource.
        fitting: nodes without cards of a ledger and with enough devices, most free ones first.
        reasons: by name of the nodes with too few devices, with or without cards of a ledger, what
            they lack.
        summary: of the reasons, in one line; empty where there are no such nodes.
    """

    amounts: Mapping[str, int]
    fitting: tuple[str, ...]
    reasons: Mapping[str, str]
    summary: str


class PluginDevices:
    """The devices of a cluster, while pods are placed one after another.

    Attributes:
        undescribed: names of all nodes without cards of a ledger.
        nodes: those of them on which device plugins state devices, by name in order of the input.
        users: by name of such a node, the bound pods with devices.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._states = fleet.nodes
        self.undescribed = frozenset(n for n, each in fleet.nodes.items() if _is_undescribed(each))
        read = {name: read_plugin_node(state.kube) for name, state in fleet.nodes.items()}
        self._stated = {name: node for name, node in read.items() if node is not None}
        self._users = {name: tuple(_users(fleet.nodes[name].pods)) for name in self._stated}
        own = [name for name in self._stated if name in self.undescribed]
        self.nodes: Mapping[str, PluginNode] = {name: self._stated[name] for name in own}
        self.users = {name: self._users[name] for name in own}
        self._served: dict[tuple[object, ...], frozenset[str]] = {}
        self._taken: dict[tuple[str, str], int] = {}
        for name, users in self._users.items():
            for user in users:
                self.take(name, user.amounts)

    def in_use(self, node: str, resource: str) -> int:
        """How many devices of a node its pods request; more than there are where some failed."""
        return self._taken.get((node, resource), 0)

    def free(self, node: str, resource: str) -> int | None:
        """How many devices of a node are free; None where it does not state the resource."""
        stated = self._stated.get(node)
        found = None if stated is None else stated.resources.get(resource)
        if found is None:
            return None
        return max(found.allocatable - self.in_use(node, resource), 0)

    def with_cards(self, choice: CandidateChoice, fit: DeviceFit) -> CandidateChoice:
        """The candidates that have cards of a ledger, and enough devices where needed."""
        others = self.undescribed | fit.reasons.keys()
        names = (name for name in choice.names if name not in others)
        return CandidateChoice(NodeNames(names), choice.excluded)

    def take(self, node: str, amounts: Mapping[str, int]) -> None:
        """Count the devices of one more pod."""
        for resource, amount in amounts.items():
            self._taken[node, resource] = self.in_use(node, resource) + amount

    def fit(
        self, request: Request, amounts: Mapping[str, int], names: Iterable[str]
    ) -> DeviceFit | None:
        """Where devices are free; None where the kubelet chooses on none of the nodes.

        Args:
            request: what a pod that device plugins serve requests.
            amounts: of devices that it requests, by resource; empty for any other pod.
            names: the nodes to look at.
        """
        served = self._served_nodes(request) if amounts else frozenset[str]()
        chosen = [name for name in names if name in served] if served else []
        if not chosen:
            return None
        reasons = {name: "; ".join(self._lacks(name, amounts)) for name in chosen}
        fitting = [name for name in chosen if not reasons[name] and name in self.undescribed]
        fitting.sort(key=lambda name: -sum(self.free(name, each) or 0 for each in amounts))
        short = {name: text for name, text in reasons.items() if text}
        summary = "; ".join(self._causes(chosen, amounts)) if short else ""
        return DeviceFit(amounts, tuple(fitting), short, summary)

    def _served_nodes(self, request: Request) -> frozenset[str]:
        """The nodes where the kubelet chooses the devices of a request."""
        key = (request.plugin, request.vendor, request.dialect, request.alternatives)
        if key not in self._served:
            self._served[key] = self.undescribed.union(
                name
                for name, state in self._states.items()
                if state.node.cards and kubelet_chooses(request, state.node.cards)
            )
        return self._served[key]

    def releases(self, wanted: DeviceFit) -> tuple[tuple[str, tuple[Pod, ...]], ...]:
        """Pods by node whose end frees what a request lacks there; those with most devices first.

        Without the nodes that are too small for it; fewest pods first.
        """
        found: list[tuple[str, tuple[Pod, ...]]] = []
        for name in wanted.reasons:
            pods = self._release(name, wanted.amounts)
            if pods:
                found.append((name, pods))
        return tuple(sorted(found, key=lambda each: (len(each[1]), each[0])))

    def _release(self, node: str, amounts: Mapping[str, int]) -> tuple[Pod, ...]:
        lacking = {
            resource: amount - (self.free(node, resource) or 0)
            for resource, amount in amounts.items()
        }
        chosen: list[Pod] = []
        users = self._users.get(node, ())
        for user in sorted(users, key=lambda each: -max(each.amounts.values())):
            if any(lacking.get(resource, 0) > 0 for resource in user.amounts):
                chosen.append(user.pod)
                for resource, amount in user.amounts.items():
                    lacking[resource] = lacking.get(resource, 0) - amount
        return () if any(left > 0 for left in lacking.values()) else tuple(chosen)

    def _lacks(self, node: str, amounts: Mapping[str, int]) -> Iterator[str]:
        for resource, amount in amounts.items():
            free = self.free(node, resource)
            if free is None:
                yield f"does not state {resource}"
            elif free < amount:
                every = self._stated[node].resources[resource].allocatable
                yield f"{devices_text({resource: amount})}: {free} of {every} free"

    def _causes(self, names: Iterable[str], amounts: Mapping[str, int]) -> Iterator[str]:
        """Free devices of each resource where it is short, and how many nodes lack it."""
        for resource, amount in amounts.items():
            short: list[tuple[int, int]] = []
            lacking = 0
            for name in names:
                free = self.free(name, resource)
                if free is None:
                    lacking += 1
                elif free < amount:
                    short.append((free, self._stated[name].resources[resource].allocatable))
            parts = [f"{_free(short)} on {_nodes(len(short))}"] if short else []
            if lacking:
                parts.append(f"{_nodes(lacking)} {'does' if lacking == 1 else 'do'} not state it")
            if parts:
                name = resource if amount == 1 else f"{amount} {resource}"
                yield f"{name}: {'; '.join(parts)}"


def devices_text(amounts: Mapping[str, int]) -> str:
    """Amounts of devices in words, such as ``1 nvidia.com/mig-3g.20gb``."""
    return ", ".join(f"{amount} {resource}" for resource, amount in amounts.items())


def _is_undescribed(state: NodeState) -> bool:
    return state.unreadable is None and is_not_ours(state.ledger)


def _users(pods: Iterable[Pod]) -> Iterator[DeviceUser]:
    for pod in pods:
        try:
            amounts = plugin_amounts(pod)
        except DialectError:  # the API server accepts no such pod
            continue
        if amounts:
            yield DeviceUser(pod, amounts)


def _free(short: list[tuple[int, int]]) -> str:
    """Free and all devices of some nodes: as ``0 of 2 free``, or as a range."""
    if len(set(short)) == 1:
        free, every = short[0]
        return f"{free} of {every} free"
    least, most = min(short)[0], max(short)[0]
    return f"{least} free" if least == most else f"{least} to {most} free"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"

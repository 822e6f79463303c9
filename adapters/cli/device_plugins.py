"""Devices that device plugins serve on nodes without cards of a ledger: who has them, what is free.

They are counted as kube-scheduler counts them: the allocatable amount of a node, less the requests
of the pods that are bound to it. Which card a pod has is known to the kubelet alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from adapters.cli.fleet import Fleet, NodeState
from adapters.cli.input.candidates import CandidateChoice
from adapters.dialects.device_plugin_nodes import PluginNode, read_plugin_node
from adapters.dialects.dialect import DialectError
from adapters.dialects.plugin_resources import plugin_amounts
from adapters.wire.kube import Pod
from core.feasibility.selection import NodeSelection


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
    """Where a pod's devices are free, among some nodes without cards of a ledger.

    Attributes:
        amounts: of devices that it requests, by resource.
        fitting: nodes with enough free devices, most free ones first.
        reasons: by name of the other nodes, what they lack.
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
        states = {name: state for name, state in fleet.nodes.items() if _is_undescribed(state)}
        read = {name: read_plugin_node(state.kube) for name, state in states.items()}
        self.undescribed = frozenset(states)
        self.nodes: Mapping[str, PluginNode] = {n: node for n, node in read.items() if node}
        self.users = {name: tuple(_users(states[name].pods)) for name in self.nodes}
        self._taken: dict[tuple[str, str], int] = {}
        for name, users in self.users.items():
            for user in users:
                self.take(name, user.amounts)

    def in_use(self, node: str, resource: str) -> int:
        """How many devices of a node its pods request; more than there are where some failed."""
        return self._taken.get((node, resource), 0)

    def free(self, node: str, resource: str) -> int | None:
        """How many devices of a node are free; None where it does not state the resource."""
        found = self.nodes[node].resources.get(resource) if node in self.nodes else None
        if found is None:
            return None
        return max(found.allocatable - self.in_use(node, resource), 0)

    def with_cards(self, choice: CandidateChoice) -> CandidateChoice:
        """Those of the candidates that have cards of a ledger."""
        names = (name for name in choice.names if name not in self.undescribed)
        return CandidateChoice(NodeSelection(names), choice.excluded)

    def take(self, node: str, amounts: Mapping[str, int]) -> None:
        """Count the devices of one more pod."""
        for resource, amount in amounts.items():
            self._taken[node, resource] = self.in_use(node, resource) + amount

    def fit(self, amounts: Mapping[str, int], names: Iterable[str]) -> DeviceFit:
        """Where devices are free.

        Args:
            amounts: of devices, by resource.
            names: of nodes; those with cards of a ledger do not count.
        """
        chosen = [name for name in names if name in self.undescribed]
        reasons = {name: "; ".join(self._lacks(name, amounts)) for name in chosen}
        fitting = [name for name in chosen if not reasons[name]]
        fitting.sort(key=lambda name: -sum(self.free(name, each) or 0 for each in amounts))
        short = {name: text for name, text in reasons.items() if text}
        summary = "; ".join(self._causes(chosen, amounts)) if short else ""
        return DeviceFit(amounts, tuple(fitting), short, summary)

    def releases(self, wanted: DeviceFit) -> tuple[tuple[str, tuple[Pod, ...]], ...]:
        """By node, the pods with most devices first, whose end frees what a request lacks there.

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
        users = self.users.get(node, ())
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
                every = self.nodes[node].resources[resource].allocatable
                yield f"{devices_text({resource: amount})}: {free} of {every} free"

    def _causes(self, names: Iterable[str], amounts: Mapping[str, int]) -> Iterator[str]:
        """For each resource how many are free where it is short, and how many nodes lack it."""
        for resource, amount in amounts.items():
            short: list[tuple[int, int]] = []
            lacking = 0
            for name in names:
                free = self.free(name, resource)
                if free is None:
                    lacking += 1
                elif free < amount:
                    short.append((free, self.nodes[name].resources[resource].allocatable))
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
    return state.unreadable is None and not state.node.cards


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

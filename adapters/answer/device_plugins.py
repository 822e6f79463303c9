"""Devices that device plugins serve: which pods have them, and what is free.

They are counted as kube-scheduler counts them: the allocatable amount of a node, less the requests
of the pods that are bound to it. Only the kubelet knows which card a pod has.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from adapters.dialects.device_plugins import PluginNode, plugin_amounts, read_plugin_node
from adapters.dialects.dialect import DialectError
from adapters.wire.kube import KubeNode, Pod
from core.feasibility.suitability import kubelet_chooses
from core.hardware.card import Card
from core.requests.decision import NodeReasons
from core.requests.reason import Cause, Reason
from core.requests.request import Request


@dataclass(frozen=True, slots=True)
class DeviceUser:
    """A bound pod with devices of a plugin, and their amounts by resource."""

    pod: Pod
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """Where a pod's devices are free, among the nodes where the kubelet chooses them.

    Attributes:
        amounts: of devices that it requests, by resource.
        fitting: nodes without cards of a ledger and with enough devices, most free ones first.
        reasons: what the nodes with too few devices lack, with or without cards of a ledger.
    """

    amounts: Mapping[str, int]
    fitting: tuple[str, ...]
    reasons: NodeReasons


class PluginDevices:
    """The devices of a cluster, while pods are placed one after another.

    Attributes:
        undescribed: names of all nodes without cards of a ledger.
        nodes: those of them on which device plugins state devices, by name in order of the input.
        users: by name of such a node, the bound pods with devices.
    """

    def __init__(self) -> None:
        self.undescribed: set[str] = set()
        self.nodes: dict[str, PluginNode] = {}
        self.users: dict[str, tuple[DeviceUser, ...]] = {}
        self._cards: dict[str, tuple[Card, ...]] = {}
        self._stated: dict[str, PluginNode] = {}
        self._users: dict[str, tuple[DeviceUser, ...]] = {}
        self._served: dict[tuple[object, ...], frozenset[str]] = {}
        self._taken: dict[tuple[str, str], int] = {}

    def add(
        self,
        node: KubeNode,
        cards: tuple[Card, ...],
        pods: Callable[[], Iterable[Pod]],
        *,
        is_undescribed: bool,
    ) -> None:
        """Count the devices of one more node.

        Args:
            node: the node object.
            cards: of its ledger.
            pods: returns those that are bound to it and may use cards.
            is_undescribed: it has no cards of a ledger, and had none that pods still have.
        """
        name = node.metadata.name
        self._cards[name] = cards
        if is_undescribed:
            self.undescribed.add(name)
        stated = read_plugin_node(node)
        if stated is None:
            return
        users = tuple(_users(pods()))
        self._stated[name], self._users[name] = stated, users
        if is_undescribed:
            self.nodes[name], self.users[name] = stated, users
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

    def with_cards(self, names: Iterable[str], fit: DeviceFit) -> Iterator[str]:
        """Return the nodes that have cards of a ledger, and enough devices where needed."""
        others = self.undescribed.union(fit.reasons.names)
        return (name for name in names if name not in others)

    def take(self, node: str, amounts: Mapping[str, int]) -> None:
        """Count the devices of one more pod."""
        for resource, amount in amounts.items():
            self._taken[node, resource] = self.in_use(node, resource) + amount

    def fit(
        self, request: Request, amounts: Mapping[str, int], names: Iterable[str]
    ) -> DeviceFit | None:
        """Where devices are free; None where the kubelet chooses on none of the nodes.

        The amounts are of devices, by resource; empty for a pod that device plugins do not serve.
        """
        if not amounts:
            return None
        key = (request.plugin, request.vendor, request.dialect, request.alternatives)
        if key not in self._served:  # the nodes where the kubelet chooses the devices
            self._served[key] = frozenset(self.undescribed).union(
                name
                for name, cards in self._cards.items()
                if cards and kubelet_chooses(request, cards)
            )
        served = self._served[key]
        chosen = [name for name in names if name in served]
        if not chosen:
            return None
        reasons = {name: self._lacks(name, amounts) for name in chosen}
        fitting = [name for name in chosen if reasons[name] is None and name in self.undescribed]
        fitting.sort(key=lambda name: -sum(self.free(name, each) or 0 for each in amounts))
        short = {name: reason for name, reason in reasons.items() if reason is not None}
        return DeviceFit(amounts, tuple(fitting), NodeReasons.of(short))

    def releases(self, wanted: DeviceFit) -> tuple[tuple[str, tuple[Pod, ...]], ...]:
        """Pods by node whose end frees what a request lacks there; those with most devices first.

        Without the nodes that are too small for it; fewest pods first.
        """
        found: list[tuple[str, tuple[Pod, ...]]] = []
        for name in wanted.reasons:
            lacking = {
                resource: amount - (self.free(name, resource) or 0)
                for resource, amount in wanted.amounts.items()
            }
            chosen: list[Pod] = []
            users = self._users.get(name, ())
            for user in sorted(users, key=lambda each: -max(each.amounts.values())):
                if any(lacking.get(resource, 0) > 0 for resource in user.amounts):
                    chosen.append(user.pod)
                    for resource, amount in user.amounts.items():
                        lacking[resource] = lacking.get(resource, 0) - amount
            if chosen and all(left <= 0 for left in lacking.values()):
                found.append((name, tuple(chosen)))
        return tuple(sorted(found, key=lambda each: (len(each[1]), each[0])))

    def _lacks(self, node: str, amounts: Mapping[str, int]) -> Reason | None:
        """Return what a node lacks of some devices; None where it has enough."""
        unstated: list[str] = []
        short: list[tuple[int, int, str]] = []
        for resource, amount in amounts.items():
            free = self.free(node, resource)
            if free is None:
                unstated.append(f"does not state {resource}")
            elif free < amount:
                every = self._stated[node].resources[resource].allocatable
                text = f"{devices_text({resource: amount})}: {free} of {every} free"
                short.append((free, amount, text))
        detail = "; ".join((*unstated, *(text for _, _, text in short)))
        if unstated:
            return Reason("", 0, cause=Cause.NO_DEVICES, detail=detail)
        if not short:
            return None
        free, amount, _ = short[0]
        return Reason("", free, amount, cause=Cause.DEVICES, detail=detail)


def devices_text(amounts: Mapping[str, int]) -> str:
    """Amounts of devices in words, such as ``1 nvidia.com/mig-3g.20gb``."""
    return ", ".join(f"{amount} {resource}" for resource, amount in amounts.items())


def _users(pods: Iterable[Pod]) -> Iterator[DeviceUser]:
    for pod in pods:
        try:
            amounts = plugin_amounts(pod)
        except DialectError:  # the API server accepts no such pod
            continue
        if amounts:
            yield DeviceUser(pod, amounts)

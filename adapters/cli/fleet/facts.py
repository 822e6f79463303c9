"""A cluster from files or a live one, as the answer about a pod reads it."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial

from adapters.accounting.answer.device_plugins import DeviceNode, PluginDevices
from adapters.accounting.gang_cache import Gang
from adapters.accounting.pod_requests import AlikePods, PodRequest
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.fleet.quotas import NamespaceQuotas
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.matching import dialect_of
from adapters.wire.kube import KubeNode, Pod
from core.feasibility.evaluation import NodeEvaluation
from core.feasibility.inventory import Inventory
from core.feasibility.plugin import is_not_ours
from core.quota.amounts import QuotaAmounts
from core.requests.pod_ref import PodRef
from core.requests.request import Request


class FleetFacts:
    """Implements ``ClusterFacts``.

    Attributes:
        quotas: while pods are placed one after another.
        revision: never changes while an answer is given.
    """

    revision: Hashable = 0

    def __init__(self, fleet: Fleet) -> None:
        self.quotas = NamespaceQuotas(fleet)
        self._fleet = fleet
        self._inventory = fleet.inventory()
        self._requests = AlikePods(fleet.dialects)
        self._gangs = fleet.gangs()
        self._nodes = {name: state.kube for name, state in fleet.nodes.items()}
        self._unreadable = {
            name: state.unreadable
            for name, state in fleet.nodes.items()
            if state.unreadable is not None
        }

    @property
    def dialects(self) -> Sequence[Dialect]:
        """All dialects, configured with the settings of the cluster."""
        return self._fleet.dialects

    @property
    def inventory(self) -> Inventory:
        """The ledgers of all nodes whose NodeLedger can be read."""
        return self._inventory

    def nodes(self) -> Mapping[str, KubeNode]:
        """All nodes, in order of the input."""
        return self._nodes

    def unreadable(self) -> Mapping[str, str]:
        """Why the NodeLedger of a node cannot be read, by name of the node."""
        return self._unreadable

    def pods_on(self, node: str) -> Iterable[Pod]:
        """The pods that are bound to a node and may use cards."""
        return self._fleet.nodes[node].pods

    def claims_of(self, uid: str) -> Iterable[str]:
        """The uids of the claims that are reserved for a pod."""
        return self._fleet.claims.get(uid, ())

    def read(self, pod: Pod, template: bytes) -> PodRequest | None:
        """What a pod requests; pods alike but for name and uid are parsed once.

        Raises:
            DialectError: the request is invalid.
        """
        return self._requests.read(pod, template)

    def evaluate(self, request: Request) -> NodeEvaluation:
        """A request against all ledgers, and the quota of its namespace."""
        return self.quotas.evaluate(request, self._inventory)

    def gang(self, pod: Pod) -> Gang | None:
        """The gang of a pod with all its pods, in the words of any scheduler."""
        return self._gangs.gang(pod)

    def over_quota(self, holder: PodRef, amounts: QuotaAmounts) -> str | None:
        """Why the quota of a pod's namespace refuses some amounts; None where it does not."""
        return self.quotas.refusal_of(holder, amounts)


def plugin_devices(fleet: Fleet) -> PluginDevices:
    """The devices that device plugins serve, of all nodes."""
    return PluginDevices(
        DeviceNode(
            state.kube,
            state.node.cards,
            state.unreadable is None and is_not_ours(state.ledger),
            partial(tuple, state.pods),
        )
        for state in fleet.nodes.values()
    )


def requests_cards(pod: Pod, dialects: Sequence[Dialect]) -> bool:
    """Whether a pod requests a share or devices, valid or not."""
    try:
        return dialect_of(pod, dialects) is not None
    except DialectError:
        return True

"""Koordinator's dialect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.dialects.containers import is_zero, pod_containers
from adapters.dialects.dialect import (
    NO_DEFAULTS,
    AdmissionDefaults,
    AdoptedAllocation,
    Defaults,
    Dialect,
    Documents,
    HeldShare,
    NodeDescription,
    Result,
)
from adapters.dialects.formats.hami_record import BEST_EFFORT, METAX_QOS, serves_node
from adapters.dialects.formats.koordinator_record import read_record
from adapters.dialects.formats.koordinator_settings import (
    KoordinatorScheduling,
    ranking,
    read_scheduling,
)
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.koordinator import keys, result
from adapters.dialects.koordinator.node import read_cards, resources
from adapters.dialects.koordinator.pod import read_pod_request
from adapters.dialects.koordinator.result import read_adopted, write_mirror
from adapters.wire.kube import DeviceObject, KubeNode, Pod, annotations, labels
from core.hardware.card import Card
from core.hardware.node import Node
from core.requests.grant import Grant, Placement
from core.requests.request import Ranking, Request


@dataclass(frozen=True, slots=True)
class Koordinator(Dialect):
    """``koordinator.sh/gpu*`` and whole cards, with the settings of koord-scheduler.

    It has no ``quota_units``: Koordinator limits by ElasticQuota, which its scheduler still
    counts.

    Attributes:
        scheduling: the policy of koord-scheduler, and the cards that it does not share.
        ranking: the order of nodes and cards that follows from it.
    """

    name = keys.NAME
    result_keys = keys.RESULT_KEYS
    # pkg/scheduler/plugins/deviceshare/device_cache.go:211-251: it holds what Reserve chose, and
    # skips the record of another card.
    keeps_choice = True

    scheduling: KoordinatorScheduling
    ranking: Ranking

    @classmethod
    def configured(cls, settings: Documents, defaults: Defaults) -> Self:
        """Create the dialect with the settings of its scheduler.

        Raises:
            DialectError: a setting is invalid.
        """
        scheduling = read_scheduling(settings)
        return cls(scheduling, ranking(scheduling, defaults))

    @property
    def companions(self) -> frozenset[str]:
        """The resource that makes the kubelet call MetaX's device plugin; Koordinator decides."""
        return frozenset({keys.METAX_TRIGGER})

    @property
    def shared_resources(self) -> frozenset[str]:
        """Whole cards of NVIDIA; without other resources they mean NVIDIA's device plugin."""
        return frozenset({GPU})

    def matches(self, pod: Pod) -> bool:
        """Return whether a pod means Koordinator.

        It does if it names a resource of Koordinator, or whole AMD or Hygon cards in an amount
        other than 0. ``nvidia.com/gpu`` is a whole card in several dialects: it means Koordinator
        beside an annotation or a label that only Koordinator reads.
        """
        hinted = not keys.HINTS.isdisjoint({*annotations(pod), *labels(pod)})
        return any(
            name in keys.OWN
            or (name in keys.WHOLE_CARDS and not is_zero(amount) and (hinted or name != GPU))
            for member in pod_containers(pod)
            for amounts in (member.container.resources.limits, member.container.resources.requests)
            for name, amount in (amounts or {}).items()
        )

    def read_request(self, pod: Pod) -> Request:
        """Read what a pod requests; see ``Dialect``."""
        return read_pod_request(pod, self.ranking)

    def admission_defaults(self, pod: Pod, request: Request) -> AdmissionDefaults:
        """Return the QoS policy that HAMi's webhook adds for MetaX's device plugin; else none.

        Koordinator's own webhook adds no annotation that matters here.
        """
        unset = METAX_QOS not in annotations(pod) and request.vendor == keys.METAX
        return AdmissionDefaults({METAX_QOS: BEST_EFFORT}) if unset else NO_DEFAULTS

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> NodeDescription:
        """Read the cards of a node's Device object; see ``Dialect``."""
        return read_cards(node, device, self.scheduling)

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return amounts of resources, summed as koord-manager does (``Dialect.resources``)."""
        return resources(cards)

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:
        """Return whether a pod gets whole cards that HAMi's device plugin serves."""
        return bool(request.alternatives) and serves_node(node)

    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has ``device-allocated``."""
        return keys.ALLOCATED in annotations(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the record of an allocation; see ``Dialect``."""
        return read_record(pod, request, node)

    def read_adopted(self, pod: Pod, node: Node) -> AdoptedAllocation | None:
        """Read what koord-scheduler or HAMi's scheduler allocated; see ``Dialect``."""
        return read_adopted(pod, node)

    def write_result(
        self,
        pod: Pod,
        request: Request,
        placement: Placement,
        node: Node,
        now: int,
    ) -> Result:
        """Write the record of a placement; see ``Dialect``."""
        return result.write_result(pod, request, placement, node, now)

    def write_mirror(self, pod: Pod, shares: Sequence[HeldShare]) -> Mapping[str, str]:
        """Write what a pod of another dialect has, for koord-scheduler's DeviceShare."""
        return write_mirror(pod, shares)

"""Koordinator's dialect: its records for Koordinator's node components, and those of others.

A pod that another scheduler bound is adopted by its record, not by what the pod requests.
``device-allocated`` is koord-scheduler's record. HAMi's scheduler allocates ``nvidia.com/gpu``
(whole cards here) too, and writes a record of its own.

A mirror is what a pod of another dialect has, as koord-scheduler's plugin ``DeviceShare`` counts
it: the plugin subtracts from each card what ``device-allocated`` states on any pod of a node,
whatever the pod requests. Source: koordinator-sh/koordinator v1.8.0
pkg/scheduler/plugins/deviceshare/eventhandler_pod.go ``updatePod``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.dialects import dialect
from adapters.dialects.containers import is_zero, pod_containers, requests_any
from adapters.dialects.formats import koordinator_record
from adapters.dialects.formats.hami_record import (
    BEST_EFFORT,
    METAX_ALLOCATED,
    METAX_QOS,
    QOS_POLICIES,
    bind_labels,
    encode_metax,
    serves_node,
)
from adapters.dialects.formats.hami_result import read_hami
from adapters.dialects.formats.koordinator_settings import (
    KoordinatorScheduling,
    ranking,
    read_scheduling,
)
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.node import SLOTS, read_cards
from adapters.dialects.koordinator.pod import read_pod_request
from adapters.wire.kube import DeviceObject, KubeNode, Pod, annotations, labels
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL
from core.requests.grant import Grant, Placement
from core.requests.request import Ranking, Request, SharingTerms

_GPUS = (keys.GPU, keys.CORE, keys.MEMORY, keys.RATIO, keys.SHARED, *keys.WHOLE_CARDS)
_REQUESTING = (*_GPUS, *(keys.DEPRECATED[name] for name in _GPUS if name in keys.DEPRECATED))


@dataclass(frozen=True, slots=True)
class Koordinator(dialect.Dialect):
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
    def configured(cls, settings: dialect.Documents, defaults: dialect.Defaults) -> Self:
        """Create the dialect with the settings of its scheduler; see ``Dialect``."""
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

    def admission_defaults(self, pod: Pod, request: Request) -> dialect.AdmissionDefaults:
        """Return the QoS policy that HAMi's webhook adds for MetaX's device plugin; else none.

        Koordinator's own webhook adds no annotation that matters here.
        """
        unset = METAX_QOS not in annotations(pod) and request.vendor == keys.METAX
        return dialect.AdmissionDefaults({METAX_QOS: BEST_EFFORT}) if unset else dialect.NO_DEFAULTS

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> dialect.NodeDescription:
        """Read the cards of a node's Device object; see ``Dialect``."""
        return read_cards(node, device, self.scheduling)

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return the resources that koord-manager publishes; memory in bytes (see ``Dialect``).

        Source: pkg/slo-controller/noderesource/plugins/gpudeviceresource/plugin.go:172-235. It
        publishes the sum of shared cards behind the gate EnableSyncGPUSharedResource; pods request
        it.
        """
        described = [card for card in cards if keys.NAME in card.dialects]
        if not described:
            return {}
        healthy = [card for card in described if card.healthy]
        percent = FULL * len(healthy)
        return {
            **({keys.GPU: percent} if described[0].vendor == keys.NVIDIA else {}),
            keys.CORE: percent,
            keys.MEMORY: sum(card.memory for card in healthy),
            keys.RATIO: percent,
            keys.SHARED: SLOTS * len(healthy),
        }

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:
        """Return whether a pod gets whole cards that HAMi's device plugin serves."""
        return bool(request.alternatives) and serves_node(node)

    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has ``device-allocated``."""
        return keys.ALLOCATED in annotations(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the record of an allocation; see ``Dialect``."""
        return koordinator_record.read_record(pod, request, node)

    def read_adopted(self, pod: Pod, node: Node) -> dialect.AdoptedAllocation | None:
        """Read what koord-scheduler or HAMi's scheduler allocated; see ``Dialect``.

        Koordinator ignores amounts of 0, and allocates no GPU for its other devices (RDMA, FPGA).
        A pod gives a MetaX card a QoS policy by a part of its compute.

        Raises:
            DialectError: the record cannot be parsed.
        """
        requesting = [member for member in pod_containers(pod) if requests_any(member, _REQUESTING)]
        if not requesting:
            return dialect.NO_ALLOCATION
        if keys.ALLOCATED not in annotations(pod):
            grants = read_hami(pod, node)
            return dialect.AdoptedAllocation(grants) if grants else None
        grants = koordinator_record.read_koordinator(pod, node, requesting)
        metax = {card.uuid for card in node.cards if card.vendor == keys.METAX}
        if not any(grant.card in metax and grant.compute < FULL for grant in grants):
            return dialect.AdoptedAllocation(grants)
        stated = annotations(pod).get(METAX_QOS)
        qos = stated if stated in QOS_POLICIES else BEST_EFFORT
        return dialect.AdoptedAllocation(grants, terms=SharingTerms(qos=qos))

    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> dialect.Result:
        """Write the record of a placement; none where a device plugin alone serves the pod.

        Whole NVIDIA cards get the record of the components that describe them. What koord-scheduler
        stated of other devices stays. For MetaX cards the result also has the annotation of MetaX's
        device plugin, by container. HAMi's monitor finds the pods that it measures by a label.
        """
        if not placement.grants:
            return dialect.NO_RESULT
        if request.alternatives:
            return koordinator_record.write_whole_nvidia(pod, request, placement, node, now)
        written = koordinator_record.write_record(pod, request, placement, node)
        metax = {card.uuid for card in node.cards if card.vendor == keys.METAX}
        if any(grant.card in metax for grant in placement.grants):
            lists = [
                [grant for grant in placement.grants if grant.container == member.container.name]
                for member in pod_containers(pod)
            ]
            alone = len(request.containers) == 1  # Koordinator writes one list for all
            written[METAX_ALLOCATED] = encode_metax([placement.grants] if alone else lists)
        measured = request.isolation == keys.HAMI_CORE
        return dialect.Result(written, bind_labels(node.name) if measured else {})

    def write_mirror(self, pod: Pod, shares: Sequence[dialect.HeldShare]) -> Mapping[str, str]:
        """Write what a pod of another dialect has, for koord-scheduler's DeviceShare.

        What koord-scheduler stated of other devices stays.
        """
        cards = [
            koordinator_record.AllocatedCard(
                share.card.index,
                share.card.uuid,
                share.memory,
                ratio=min(-(-share.memory * FULL // max(share.card.memory, 1)), FULL),
                compute=min(share.compute, FULL),
            )
            for share in shares
            if keys.NAME in share.card.dialects
        ]
        if not cards:
            return {}
        return {
            keys.ALLOCATED: koordinator_record.encode_allocated(
                cards, koordinator_record.read_beside(annotations(pod))
            )
        }

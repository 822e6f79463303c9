"""The dialect of MetaX cards under HAMi, and its records: our own and those of HAMi's scheduler.

Source of the records: HAMi v2.10.0 pkg/scheduler/scheduler.go:1031-1052 and 1124-1139,
pkg/device/metax/{device,sdevice}.go. Of an adopted pod the record counts, not what the pod
requests; records of v2.4 to v2.6 cover main containers only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

from adapters.dialects import dialect
from adapters.dialects.containers import (
    pod_containers,
    reject_privileged,
    requests_any,
    resource_names,
)
from adapters.dialects.formats import device_list, hami_record
from adapters.dialects.formats.annotation_values import annotation_path
from adapters.dialects.metax import keys
from adapters.dialects.metax import node as nodes
from adapters.dialects.metax import pod as pods
from adapters.wire.kube import DeviceObject, KubeNode, Pod, Text, annotations
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB
from core.requests.grant import Grant, Placement
from core.requests.request import Phase, Request, SharingTerms, TaskClass


@dataclass(frozen=True, slots=True)
class _RecordFormat:
    kind: str
    to_allocate: str
    allocated: str


_SHARES = _RecordFormat(keys.SGPU_KIND, keys.SGPU_TO_ALLOCATE, keys.SGPU_ALLOCATED)
_CARDS = _RecordFormat(keys.GPU_KIND, keys.GPU_TO_ALLOCATE, keys.GPU_ALLOCATED)


@dataclass(frozen=True, slots=True)
class Metax(dialect.Dialect):
    """The dialect with its settings.

    It has no ``quota_units``: a limit here binds all cards, and HAMi's of MetaX those alone.

    Attributes:
        named: the resources of the configuration; a pod that names one means this dialect.
    """

    name = keys.NAME
    result_keys = keys.RESULT_KEYS
    frees_init_shares = True

    config: keys.MetaxConfig
    defaults: dialect.Defaults
    named: frozenset[str]

    @classmethod
    def configured(cls, settings: dialect.Documents, defaults: dialect.Defaults) -> Self:
        """Create the dialect with the settings files; see ``Dialect``."""
        config = keys.read_config(settings)
        return cls(config, defaults, frozenset(config.resources))

    def matches(self, pod: Pod) -> bool:
        """Return whether the pod names a resource of this dialect, even with an amount of 0."""
        return not self.named.isdisjoint(resource_names(pod))

    def read_request(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests; see ``Dialect``."""
        return pods.read_request(pod, self.config, self.defaults)

    def admission_defaults(self, pod: Pod, request: Request) -> dialect.AdmissionDefaults:
        """Return the QoS policy that HAMi's webhook adds where the author of a share sets none.

        Source: HAMi v2.10.0 pkg/device/metax/sdevice.go:107-126.

        Raises:
            DialectError: the pod requests a share and has a privileged container.
        """
        if Mode.WHOLE in request.modes:
            return dialect.NO_DEFAULTS
        reject_privileged(pod)
        is_set = keys.QOS in annotations(pod) or request.terms.task_class is TaskClass.ONLINE
        return (
            dialect.NO_DEFAULTS
            if is_set
            else dialect.AdmissionDefaults({keys.QOS: hami_record.BEST_EFFORT})
        )

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> dialect.NodeDescription:
        """Read the cards of a node, only from the node object."""
        return nodes.read_node(node, self.config)

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return what MetaX's device plugin registers: the number of possible sharers.

        The kubelet ignores resources that a node does not publish, so compute and memory need no
        sum. The number of whole cards comes from the node's status and is already there.
        """
        shared = [c for c in cards if keys.NAME in c.dialects and c.mode is Mode.SHARED]
        if not shared:
            return {}
        return {self.config.sgpu: sum(card.slots for card in shared if card.healthy)}

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:
        """Return whether MetaX's device plugin finds a pod by the lock of its node.

        It does for shares that a main container requests, on a node that the plugin describes. It
        needs no lock for whole cards, or where only init containers request shares. Source: HAMi
        v2.10.0 pkg/device/metax/sdevice.go:176-181, device.go (no lock).
        """
        shared = Mode.WHOLE not in request.modes
        main = any(container.phase is Phase.MAIN for container in request.containers)
        return shared and main and keys.NODE_DEVICES in annotations(node)

    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has a record of an allocation."""
        records = {keys.SGPU_ALLOCATED, keys.GPU_ALLOCATED, hami_record.METAX_ALLOCATED}
        return not records.isdisjoint(annotations(pod))

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the grants of a pod, in start order of its containers.

        Raises:
            DialectError: the record is for another node, contradicts itself or the pod, or does
                not identify the cards.
        """
        texts = annotations(pod)
        record = _CARDS if Mode.WHOLE in request.modes else _SHARES
        hami_record.check_node(texts, node)
        field, text = annotation_path(record.allocated), texts.get(record.allocated)
        if record is _CARDS:
            _check_whole(texts, node)
        listed = None if text is None else hami_record.decode_devices(record.kind, field, text)
        if record is _SHARES and hami_record.METAX_ALLOCATED in texts:
            also = hami_record.decode_metax(texts[hami_record.METAX_ALLOCATED])
            if listed not in (None, also):
                raise _differs(texts, record.allocated)
            listed = also
        if listed is None:
            raise dialect.DialectError(field, text, "must list the cards of the pod")
        names = [member.container.name for member in pod_containers(pod)]
        if len(listed) != len(names):
            problem = f"covers {len(listed)} containers, the pod has {len(names)}"
            raise dialect.DialectError(field, text, problem)
        by_container = dict(zip(names, listed, strict=True))
        requests = {request.name: request for request in request.containers}
        for name, shares in by_container.items():
            count = requests[name].count if name in requests else 0
            if len(shares) != count:
                problem = f"has {len(shares)} cards for {name}, which requests {count}"
                raise dialect.DialectError(field, text, problem)
        return tuple(
            Grant(
                wanted.name, share.card, share.memory, share.compute, wanted.exclusive, wanted.phase
            )
            for wanted in request.containers
            for share in by_container[wanted.name]
        )

    def read_adopted(self, pod: Pod, node: Node) -> dialect.AdoptedAllocation | None:
        """Read what HAMi's scheduler allocated to a pod; see ``Dialect``.

        Only a pod with a part of the compute gives its card a QoS policy.

        Raises:
            DialectError: the record is for another node, contradicts itself, does not identify the
                cards, or cannot be parsed.
        """
        texts = annotations(pod)
        hami_record.check_node(texts, node)
        lists = _lists(texts, node)
        containers = tuple(pod_containers(pod))
        if not any(lists):
            counting = (self.config.sgpu, self.config.gpu)
            requested = any(requests_any(member, counting) for member in containers)
            return None if requested else dialect.NO_ALLOCATION
        field = annotation_path(keys.SGPU_ALLOCATED)
        main = (one for one in containers if one.phase is Phase.MAIN)
        whose = device_list.list_owners(lists, containers, main)
        grants = tuple(
            device_list.listed_grant(field, listed, owner, node, MIB)
            for owner, devices in zip(whose, lists, strict=True)
            for listed in devices
        )
        task_class = pods.TASK_CLASSES.get(texts.get(keys.APP_CLASS, ""), TaskClass.NORMAL)
        qos = texts.get(keys.QOS, "")
        limited = any(grant.compute < FULL for grant in grants)
        counts = qos in hami_record.QOS_POLICIES and limited and task_class is not TaskClass.ONLINE
        terms = SharingTerms(task_class=task_class, qos=qos if counts else None)
        return dialect.AdoptedAllocation(grants, terms)

    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> dialect.Result:
        """Write the record of a placement; none where MetaX's device plugin alone serves it."""
        if not placement.grants:
            return dialect.NO_RESULT
        record = _CARDS if Mode.WHOLE in request.modes else _SHARES
        containers = [
            [grant for grant in placement.grants if grant.container == member.container.name]
            for member in pod_containers(pod)
        ]
        devices = hami_record.encode_devices(record.kind, containers)
        lists = {record.to_allocate: devices, record.allocated: devices}
        written = hami_record.bind_annotations(placement.node, lists, now)
        if record is _SHARES:
            written[hami_record.METAX_ALLOCATED] = hami_record.encode_metax(containers)
            written[keys.PREDICATE_TIME] = str(now)
        return dialect.Result(written, hami_record.bind_labels(placement.node))


def _lists(texts: Text, node: Node) -> device_list.DeviceLists:
    """Return the lists of the record; empty where there is none."""
    if keys.GPU_ALLOCATED in texts:
        _check_whole(texts, node)
        return device_list.read_device_lists(
            annotation_path(keys.GPU_ALLOCATED), texts[keys.GPU_ALLOCATED]
        )
    field = annotation_path(keys.SGPU_ALLOCATED)
    lists = device_list.read_device_lists(field, texts.get(keys.SGPU_ALLOCATED, ""))
    if hami_record.METAX_ALLOCATED not in texts:
        return lists
    also = tuple(
        tuple(
            device_list.ListedDevice(share.card, None, share.memory // MIB, share.compute)
            for share in shares
        )
        for shares in hami_record.decode_metax(texts[hami_record.METAX_ALLOCATED])
    )
    if keys.SGPU_ALLOCATED in texts and [*chain(*lists)] != [*chain(*also)]:
        raise _differs(texts, keys.SGPU_ALLOCATED)
    return lists or also


def _check_whole(texts: Text, node: Node) -> None:
    """Verify that a record of whole cards can identify them: the node only counts its cards."""
    if any(keys.NAME in card.dialects and card.mode is not Mode.WHOLE for card in node.cards):
        problem = "does not say which of the node's cards the pod has"
        path = annotation_path(keys.GPU_ALLOCATED)
        raise dialect.DialectError(path, texts.get(keys.GPU_ALLOCATED), problem)


def _differs(texts: Text, key: str) -> dialect.DialectError:
    return dialect.DialectError(
        annotation_path(hami_record.METAX_ALLOCATED),
        texts[hami_record.METAX_ALLOCATED],
        f"differs from {key}",
    )

"""Writes and reads the record of an allocation; adopts pods that HAMi's scheduler bound.

Source: HAMi v2.10.0 pkg/scheduler/scheduler.go:1031-1052 and 1124-1139,
pkg/device/metax/{device,sdevice}.go. Of an adopted pod the record counts, not what the pod
requests; records of v2.4 to v2.6 cover main containers only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adapters.dialects.containers import pod_containers, requests_any
from adapters.dialects.dialect import (
    NO_ALLOCATION,
    NO_RESULT,
    AdoptedAllocation,
    DialectError,
    Result,
)
from adapters.dialects.formats.annotation_values import annotation_path
from adapters.dialects.formats.device_list import (
    DeviceLists,
    ListedDevice,
    list_owners,
    listed_grant,
    read_device_lists,
)
from adapters.dialects.formats.hami_record import (
    METAX_ALLOCATED,
    QOS_POLICIES,
    ContainerShares,
    bind_annotations,
    bind_labels,
    check_node,
    decode_devices,
    decode_metax,
    encode_devices,
    encode_metax,
)
from adapters.dialects.metax import keys
from adapters.dialects.metax.keys import MetaxConfig
from adapters.dialects.metax.pod import TASK_CLASSES
from adapters.wire.kube import Pod, Text, annotations
from core.hardware.card import Mode
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


def _record(request: Request) -> _RecordFormat:
    return _CARDS if Mode.WHOLE in request.modes else _SHARES


def write_result(pod: Pod, request: Request, placement: Placement, now: int) -> Result:
    """Write the record of a placement; none where MetaX's device plugin alone serves the pod.

    Args:
        pod: the pod.
        request: what it requests.
        placement: the cards that it gets.
        now: nanoseconds since 1970.
    """
    if not placement.grants:
        return NO_RESULT
    record = _record(request)
    containers = [
        [grant for grant in placement.grants if grant.container == member.container.name]
        for member in pod_containers(pod)
    ]
    devices = encode_devices(record.kind, containers)
    lists = {record.to_allocate: devices, record.allocated: devices}
    written = bind_annotations(placement.node, lists, now)
    if record is _SHARES:
        written[METAX_ALLOCATED] = encode_metax(containers)
        written[keys.PREDICATE_TIME] = str(now)
    return Result(written, bind_labels(placement.node))


def has_result(pod: Pod) -> bool:
    """Return whether a pod has a record."""
    return (
        not annotations(pod)
        .keys()
        .isdisjoint({keys.SGPU_ALLOCATED, keys.GPU_ALLOCATED, METAX_ALLOCATED})
    )


def read_result(pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
    """Read the grants of a pod, in start order of its containers.

    Raises:
        DialectError: the record is for another node, contradicts itself or the pod, or does not
            identify the cards.
    """
    texts = annotations(pod)
    record = _record(request)
    check_node(texts, node)
    own = (card for card in node.cards if keys.NAME in card.dialects)
    if record is _CARDS and any(card.mode is not Mode.WHOLE for card in own):
        problem = "does not say which of the node's cards the pod has"
        raise DialectError(annotation_path(record.allocated), texts.get(record.allocated), problem)
    containers = _decode(texts, record)
    found = [member.container.name for member in pod_containers(pod)]
    if len(containers) != len(found):
        problem = f"covers {len(containers)} containers, the pod has {len(found)}"
        raise DialectError(annotation_path(record.allocated), texts.get(record.allocated), problem)
    by_container = dict(zip(found, containers, strict=True))
    requests = {request.name: request for request in request.containers}
    for name, shares in by_container.items():
        count = requests[name].count if name in requests else 0
        if len(shares) != count:
            problem = f"has {len(shares)} cards for {name}, which requests {count}"
            raise DialectError(
                annotation_path(record.allocated), texts.get(record.allocated), problem
            )
    return tuple(
        Grant(wanted.name, share.card, share.memory, share.compute, wanted.exclusive, wanted.phase)
        for wanted in request.containers
        for share in by_container[wanted.name]
    )


def _decode(texts: Text, record: _RecordFormat) -> ContainerShares:
    field = annotation_path(record.allocated)
    text = texts.get(record.allocated)
    listed = None if text is None else decode_devices(record.kind, field, text)
    if record is _SHARES and METAX_ALLOCATED in texts:
        also = decode_metax(texts[METAX_ALLOCATED])
        if listed not in (None, also):
            problem = f"differs from {record.allocated}"
            raise DialectError(annotation_path(METAX_ALLOCATED), texts[METAX_ALLOCATED], problem)
        listed = also
    if listed is None:
        raise DialectError(field, text, "must list the cards of the pod")
    return listed


def read_adopted(pod: Pod, node: Node, config: MetaxConfig) -> AdoptedAllocation | None:
    """Read the allocation of a pod; see ``Dialect``.

    Raises:
        DialectError: the record is for another node, contradicts itself, does not identify the
            cards, or cannot be parsed.
    """
    texts = annotations(pod)
    check_node(texts, node)
    lists = _lists(texts, node)
    containers = tuple(pod_containers(pod))
    if not any(lists):
        requested = any(requests_any(member, (config.sgpu, config.gpu)) for member in containers)
        return None if requested else NO_ALLOCATION
    field = annotation_path(keys.SGPU_ALLOCATED)
    whose = list_owners(lists, containers, (one for one in containers if one.phase is Phase.MAIN))
    grants = tuple(
        listed_grant(field, listed, owner, node, MIB)
        for owner, devices in zip(whose, lists, strict=True)
        for listed in devices
    )
    task_class = TASK_CLASSES.get(texts.get(keys.APP_CLASS, ""), TaskClass.NORMAL)
    return AdoptedAllocation(
        grants, terms=SharingTerms(task_class=task_class, qos=_qos(texts, grants, task_class))
    )


def _lists(texts: Text, node: Node) -> DeviceLists:
    """Return the lists of the record; empty where there is none."""
    if keys.GPU_ALLOCATED in texts:
        if any(keys.NAME in card.dialects and card.mode is not Mode.WHOLE for card in node.cards):
            problem = "does not say which of the node's cards the pod has"
            raise DialectError(
                annotation_path(keys.GPU_ALLOCATED), texts[keys.GPU_ALLOCATED], problem
            )
        return read_device_lists(annotation_path(keys.GPU_ALLOCATED), texts[keys.GPU_ALLOCATED])
    lists = read_device_lists(
        annotation_path(keys.SGPU_ALLOCATED), texts.get(keys.SGPU_ALLOCATED, "")
    )
    if METAX_ALLOCATED not in texts:
        return lists
    also = tuple(
        tuple(
            ListedDevice(share.card, None, share.memory // MIB, share.compute) for share in shares
        )
        for shares in decode_metax(texts[METAX_ALLOCATED])
    )
    if keys.SGPU_ALLOCATED in texts and _devices(lists) != _devices(also):
        problem = f"differs from {keys.SGPU_ALLOCATED}"
        raise DialectError(annotation_path(METAX_ALLOCATED), texts[METAX_ALLOCATED], problem)
    return lists or also


def _devices(lists: Iterable[Sequence[ListedDevice]]) -> list[ListedDevice]:
    return [listed for devices in lists for listed in devices]


def _qos(texts: Text, grants: Sequence[Grant], task_class: TaskClass) -> str | None:
    """Return the QoS policy that the pod gives its card.

    Only a pod with a part of the compute has one.
    """
    qos = texts.get(keys.QOS, "")
    limited = any(grant.compute < FULL for grant in grants)
    return qos if qos in QOS_POLICIES and limited and task_class is not TaskClass.ONLINE else None

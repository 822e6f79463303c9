"""Adopts pods that HAMi's scheduler bound: its record counts, not what the pod requests.

Source: HAMi v2.10.0 pkg/device/metax/{sdevice,device}.go; records of v2.4 to v2.6 cover main
containers only.
"""

from collections.abc import Iterable, Sequence

from adapters.dialects.containers import pod_containers, requests_any
from adapters.dialects.dialect import NO_ALLOCATION, AdoptedAllocation, DialectError
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
    check_node,
    decode_metax,
)
from adapters.dialects.metax import keys
from adapters.dialects.metax.settings import MetaxConfig
from adapters.dialects.metax.shares import TASK_CLASSES
from adapters.wire.kube import Pod, Text, annotations
from core.hardware.card import Mode
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB
from core.requests.grant import Grant
from core.requests.request import Phase, TaskClass


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
    return AdoptedAllocation(grants, task_class=task_class, qos=_qos(texts, grants, task_class))


def _lists(texts: Text, node: Node) -> DeviceLists:
    """The lists of the record; empty where there is none."""
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
    """The QoS policy that the pod gives its card: only a pod with a part of the compute has one."""
    qos = texts.get(keys.QOS, "")
    limited = any(grant.compute < FULL for grant in grants)
    return qos if qos in QOS_POLICIES and limited and task_class is not TaskClass.ONLINE else None

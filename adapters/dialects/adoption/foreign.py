"""Adopts pods that use cards and request no resource of a dialect.

HAMi's resource names are configurable (HAMi v2.10.0 charts/hami/values.yaml ``resourceName``); its
record is always the same annotation. NVIDIA's device plugin renames shared cards to
``nvidia.com/gpu.shared`` and offers MIG instances as ``nvidia.com/mig-PROFILE``
(k8s-device-plugin api/config/v1/replicas.go, README "mixed" strategy); it writes no record.
"""

from collections.abc import Sequence

from adapters.dialects.adoption.bound import adopted_allocation, unread_allocation
from adapters.dialects.containers import PodContainer, pod_containers, resource_names
from adapters.dialects.dialect import AdoptedAllocation, DialectError
from adapters.dialects.formats.device_list import list_owners, listed_grant, read_device_lists
from adapters.dialects.formats.hami_record import NVIDIA_ALLOCATED, check_node
from adapters.wire.kube import Pod, annotations
from core.hardware.card import Mode
from core.hardware.node import Node
from core.hardware.quantity import MIB
from core.requests.grant import Allocation, Grant
from core.requests.request import Phase

HAMI = "hami"
PLUGIN = "nvidia-device-plugin"
NVIDIA = "nvidia"

SHARED = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"


def adopt_foreign(pod: Pod, node: Node) -> Allocation | None:
    """The allocation of a bound pod that requests no resource of a dialect; None where it has none.

    A pod of NVIDIA's device plugin blocks every card that can have its kind of share: no record
    says which card it uses.
    """
    if annotations(pod).get(NVIDIA_ALLOCATED):
        try:
            grants = read_hami(pod, node)
            return adopted_allocation(pod, node, HAMI, AdoptedAllocation(grants))
        except DialectError as error:
            cards = [card for card in node.cards if card.vendor == NVIDIA]
            return unread_allocation(pod, node, HAMI, cards, str(error))
    names = resource_names(pod)
    by_mode = {
        Mode.MIG: any(name.startswith(MIG_PREFIX) for name in names),
        Mode.SHARED: SHARED in names,
        Mode.WHOLE: SHARED in names,
    }
    cards = [card for card in node.cards if card.vendor == NVIDIA and by_mode[card.mode]]
    if not cards:
        return None
    return unread_allocation(pod, node, PLUGIN, cards, f"runs on {node.name} without a record")


def read_hami(pod: Pod, node: Node, requesting: Sequence[PodContainer] = ()) -> tuple[Grant, ...]:
    """Grants by HAMi's record.

    For a partitioned card the record names the slice by HAMi's own tables, which are not read:
    the grant then has no slice.

    Args:
        pod: the pod.
        node: where it runs.
        requesting: its containers that request cards, where that is known: HAMi v2.10 omits the
            lists of the others.

    Raises:
        DialectError: the record cannot be parsed, or is for another node.
    """
    check_node(annotations(pod), node)
    field = f"metadata.annotations[{NVIDIA_ALLOCATED}]"
    lists = read_device_lists(field, annotations(pod).get(NVIDIA_ALLOCATED, ""))
    containers = tuple(pod_containers(pod))
    main = [one for one in containers if one.phase is Phase.MAIN]
    owners = list_owners(lists, containers, requesting, main)
    return tuple(
        listed_grant(field, listed, owner, node, MIB)
        for owner, devices in zip(owners, lists, strict=True)
        for listed in devices
    )

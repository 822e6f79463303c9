"""Writes the record by which HAMi's device plugin knows the NVIDIA cards of a pod.

Source: HAMi v2.10 pkg/device/nvidia/device.go, PatchAnnotations; the plugin takes the lists by
position, init containers first (pkg/device-plugin/nvidiadevice/nvinternal/plugin/util.go,
popNextContainerDevices). HAMi's own scheduler omits the empty lists of containers without a card
(pkg/scheduler/score.go compares types with vendors), so its plugin then finds the wrong container.
"""

from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import Result
from adapters.dialects.formats.hami_record import (
    MIG_ALLOCATIONS,
    NVIDIA_ALLOCATED,
    NVIDIA_KIND,
    NVIDIA_TO_ALLOCATE,
    bind_annotations,
    bind_labels,
    encode_devices,
)
from adapters.dialects.formats.hami_slices import encode_mig_allocations
from adapters.wire.kube import Pod
from core.requests.grant import Placement


def write_nvidia(pod: Pod, placement: Placement, now: int) -> Result:
    """Write the record of a placement.

    Args:
        pod: the pod.
        placement: the cards that it gets.
        now: nanoseconds since 1970.
    """
    containers = [
        [grant for grant in placement.grants if grant.container == member.container.name]
        for member in pod_containers(pod)
    ]
    devices = encode_devices(NVIDIA_KIND, containers)
    slices = encode_mig_allocations(containers)
    written = {NVIDIA_TO_ALLOCATE: devices, NVIDIA_ALLOCATED: devices}
    if slices is not None:
        written[MIG_ALLOCATIONS] = slices
    return Result(bind_annotations(placement.node, written, now), bind_labels(placement.node))

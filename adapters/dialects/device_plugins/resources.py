"""Resources that a vendor's own device plugin states and serves, without a scheduler of cards.

Most GPU clusters have only these. On a node that no dialect and no agent describes they are not
ours: the scheduler counts them, and the kubelet chooses the devices.

Sources: ``formats/nvidia_words.py`` for NVIDIA's, ROCm k8s-device-plugin, Hygon's and MetaX's
device plugins by Koordinator's apis/extension/device_share.go and HAMi's
pkg/device/metax/device.go.
"""

from collections.abc import Mapping

from adapters.dialects.containers import pod_containers, resource_names, whole_amount
from adapters.dialects.formats.nvidia_words import GPU, MIG_PREFIX, SHARED
from adapters.wire.kube import Pod
from core.requests.request import Phase, PluginShare

WHOLE_CARDS: Mapping[str, str] = {
    GPU: "nvidia",
    "amd.com/gpu": "amd",
    "dcu.com/gpu": "hygon",
    "metax-tech.com/gpu": "metax",
}
"""Resources that count whole cards, and the vendor of the cards."""

_MAX = 2**31 - 1


def plugin_share(resource: str) -> PluginShare | None:
    """What a device plugin gives for a resource; None where none of these plugins states it."""
    if resource in WHOLE_CARDS:
        return PluginShare.CARD
    if resource == SHARED or resource.startswith(MIG_PREFIX):
        return PluginShare.DEVICE
    return None


def plugin_amounts(pod: Pod) -> Mapping[str, int]:
    """The devices of plugins that a pod requests, by resource; only amounts above 0.

    As Kubernetes adds them up: the containers that run together, or an init container with the
    sidecars that started before it, whichever is more.
    Source: k8s.io/component-helpers/resource/helpers.go, PodRequests.

    Raises:
        DialectError: an amount is not a whole number, or limit and request differ.
    """
    amounts: dict[str, int] = {}
    for resource in sorted(filter(plugin_share, resource_names(pod))):
        most = together = 0
        for member in pod_containers(pod):
            amount = whole_amount(member, resource, 0, _MAX) or 0
            if member.phase is Phase.INIT:
                most = max(most, together + amount)
            else:
                together += amount
        if max(most, together):
            amounts[resource] = max(most, together)
    return amounts

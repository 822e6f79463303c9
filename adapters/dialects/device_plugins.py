"""Vendors' device plugins without a scheduler of cards: their resources, and what they state.

Most GPU clusters have only these. On a node that no dialect and no agent describes they are not
ours: the scheduler counts the devices, and the kubelet chooses them. A plugin says how many devices
a node has and of which product, and never which pod has which card. So nothing of it is a card of a
ledger.

Source of the resources: ``formats/nvidia_words.py`` for NVIDIA's, ROCm k8s-device-plugin, Hygon's
and MetaX's device plugins by Koordinator's apis/extension/device_share.go and HAMi's
pkg/device/metax/device.go. Of the labels: NVIDIA k8s-device-plugin internal/lm/resource.go
(``count``, ``replicas``, ``product``, ``memory``, ``sharing-strategy`` of each resource; the suffix
``SHARED``), internal/lm/mig-strategy.go (``mig.strategy``; the product ``MIG-INVALID``; ``count``
is that of one model where a node has several), and docs/gpu-feature-discovery/README.md. Of
``gpu.deploy``: NVIDIA gpu-operator controllers/state_manager.go. Of the amounts: kubernetes
pkg/kubelet/cm/devicemanager/manager.go, GetCapacity: the capacity counts unhealthy devices,
allocatable does not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from adapters.dialects.containers import pod_containers, resource_names, whole_amount
from adapters.dialects.formats.nvidia_words import GPU, MIG_PREFIX, SHARED
from adapters.wire.kube import Amount, KubeNode, Pod, labels
from adapters.wire.quantity import QuantityError, parse_int
from core.hardware.quantity import MIB
from core.requests.request import Phase, PluginShare

STRATEGY = "nvidia.com/mig.strategy"
MIXED = "mixed"

_NVIDIA = "nvidia.com/"
_RENAMED = ".shared"
_SUFFIX = "-SHARED"
_INVALID = "MIG-INVALID"
_UNSHARED = "none"

_DEPLOYED = ("nvidia.com/gpu.deploy.operands", "nvidia.com/gpu.deploy.device-plugin")
"""Labels by which a person keeps the operator from running its device plugin on a node."""

_LONGEST = 9
"""Digits of a number; a node has fewer devices, and a card has fewer MiB."""


@dataclass(frozen=True, slots=True)
class PluginResource:
    """One resource that device plugins state on one node.

    Attributes:
        allocatable: healthy devices.
        capacity: all devices, ``allocatable`` or more.
        product: model of the cards, or of the MIG devices; empty where no label names it.
        memory: bytes of one card or MIG device; None where no label has it.
        replicas: how many pods one card or MIG device is advertised to, 1 or more.
        sharing: ``time-slicing`` or ``mps``; empty where the devices are not shared.
    """

    name: str
    allocatable: int
    capacity: int
    product: str = ""
    memory: int | None = None
    replicas: int = 1
    sharing: str = ""


@dataclass(frozen=True, slots=True)
class PluginNode:
    """One node as device plugins and NVIDIA's labels state it.

    Attributes:
        resources: by name, in alphabetical order; those of which the node has a device.
        cards: physical cards by ``nvidia.com/gpu.count``; None where the label is missing, or
            counts MIG devices (MIG strategy ``single``), or the cards of one of several models.
        mig_strategy: ``none``, ``single`` or ``mixed``; empty where no label has it.
        problems: labels that are no numbers, contradict each other or the amounts, as sentences.
    """

    name: str
    resources: Mapping[str, PluginResource]
    cards: int | None
    mig_strategy: str
    problems: tuple[str, ...]


def read_plugin_node(node: KubeNode) -> PluginNode | None:
    """Return what device plugins state of a node; None where it names none of their resources."""
    capacity = _amounts(node.status.capacity)
    allocatable = _amounts(node.status.allocatable)
    names = sorted({*capacity, *allocatable})
    if not names:
        return None
    stated = labels(node)
    problems = [
        f"the amount of {name} is not a whole number of {_LONGEST} digits at most"
        for name in names
        if None in (capacity.get(name, 0), allocatable.get(name, 0))
    ]
    resources: dict[str, PluginResource] = {}
    totals: dict[str, int] = {}
    for name in names:
        healthy = allocatable.get(name) or 0
        every = max(capacity.get(name) or 0, healthy)
        prefix = name.removesuffix(_RENAMED)
        totals[prefix] = totals.get(prefix, 0) + every
        if every:
            memory = _number(stated, f"{prefix}.memory")
            sharing = stated.get(f"{prefix}.sharing-strategy", "")
            resources[name] = PluginResource(
                name=name,
                allocatable=healthy,
                capacity=every,
                product=stated.get(f"{prefix}.product", "").removesuffix(_SUFFIX),
                memory=memory * MIB if memory else None,
                replicas=_replicas(stated, prefix),
                sharing="" if sharing == _UNSHARED else sharing,
            )
    for prefix, total in totals.items():
        problems += _problems(prefix, total, stated)
    cards = _number(stated, f"{GPU}.count")
    if _counts_mig_devices(stated) or (cards and totals.get(GPU, 0) > cards * _replicas(stated)):
        cards = None
    strategy = stated.get(STRATEGY, "")
    return PluginNode(node.metadata.name, resources, cards, strategy, tuple(problems))


def _amounts(stated: Mapping[str, Amount] | None) -> dict[str, int | None]:
    """Return the amounts of plugins' resources; None for what is no whole number, 0 or more."""
    found: dict[str, int | None] = {}
    for name, amount in (stated or {}).items():
        if plugin_share(name) is not None:
            try:
                number = parse_int(str(amount))
            except QuantityError:
                number = -1
            found[name] = number if 0 <= number < 10**_LONGEST else None
    return found


def _problems(prefix: str, total: int, stated: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the labels of one resource.

    Args:
        prefix: of the labels: the resource's name before a renaming.
        total: devices of the node, unhealthy ones included.
        stated: the labels of the node.
    """
    if not prefix.startswith(_NVIDIA):
        return
    for key in (f"{prefix}.{each}" for each in ("count", "replicas", "memory")):
        if key in stated and _number(stated, key) is None:
            yield f"label {key}: {stated[key]!r} is not a whole number"
    product = stated.get(f"{prefix}.product", "")
    if product.endswith(_INVALID):
        yield f"label {prefix}.product: {product}: MIG strategy single needs the same MIG devices"
        return
    count, replicas = _number(stated, f"{prefix}.count"), _replicas(stated, prefix)
    if replicas > 1 and stated.get(f"{prefix}.sharing-strategy") == _UNSHARED:
        yield f"labels {prefix}.replicas={replicas} and {prefix}.sharing-strategy=none contradict"
    if count is None or (not total and any(stated.get(key) == "false" for key in _DEPLOYED)):
        return
    expected = count * replicas
    of_cards = prefix == GPU and not _counts_mig_devices(stated)
    if of_cards and stated.get(STRATEGY) == MIXED:
        return  # the cards in MIG mode count in the label, and not in the resource
    # The label counts the cards of only one model.
    if total < expected or (total > expected and (not of_cards or total % replicas)):
        times = f" x {prefix}.replicas={replicas}" if replicas > 1 else ""
        yield f"label {prefix}.count={count}{times} contradicts the capacity, {total} {prefix}"


def _counts_mig_devices(stated: Mapping[str, str]) -> bool:
    """Return whether ``gpu.count`` counts MIG devices: their labels replace the cards' own."""
    return f"{GPU}.slices.gi" in stated or "-MIG-" in stated.get(f"{GPU}.product", "")


def _replicas(stated: Mapping[str, str], prefix: str = GPU) -> int:
    return _number(stated, f"{prefix}.replicas") or 1


def _number(stated: Mapping[str, str], key: str) -> int | None:
    """Return the whole number of a label, 0 or more; None where there is none."""
    text = stated.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST else None


WHOLE_CARDS: Mapping[str, str] = {
    GPU: "nvidia",
    "amd.com/gpu": "amd",
    "dcu.com/gpu": "hygon",
    "metax-tech.com/gpu": "metax",
}
"""Resources that count whole cards, and the vendor of the cards."""

_MAX = 2**31 - 1


def plugin_share(resource: str) -> PluginShare | None:
    """Return what a device plugin gives for a resource; None where none of these states it."""
    if resource in WHOLE_CARDS:
        return PluginShare.CARD
    return PluginShare.DEVICE if resource == SHARED or resource.startswith(MIG_PREFIX) else None


def plugin_amounts(pod: Pod) -> Mapping[str, int]:
    """Return the devices of plugins that a pod requests, by resource; only amounts above 0.

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

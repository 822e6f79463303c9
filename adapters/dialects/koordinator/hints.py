"""What a pod's annotations say of how its cards are to be chosen.

Source: koordinator-sh/koordinator apis/extension/{device_share.go:119-248,numa_aware.go:73-172,
multi_scheduler.go:41-60}. A word that would change the choice and is not supported is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from adapters.dialects.dialect import DialectError
from adapters.dialects.koordinator import keys
from adapters.dialects.koordinator.annotation import annotation_path, decode
from adapters.wire.kube import Amount, Pod, annotations, labels
from adapters.wire.quantity import QuantityError, parse_int
from core.hardware.card import Level
from core.requests.request import ContainerRequest, TopologyConstraint

_SCOPES = {"": None, "Node": None, "Device": None, "NUMANode": Level.NUMA, "PCIe": Level.PCIE}


@dataclass(frozen=True, slots=True)
class Hints:
    """The pod's wishes beside its resources.

    Attributes:
        topology: how the cards of one container shall be connected.
        exclusive: nobody else may hold a share of the pod's cards.
        notes: what has no effect here, as sentences.
    """

    topology: TopologyConstraint
    exclusive: bool = False
    notes: tuple[str, ...] = ()


_PLAIN = Hints(TopologyConstraint(levels=(Level.NUMA, Level.PCIE), by_partition=True))


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class _DeviceHint(_Strict, frozen=True):
    selector: dict[str, object] | None = None
    vf_selector: dict[str, object] | None = None
    allocate_strategy: str = ""
    required_topology_scope: str = ""
    exclusive_policy: str = ""


class _PartitionSpec(_Strict, frozen=True):
    allocate_policy: str = ""
    ring_bus_bandwidth: Amount | None = None


class _NumaSpec(_Strict, frozen=True):
    numa_topology_policy: str = ""
    single_numa_node_exclusive: str = msgspec.field(default="", name="singleNUMANodeExclusive")


class _SchedulingHint(msgspec.Struct, frozen=True):
    extensions: dict[str, object] | None = None


_DeviceHints = dict[str, _DeviceHint | None]


def read_hints(pod: Pod, asks: Sequence[ContainerRequest]) -> Hints:
    """What a pod's annotations and labels say.

    Args:
        pod: the pod.
        asks: what its containers ask for.

    Raises:
        DialectError: a hint cannot be read, cannot be met, or is not supported.
    """
    _refuse_unsupported(pod)
    hints = _device_hint(pod, _PLAIN, asks)
    hints = _partition_spec(pod, hints, asks)
    hints = _numa_spec(pod, hints, asks)
    return _designation(pod, hints)


def _refuse_unsupported(pod: Pod) -> None:
    for key in (
        keys.JOINT_ALLOCATE,
        keys.RESERVATION_AFFINITY,
        keys.EXACT_MATCH_RESERVATION,
        keys.RESERVE_POD,
    ):
        if key in annotations(pod):
            problem = "is not supported; Dragoman knows neither joint devices nor reservations"
            raise DialectError(annotation_path(key), annotations(pod)[key], problem)
    if labels(pod).get(keys.PRE_ALLOCATION_REQUIRED) == "true":
        place = f"metadata.labels[{keys.PRE_ALLOCATION_REQUIRED}]"
        raise DialectError(place, "true", "is not supported; Dragoman knows no reservations")


def _device_hint(pod: Pod, hints: Hints, asks: Sequence[ContainerRequest]) -> Hints:
    found = decode(annotations(pod), keys.ALLOCATE_HINT, _DeviceHints) or {}
    place = annotation_path(keys.ALLOCATE_HINT)
    for device in found:
        if device != "gpu":
            raise DialectError(place, device, "is not supported; only gpu is")
    hint = found.get("gpu") or _DeviceHint()
    if hint.selector:
        problem = "is not supported; select nodes by their labels instead"
        raise DialectError(f"{place}.gpu.selector", hint.selector, problem)
    if hint.vf_selector is not None:
        problem = "is not supported; a GPU has no virtual functions"
        raise DialectError(f"{place}.gpu.vfSelector", hint.vf_selector, problem)
    if hint.allocate_strategy:
        told = f"{place}.gpu.allocateStrategy has no effect on GPUs"
        hints = replace(hints, notes=(*hints.notes, told))
    scope = hint.required_topology_scope
    _check_word(f"{place}.gpu.requiredTopologyScope", scope, *_SCOPES)
    if scope == "Device" and any(ask.count > 1 for ask in asks):
        problem = "several cards cannot be one device; must be PCIe, NUMANode or Node"
        raise DialectError(f"{place}.gpu.requiredTopologyScope", scope, problem)
    _check_word(f"{place}.gpu.exclusivePolicy", hint.exclusive_policy, "", "DeviceLevel")
    return replace(
        _require(hints, _SCOPES[scope], asks), exclusive=hint.exclusive_policy == "DeviceLevel"
    )


def _partition_spec(pod: Pod, hints: Hints, asks: Sequence[ContainerRequest]) -> Hints:
    if keys.PARTITION_SPEC not in annotations(pod):
        return hints
    place = annotation_path(keys.PARTITION_SPEC)
    found = decode(annotations(pod), keys.PARTITION_SPEC, _PartitionSpec)
    spec = found or _PartitionSpec()
    _check_word(f"{place}.allocatePolicy", spec.allocate_policy, "", "BestEffort", "Restricted")
    topology = replace(
        hints.topology,
        must_partition=True,
        best_partitions_only=spec.allocate_policy == "Restricted",
        bandwidth=_bandwidth(f"{place}.ringBusBandwidth", spec.ring_bus_bandwidth),
    )
    notes = [
        f"{place} counts for whole cards only, so not for container {ask.container}"
        for ask in asks
        if not ask.exclusive
    ]
    return replace(hints, topology=topology, notes=(*hints.notes, *notes))


def _bandwidth(place: str, stated: Amount | None) -> int:
    if stated is None:
        return 0
    try:
        amount = parse_int(str(stated))
    except QuantityError:
        raise DialectError(place, stated, "must be a quantity such as 200Gi") from None
    if amount < 0:
        raise DialectError(place, stated, "must be 0 or more")
    return amount


def _numa_spec(pod: Pod, hints: Hints, asks: Sequence[ContainerRequest]) -> Hints:
    spec = decode(annotations(pod), keys.NUMA_SPEC, _NumaSpec) or _NumaSpec()
    place = annotation_path(keys.NUMA_SPEC)
    policy, alone = spec.numa_topology_policy, spec.single_numa_node_exclusive
    known = ("", "BestEffort", "Restricted", "SingleNUMANode")
    _check_word(f"{place}.numaTopologyPolicy", policy, *known)
    _check_word(f"{place}.singleNUMANodeExclusive", alone, "", "Preferred", "Required")
    if policy == "SingleNUMANode":
        hints = _require(hints, Level.NUMA, asks)
    notes = list(hints.notes)
    if policy:
        notes.append(f"{place}: the cards of each container are chosen, not its CPUs")
    if alone:
        notes.append(f"{place}.singleNUMANodeExclusive has no effect on GPUs")
    return replace(hints, notes=tuple(notes))


def _designation(pod: Pod, hints: Hints) -> Hints:
    notes = list(hints.notes)
    for key in keys.SCHEDULING_HINTS:
        hint = decode(annotations(pod), key, _SchedulingHint) or _SchedulingHint()
        if keys.DEVICE_SHARE in (hint.extensions or {}):
            notes.append(f"{annotation_path(key)} has no effect: Dragoman chooses the cards itself")
    return replace(hints, notes=tuple(notes))


def _require(hints: Hints, level: Level | None, asks: Sequence[ContainerRequest]) -> Hints:
    """One card alone meets every demand."""
    closest = max(level or Level.NODE, hints.topology.required or Level.NODE)
    if closest is Level.NODE or all(ask.count == 1 for ask in asks):
        return hints
    return replace(hints, topology=replace(hints.topology, required=closest))


def _check_word(place: str, word: str, *known: str) -> None:
    if word not in known:
        raise DialectError(place, word, f"must be one of {', '.join(filter(None, known))}")

"""Annotations by which a pod influences the choice of its cards.

Source: koordinator-sh/koordinator apis/extension/{device_share.go:119-248,numa_aware.go:73-172,
multi_scheduler.go:41-60}. A value that would change the choice and is not supported is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.annotation_values import annotation_path, decode
from adapters.dialects.koordinator import keys
from adapters.wire.kube import Amount, Pod, annotations, labels
from adapters.wire.quantity import QuantityError, parse_int
from core.hardware.card import Level
from core.requests.request import ContainerRequest, TopologyConstraint

_SCOPES = {"": None, "Node": None, "Device": None, "NUMANode": Level.NUMA, "PCIe": Level.PCIE}


@dataclass(frozen=True, slots=True)
class Hints:
    """The constraints of a pod in addition to its resources.

    Attributes:
        topology: how the cards of one container must be connected.
        exclusive: no other pod may have a share of the pod's cards.
        notes: which annotations have no effect here, as sentences.
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


def read_hints(pod: Pod, requests: Sequence[ContainerRequest]) -> Hints:
    """Read the hints in a pod's annotations and labels.

    Args:
        pod: the pod.
        requests: what its containers request.

    Raises:
        DialectError: a hint cannot be parsed, cannot be satisfied, or is not supported.
    """
    _reject_unsupported(pod)
    hints = _device_hint(pod, _PLAIN, requests)
    hints = _partition_spec(pod, hints, requests)
    hints = _numa_spec(pod, hints, requests)
    return _scheduling_hints(pod, hints)


def _reject_unsupported(pod: Pod) -> None:
    for key in (
        keys.JOINT_ALLOCATE,
        keys.RESERVATION_AFFINITY,
        keys.EXACT_MATCH_RESERVATION,
        keys.RESERVE_POD,
    ):
        if key in annotations(pod):
            problem = "is not supported; Dragoman has neither joint allocation nor reservations"
            raise DialectError(annotation_path(key), annotations(pod)[key], problem)
    if labels(pod).get(keys.PRE_ALLOCATION_REQUIRED) == "true":
        place = f"metadata.labels[{keys.PRE_ALLOCATION_REQUIRED}]"
        raise DialectError(place, "true", "is not supported; Dragoman has no reservations")


def _device_hint(pod: Pod, hints: Hints, requests: Sequence[ContainerRequest]) -> Hints:
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
        note = f"{place}.gpu.allocateStrategy has no effect on GPUs"
        hints = replace(hints, notes=(*hints.notes, note))
    scope = hint.required_topology_scope
    _check_choice(f"{place}.gpu.requiredTopologyScope", scope, *_SCOPES)
    if scope == "Device" and any(request.count > 1 for request in requests):
        problem = "several cards cannot be one device; must be PCIe, NUMANode or Node"
        raise DialectError(f"{place}.gpu.requiredTopologyScope", scope, problem)
    _check_choice(f"{place}.gpu.exclusivePolicy", hint.exclusive_policy, "", "DeviceLevel")
    return replace(
        _require(hints, _SCOPES[scope], requests), exclusive=hint.exclusive_policy == "DeviceLevel"
    )


def _partition_spec(pod: Pod, hints: Hints, requests: Sequence[ContainerRequest]) -> Hints:
    if keys.PARTITION_SPEC not in annotations(pod):
        return hints
    place = annotation_path(keys.PARTITION_SPEC)
    found = decode(annotations(pod), keys.PARTITION_SPEC, _PartitionSpec)
    spec = found or _PartitionSpec()
    _check_choice(f"{place}.allocatePolicy", spec.allocate_policy, "", "BestEffort", "Restricted")
    topology = replace(
        hints.topology,
        must_partition=True,
        best_partitions_only=spec.allocate_policy == "Restricted",
        bandwidth=_bandwidth(f"{place}.ringBusBandwidth", spec.ring_bus_bandwidth),
    )
    notes = [
        f"{place} applies to whole cards only, not to container {request.name}"
        for request in requests
        if not request.exclusive
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


def _numa_spec(pod: Pod, hints: Hints, requests: Sequence[ContainerRequest]) -> Hints:
    spec = decode(annotations(pod), keys.NUMA_SPEC, _NumaSpec) or _NumaSpec()
    place = annotation_path(keys.NUMA_SPEC)
    policy, alone = spec.numa_topology_policy, spec.single_numa_node_exclusive
    policies = ("", "BestEffort", "Restricted", "SingleNUMANode")
    _check_choice(f"{place}.numaTopologyPolicy", policy, *policies)
    _check_choice(f"{place}.singleNUMANodeExclusive", alone, "", "Preferred", "Required")
    if policy == "SingleNUMANode":
        hints = _require(hints, Level.NUMA, requests)
    notes = list(hints.notes)
    if policy:
        notes.append(f"{place}: the cards of each container are chosen, not its CPUs")
    if alone:
        notes.append(f"{place}.singleNUMANodeExclusive has no effect on GPUs")
    return replace(hints, notes=tuple(notes))


def _scheduling_hints(pod: Pod, hints: Hints) -> Hints:
    notes = list(hints.notes)
    for key in keys.SCHEDULING_HINTS:
        hint = decode(annotations(pod), key, _SchedulingHint) or _SchedulingHint()
        if keys.DEVICE_SHARE in (hint.extensions or {}):
            notes.append(f"{annotation_path(key)} has no effect: Dragoman chooses the cards itself")
    return replace(hints, notes=tuple(notes))


def _require(hints: Hints, level: Level | None, requests: Sequence[ContainerRequest]) -> Hints:
    """Require this closeness, except where each container requests one card only."""
    closest = max(level or Level.NODE, hints.topology.required or Level.NODE)
    if closest is Level.NODE or all(request.count == 1 for request in requests):
        return hints
    return replace(hints, topology=replace(hints.topology, required=closest))


def _check_choice(place: str, value: str, *choices: str) -> None:
    if value not in choices:
        raise DialectError(place, value, f"must be one of {', '.join(filter(None, choices))}")

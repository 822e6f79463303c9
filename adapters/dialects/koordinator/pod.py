"""Reads and writes what a pod requests of Koordinator.

The amounts follow the rules of Koordinator's webhook and scheduler together. Koordinator adds up
the containers of a pod before it reads them; here each keeps its own share.
Source: koordinator-sh/koordinator pkg/webhook/pod/mutating/device_resource_spec.go:33-132 and
pkg/scheduler/plugins/deviceshare/{utils.go:39-320,devicehandler_gpu.go:53-96}.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import msgspec

from adapters.dialects import containers, request_writer
from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.annotation_values import annotation_path, decode
from adapters.dialects.formats.hami_record import BEST_EFFORT, HAMI, METAX_QOS, QOS_POLICIES
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.koordinator import keys
from adapters.wire.kube import Amount, Pod, Text, annotations, full_name, labels
from adapters.wire.quantity import QuantityError, format_binary, parse_int
from core.hardware.card import Level, Mode
from core.hardware.quantity import FULL, MIB, format_bytes
from core.requests.request import (
    ContainerRequest,
    PluginShare,
    Ranking,
    Request,
    SharingTerms,
    TopologyConstraint,
)

MAX_CARDS = 1024
"""More cards than any node has."""

_MAX_AMOUNTS = {
    **dict.fromkeys(keys.WHOLE_CARDS, containers.LARGEST_QUANTITY),
    keys.GPU: MAX_CARDS * FULL,
    keys.CORE: MAX_CARDS * FULL,
    keys.MEMORY: containers.LARGEST_QUANTITY,
    keys.RATIO: MAX_CARDS * FULL,
    keys.SHARED: MAX_CARDS,
}


@dataclass(frozen=True, slots=True)
class _ContainerAmount:
    place: str
    number: int

    def reject(self, problem: str) -> NoReturn:
        raise DialectError(self.place, self.number, problem)


_Amounts = Mapping[str, _ContainerAmount]


@dataclass(frozen=True, slots=True)
class _ContainerRead:
    """What one container requests.

    Attributes:
        vendor: the only vendor whose cards the container can use; None for any.
    """

    request: ContainerRequest
    vendor: str | None = None


def _read_container(member: containers.PodContainer) -> _ContainerRead | None:
    """Read what a container requests; None where it names no resource of this dialect.

    An amount of 0 counts as none, as for Koordinator. ``gpu`` abbreviates two resources.

    Raises:
        DialectError: an invalid combination or amount, or a device that is not a GPU.
    """
    for name in keys.OUT_OF_SCOPE:
        amount = _amount(member, name, containers.LARGEST_QUANTITY)
        if amount is not None and amount.number:
            amount.reject("is not a GPU; Dragoman allocates GPUs only, remove it from this pod")
    found = {name: _amount(member, name, high) for name, high in _MAX_AMOUNTS.items()}
    named = {name: amount for name, amount in found.items() if amount is not None}
    amounts = {name: amount for name, amount in named.items() if amount.number}
    for name, amount in named.items():
        if not amounts and name not in keys.WHOLE_CARDS:
            amount.reject("requests nothing; must be 1 or more, or be omitted")
    cards = [name for name in keys.WHOLE_CARDS if name in amounts]
    shares = [name for name in amounts if name not in keys.WHOLE_CARDS]
    if cards and (shares or len(cards) > 1):
        other = (shares or cards[1:])[0]
        amounts[other].reject(f"cannot be combined with {cards[0]}, which requests whole cards")
    if cards:
        request = containers.whole_cards(member, amounts[cards[0]].number)
        return _ContainerRead(request, keys.WHOLE_CARDS[cards[0]])
    if keys.GPU in amounts:
        for name in (keys.CORE, keys.MEMORY, keys.RATIO):
            if name in amounts:
                amounts[name].reject(f"cannot be combined with {keys.GPU}, which includes it")
        amounts |= {keys.CORE: amounts[keys.GPU], keys.RATIO: amounts[keys.GPU]}
    return _ContainerRead(_share(member, amounts)) if shares else None


def _amount(member: containers.PodContainer, name: str, high: int) -> _ContainerAmount | None:
    for spelling in (name, keys.DEPRECATED.get(name, name)):
        found = containers.stated_amount(member, spelling)
        if found is not None:
            return _ContainerAmount(
                found[0], containers.whole_amount(member, spelling, 0, high) or 0
            )
    return None


def _share(member: containers.PodContainer, amounts: _Amounts) -> ContainerRequest:
    """Return what a container requests of each card.

    The number of cards is ``gpu.shared``; else a percentage that is a multiple of 100 and above
    100, divided by 100; else one. Each card gets an equal part of compute and memory, memory
    rounded down to the byte. A card is exclusive if the container requests 100 percent of its
    memory, or of its compute.
    """
    shared, memory = amounts.get(keys.SHARED), amounts.get(keys.MEMORY)
    core, ratio = amounts.get(keys.CORE), amounts.get(keys.RATIO)
    if memory and ratio:
        memory.reject(f"cannot be combined with {keys.RATIO}; remove one of them")
    if not memory and not ratio:
        (core or amounts[keys.SHARED]).reject(f"needs {keys.MEMORY} or {keys.RATIO} beside it")
    cards, counting = 1, ratio or core
    if shared:
        cards = shared.number
    elif counting and counting.number > FULL and not counting.number % FULL:
        cards = counting.number // FULL
    compute = _per_card(amounts, keys.CORE, cards) or 0
    percent = _per_card(amounts, keys.RATIO, cards)
    if memory and memory.number < cards:
        memory.reject(f"must be at least {cards}, one byte for each card")
    return ContainerRequest(
        member.container.name,
        cards,
        memory=memory.number // cards if memory else None,
        memory_percent=percent,
        compute=compute,
        exclusive=FULL in (percent, compute),
        exclusive_by_amount=FULL in (percent, compute),
        linked=True,
        phase=member.phase,
    )


def _per_card(amounts: _Amounts, name: str, cards: int) -> int | None:
    if name not in amounts:
        return None
    amount = amounts[name]
    for_cards = "for 1 card" if cards == 1 else f"for {cards} cards"
    if amount.number % cards:
        amount.reject(f"must be a multiple of {cards} {for_cards}")
    if amount.number > cards * FULL:
        instead = "" if keys.SHARED in amounts else "; whole cards are a multiple of 100"
        amount.reject(f"must be at most {cards * FULL} {for_cards}{instead}")
    return amount.number // cards


def read_pod_request(pod: Pod, ranking: Ranking) -> Request:
    """Read what a pod requests.

    Raises:
        DialectError: the request is invalid, or out of scope.
    """
    found = [(member, _read_container(member)) for member in containers.pod_containers(pod)]
    requests = tuple(each.request for _, each in found if each is not None)
    if not requests:
        raise DialectError("spec.containers[*].resources", "", "requests no GPU")
    needed = [(member.path, _vendor(member, each)) for member, each in found]
    vendors = {path: vendor for path, vendor in needed if vendor is not None}
    if len(set(vendors.values())) > 1:
        named = ", ".join(f"{path}: {vendor}" for path, vendor in vendors.items())
        problem = "a pod's cards must be of one vendor"
        raise DialectError("spec.containers[*].resources", named, problem)
    vendor = next(iter(vendors.values()), None)
    topology, exclusive, notes = _read_hints(pod, requests)
    by_vendor = {each.vendor for _, each in found if each is not None}
    # Whole NVIDIA cards alone: by the name that HAMi has too.
    by_hamis_name = by_vendor == {keys.NVIDIA}
    divided = any(request.memory_percent != FULL for request in requests)
    qos = None
    if vendor == keys.METAX:
        # As in HAMi: v2.10.0 pkg/device/metax/sdevice.go:107-126,529-555.
        qos = annotations(pod).get(METAX_QOS, BEST_EFFORT)
        if qos not in QOS_POLICIES:
            problem = f"must be one of {', '.join(QOS_POLICIES)}"
            raise DialectError(f"metadata.annotations[{METAX_QOS}]", qos, problem)
        qos = qos if any(request.compute < FULL for request in requests) else None
    for member, _ in found:
        for name in sorted(keys.BESIDE):
            if containers.requests_any(member, (name,)):
                notes.append(
                    f"{member.path}.resources[{name}]: only koord-scheduler with its plugin"
                    " DeviceShare allocates it; Dragoman allocates the cards"
                )
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        alternatives=frozenset({HAMI}) if by_hamis_name else frozenset(),
        containers=tuple(
            replace(request, exclusive=True, exclusive_by_amount=False) if exclusive else request
            for request in requests
        ),
        modes=frozenset({Mode.SHARED}) if divided else frozenset({Mode.SHARED, Mode.WHOLE}),
        vendor=vendor,
        terms=SharingTerms(qos=qos),
        isolation=labels(pod).get(keys.ISOLATION) or None if divided else None,
        ranking=ranking,
        topology=topology,
        priority=pod.spec.priority or 0,
        notes=tuple(notes),
        plugin=PluginShare.CARD if None not in by_vendor else None,
    )


def _vendor(member: containers.PodContainer, amounts: _ContainerRead | None) -> str | None:
    """Return the only vendor whose cards a container can use; checks a MetaX trigger too."""
    cards = containers.whole_amount(member, keys.METAX_TRIGGER, 1, MAX_CARDS)
    if cards is None:
        return None if amounts is None else amounts.vendor
    place = f"{member.path}.resources[{keys.METAX_TRIGGER}]"
    if amounts is None or amounts.vendor is not None:
        raise DialectError(place, cards, f"needs {keys.RATIO} or {keys.MEMORY} in its container")
    request = amounts.request
    if cards != request.count:
        raise DialectError(place, cards, f"must be {request.count}, the number of requested cards")
    if request.memory is not None and request.memory < MIB:
        raise DialectError(
            f"{member.path}.resources[{keys.MEMORY}]",
            request.memory,
            f"must be at least {format_bytes(MIB)} of each card: MetaX counts in MiB",
        )
    return keys.METAX


_SCOPES = {
    "": Level.NODE,
    "Node": Level.NODE,
    "Device": Level.NODE,
    "NUMANode": Level.NUMA,
    "PCIe": Level.PCIE,
}


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


def _read_hints(
    pod: Pod, requests: Sequence[ContainerRequest]
) -> tuple[TopologyConstraint, bool, list[str]]:
    """Read the annotations and labels by which a pod influences the choice of its cards.

    Source: koordinator-sh/koordinator apis/extension/{device_share.go:119-248,
    numa_aware.go:73-172,multi_scheduler.go:41-60}. A value that would change the choice and is not
    supported is an error.

    Returns:
        how the cards of one container must be connected; whether no other pod may have a share of
        the pod's cards; which annotations have no effect here, as sentences.

    Raises:
        DialectError: a hint cannot be parsed, cannot be satisfied, or is not supported.
    """
    texts = annotations(pod)
    for key in keys.RESERVATIONS:
        if key in texts:
            problem = "is not supported; Dragoman has neither joint allocation nor reservations"
            raise DialectError(annotation_path(key), texts[key], problem)
    if labels(pod).get(keys.PRE_ALLOCATION_REQUIRED) == "true":
        place = f"metadata.labels[{keys.PRE_ALLOCATION_REQUIRED}]"
        raise DialectError(place, "true", "is not supported; Dragoman has no reservations")
    closest, exclusive, notes = _device_hint(texts, requests)
    place = annotation_path(keys.PARTITION_SPEC)
    partition = decode(texts, keys.PARTITION_SPEC, _PartitionSpec) or _PartitionSpec()
    policy, stated = partition.allocate_policy, partition.ring_bus_bandwidth or 0
    _check_choice(f"{place}.allocatePolicy", policy, "", "BestEffort", "Restricted")
    try:
        bandwidth = parse_int(str(stated))
    except QuantityError:
        problem = "must be a quantity such as 200Gi"
        raise DialectError(f"{place}.ringBusBandwidth", stated, problem) from None
    if bandwidth < 0:
        raise DialectError(f"{place}.ringBusBandwidth", stated, "must be 0 or more")
    if keys.PARTITION_SPEC in texts:
        notes += [
            f"{place} applies to whole cards only, not to container {request.name}"
            for request in requests
            if not request.exclusive
        ]
    numa = decode(texts, keys.NUMA_SPEC, _NumaSpec) or _NumaSpec()
    place = annotation_path(keys.NUMA_SPEC)
    policies = ("", "BestEffort", "Restricted", "SingleNUMANode")
    alone = numa.single_numa_node_exclusive
    _check_choice(f"{place}.numaTopologyPolicy", numa.numa_topology_policy, *policies)
    _check_choice(f"{place}.singleNUMANodeExclusive", alone, "", "Preferred", "Required")
    if numa.numa_topology_policy == "SingleNUMANode":
        closest = max(closest, Level.NUMA)
    if numa.numa_topology_policy:
        notes.append(f"{place}: the cards of each container are chosen, not its CPUs")
    if alone:
        notes.append(f"{place}.singleNUMANodeExclusive has no effect on GPUs")
    for key in keys.SCHEDULING_HINTS:
        hint = decode(texts, key, _SchedulingHint) or _SchedulingHint()
        if keys.DEVICE_SHARE in (hint.extensions or {}):
            notes.append(f"{annotation_path(key)} has no effect: Dragoman chooses the cards itself")
    is_bound = closest > Level.NODE and any(request.count > 1 for request in requests)
    topology = TopologyConstraint(
        levels=(Level.NUMA, Level.PCIE),
        required=closest if is_bound else None,
        by_partition=True,
        must_partition=keys.PARTITION_SPEC in texts,
        best_partitions_only=policy == "Restricted",
        bandwidth=bandwidth,
    )
    return topology, exclusive, notes


def _device_hint(
    texts: Text, requests: Sequence[ContainerRequest]
) -> tuple[Level, bool, list[str]]:
    """Return how close the cards must be, whether they are exclusive, and what has no effect."""
    found = decode(texts, keys.ALLOCATE_HINT, _DeviceHints) or {}
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
    scope = hint.required_topology_scope
    _check_choice(f"{place}.gpu.requiredTopologyScope", scope, *_SCOPES)
    if scope == "Device" and any(request.count > 1 for request in requests):
        problem = "several cards cannot be one device; must be PCIe, NUMANode or Node"
        raise DialectError(f"{place}.gpu.requiredTopologyScope", scope, problem)
    _check_choice(f"{place}.gpu.exclusivePolicy", hint.exclusive_policy, "", "DeviceLevel")
    ineffective = f"{place}.gpu.allocateStrategy has no effect on GPUs"
    notes = [ineffective] if hint.allocate_strategy else []
    return _SCOPES[scope], hint.exclusive_policy == "DeviceLevel", notes


def _check_choice(place: str, value: str, *choices: str) -> None:
    if value not in choices:
        raise DialectError(place, value, f"must be one of {', '.join(filter(None, choices))}")


_WHOLE = {
    vendor: resource
    for resource, vendor in keys.WHOLE_CARDS.items()
    if resource != GPU  # without another, it does not mean Koordinator
}
_EXCLUSIVE = msgspec.json.encode({"gpu": {"exclusivePolicy": "DeviceLevel"}}).decode()


def write(request: Request, card_memory: int | None) -> request_writer.WrittenRequest:
    """Write a request.

    All of a card's memory in percent makes the card exclusive here. Where the request differs, it
    is written in bytes, if the bytes of a card are known.
    """
    by_policy = request_writer.needs_exclusive_policy(request, _is_exclusive)
    written: list[dict[str, int | str]] = []
    for container in request.containers:
        count, percent = container.count, container.memory_percent
        whole = container.exclusive and percent == FULL == container.compute
        if whole and request.vendor in _WHOLE:
            written.append({_WHOLE[request.vendor]: count})
            continue
        resources: dict[str, int | str] = {keys.SHARED: count} if count > 1 else {}
        compute = request_writer.stated_compute(
            container, by_policy=by_policy or _is_exclusive(container)
        )
        if compute:
            resources[keys.CORE] = compute * count
        if percent is not None and card_memory is not None:
            same = max(card_memory * percent // FULL, 1) == container.memory_on(card_memory)
            percent = percent if same and (percent < FULL or container.exclusive) else None
        if percent is None:
            resources[keys.MEMORY] = format_binary(container.memory_on(card_memory or 0) * count)
        else:
            resources[keys.RATIO] = percent * count
        if request.vendor == keys.METAX:
            resources[keys.METAX_TRIGGER] = count
        written.append(resources)
    return request_writer.WrittenRequest(
        tuple(written),
        request_writer.words(
            {
                keys.ALLOCATE_HINT: _EXCLUSIVE if by_policy else "",
                METAX_QOS: (request.terms.qos or "") if request.vendor == keys.METAX else "",
            }
        ),
    )


def _is_exclusive(container: ContainerRequest) -> bool:
    return FULL in (container.memory_percent, container.compute)


WRITER = request_writer.RequestWriter(
    resources=keys.OWN | keys.WHOLE_CARDS.keys() | {keys.METAX_TRIGGER},
    annotations=frozenset(
        {
            *(keys.ALLOCATE_HINT, keys.JOINT_ALLOCATE, keys.PARTITION_SPEC, keys.NUMA_SPEC),
            *(*keys.SCHEDULING_HINTS, METAX_QOS),
        }
    ),
    labels=frozenset({keys.ISOLATION}),
    unread=frozenset(),
    write=write,
)

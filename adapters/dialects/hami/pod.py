"""Reads and writes what a pod requests of HAMi, and the defaults that its admission adds.

Source: nvidia/device.go, GenerateResourceRequests, and the defaults of the webhook in
MutateAdmission, mutateContainerResource and defaultExclusiveCoreIfNeeded. Without a number of cards
the kubelet does not ask HAMi's device plugin for the container at all. That webhook also writes 100
into ``gpucores`` of a container of whole cards; here the request has them without it.
"""

from adapters.dialects import containers
from adapters.dialects.dialect import AdmissionDefaults, Defaults, DialectError
from adapters.dialects.formats.annotation_values import boolean, names, several_words
from adapters.dialects.formats.hami_policies import CARD_POLICY, MUTEX, NUMA_BIND, read_policies
from adapters.dialects.formats.hami_record import MAX_MIB
from adapters.dialects.hami import keys
from adapters.dialects.hami.keys import HamiConfig
from adapters.dialects.request_writer import (
    AmountKeys,
    RequestWriter,
    WrittenRequest,
    amounts,
    mode_word,
    needs_exclusive_policy,
    words,
)
from adapters.wire.kube import Pod, annotations, full_name
from core.hardware.card import Level, Mode
from core.hardware.quantity import FULL, MIB
from core.requests.request import ContainerRequest, Request, TopologyConstraint

_MODES = {keys.HAMI_CORE: Mode.SHARED, keys.MIG: Mode.MIG, keys.MPS: Mode.MPS}

_NO_DAEMON = (
    f"metadata.annotations[{keys.MODE}]: {keys.MPS}: the container gets HAMi-core's limits, as from"
    " HAMi's device plugin, and no MPS daemon"
)
"""Source: HAMi v2.10 pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go:832, where each
mode but MIG has the same environment, and mps.go:59-67, which adds nothing to it."""


MAX_CARDS = 1024
LOWEST_PRIORITY = 1


def _read_container(
    member: containers.PodContainer, config: HamiConfig, *, alone: bool, linked: bool
) -> tuple[ContainerRequest, list[str]] | None:
    """Read what a container requests, and what was assumed; None where it requests no card.

    As for HAMi, a stated 0 is not all memory here, but the default of the settings there. Where
    neither compute nor a part of memory is named, it is all of a card's compute.

    Args:
        member: the container.
        config: the settings.
        alone: it must have its cards for itself.
        linked: the pod's topology decides which cards it gets together.

    Raises:
        DialectError: an amount is invalid, or contradicts another.
    """
    count = _amount(member, config.count, MAX_CARDS, "it counts cards")
    units = "MiB" if config.unit == 1 else f"units of {config.unit} MiB"
    most = MAX_MIB // config.unit
    memory = _amount(member, config.memory, most, f"it counts {units} of each card")
    percent = _amount(member, config.percent, FULL, "it is percent of each card's memory")
    cores = _amount(member, config.cores, FULL, "it is percent of each card's compute")
    priority = _amount(member, config.priority, LOWEST_PRIORITY, "0 is high, 1 is low")
    found = zip(config.amounts, (memory, percent, cores, priority), strict=True)
    stated = [name for name, amount in found if amount is not None]
    if not stated and not count:
        return None
    if stated and count == 0:
        problem = f"must be 1 or more beside {stated[0]}; or remove both for no card"
        raise DialectError(f"{member.path}.resources[{config.count}]", count, problem)
    if memory and percent:
        value = f"{config.memory}: {memory}, {config.percent}: {percent}"
        problem = "must name one of the two, not both"
        raise DialectError(f"{member.path}.resources", value, problem)
    if count is None and (stated == [config.priority] or not config.default_count):
        problem = f"needs {config.count} too, the number of cards"
        raise DialectError(f"{member.path}.resources", stated[0], problem)
    default = config.default_memory
    instead = f"{default} MiB" if default else "all memory of the card"
    notes = [
        f"{member.path}: {name}: 0 is as if it were omitted: {instead}"
        for name, amount in ((config.memory, memory), (config.percent, percent))
        if amount == 0 and not memory and not percent
    ]
    if count is None:
        count = config.default_count
        notes.append(f"{member.path}: names {stated[0]} without {config.count}: it gets {count}")
    if cores is None:
        by_default = memory is not None if percent is None else percent != FULL
        cores = config.default_cores if by_default else FULL
    mebibytes = (memory or 0) * config.unit if memory or percent else default
    request = ContainerRequest(
        member.container.name,
        count,
        memory=mebibytes * MIB if mebibytes else None,
        memory_percent=None if mebibytes else percent or FULL,
        compute=cores,
        exclusive=alone or cores == FULL,
        exclusive_by_compute=not alone and cores == FULL,
        exclusive_by_amount=not alone and cores == FULL,
        linked=linked,
        step=MIB,
        phase=member.phase,
    )
    return request, notes


def _amount(member: containers.PodContainer, resource: str, high: int, meaning: str) -> int | None:
    found = containers.stated_amount(member, resource)
    if found is None:
        return None
    if str(found[1]).strip().endswith("i"):
        raise DialectError(*found, f"must be a plain number, 0 to {high}; {meaning}")
    try:
        return containers.whole_amount(member, resource, 0, high)
    except DialectError as error:
        raise DialectError(error.field, error.value, f"{error.problem}; {meaning}") from None


def read_request(pod: Pod, config: HamiConfig, defaults: Defaults) -> Request:
    """Read what a pod that ``matches`` requests.

    Raises:
        DialectError: the request is invalid.
    """
    texts = annotations(pod)
    policies = read_policies(texts, defaults)
    bound = boolean(texts, NUMA_BIND) or False
    linked = policies.linked or defaults.topology_aware or False
    members = containers.pod_containers(pod)
    read = [
        found
        for member in members
        if (found := _read_container(member, config, alone=policies.mutex, linked=linked or bound))
    ]
    if not read:
        raise DialectError("spec.containers[*].resources", "", f"requests no {config.count}")
    # All modes where the pod names none: nvidia/device.go:486-497, checkType.
    stated_modes = several_words(texts, keys.MODE, *_MODES)
    notes = (_NO_DAEMON,) if keys.MPS in stated_modes else ()
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=keys.NAME,
        containers=tuple(request for request, _ in read),
        modes=frozenset(_MODES[mode] for mode in stated_modes) or frozenset(_MODES.values()),
        vendor=keys.VENDOR,
        allow_uuids=names(texts, keys.USE_UUID) or None,
        deny_uuids=names(texts, keys.AVOID_UUID),
        allow_types=tuple(sorted(names(texts, keys.USE_TYPE))) or None,
        deny_types=tuple(sorted(names(texts, keys.AVOID_TYPE))),
        ranking=policies.ranking(),
        topology=TopologyConstraint(
            levels=(Level.NUMA, Level.PCIE, Level.LINK) if linked else (),
            required=Level.NUMA if bound else None,
            by_score=linked,
        ),
        priority=pod.spec.priority or 0,
        several_slices=True,
        notes=(*(note for _, assumed in read for note in assumed), *notes),
    )


def admission_defaults(pod: Pod, config: HamiConfig) -> AdmissionDefaults:
    """Return the number of cards where amounts lack it, and the priority that HAMi-core reads.

    A number of cards without an amount is no share, also where an annotation makes it HAMi's.

    Raises:
        DialectError: the pod requests a share and has a privileged container.
    """
    if not containers.resource_names(pod).isdisjoint(config.amounts):
        containers.reject_privileged(pod)
    members = [*containers.pod_containers(pod)]
    amounts = {config.memory, config.percent, config.cores}
    numbers: dict[str, dict[str, str]] = {}
    for member in members:
        resources = member.container.resources
        limits, requests = resources.limits or {}, resources.requests or {}
        if config.count not in {*limits, *requests} and not amounts.isdisjoint(limits):
            numbers[member.container.name] = {config.count: str(config.default_count)}
    priorities = (
        (
            member.container.name,
            containers.whole_amount(member, config.priority, 0, LOWEST_PRIORITY),
        )
        for member in members
    )
    return AdmissionDefaults(
        limits=numbers,
        variables={
            name: {keys.PRIORITY_VARIABLE: str(priority)}
            for name, priority in priorities
            if priority is not None
        },
    )


_AMOUNTS = AmountKeys(keys.COUNT, keys.MEMORY, keys.PERCENT, keys.CORES)


def write(request: Request, card_memory: int | None) -> WrittenRequest:  # noqa: ARG001
    """Write a request.

    The amounts of memory and compute are always written: without them HAMi's defaults decide, and
    whole cards by ``nvidia.com/gpu`` alone mean other dialects too.
    """
    mutex = needs_exclusive_policy(request, lambda container: container.compute == FULL)
    # The modes, as far as one or two words say them; none for all.
    modes = mode_word(request.modes, keys.HAMI_CORE, keys.MIG)
    if Mode.MPS in request.modes and Mode.SHARED not in request.modes:
        modes = f"{keys.MIG},{keys.MPS}" if Mode.MIG in request.modes else keys.MPS
    return WrittenRequest(
        tuple(amounts(container, _AMOUNTS, by_policy=mutex) for container in request.containers),
        words(
            {
                keys.MODE: modes,
                keys.USE_UUID: sorted(request.allow_uuids or ()),
                keys.AVOID_UUID: sorted(request.deny_uuids),
                keys.USE_TYPE: request.allow_types,
                keys.AVOID_TYPE: request.deny_types,
                CARD_POLICY: MUTEX if mutex else "",
            }
        ),
    )


WRITER = RequestWriter(
    resources=keys.POD_RESOURCES,
    annotations=keys.POD_ANNOTATIONS,
    labels=frozenset(),
    unread=frozenset({keys.PRIORITY}),
    write=write,
)

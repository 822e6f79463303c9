"""Reads and writes what a pod requests: amounts in resources, constraints in annotations."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from adapters.dialects import request_writer
from adapters.dialects.containers import PodContainer, pod_containers, resource_names, stated_amount
from adapters.dialects.dialect import DialectError
from adapters.dialects.volcano import keys
from adapters.dialects.volcano.keys import DeviceConfig, VolcanoScheduling
from adapters.dialects.volcano.node import smaller_slices
from adapters.wire.kube import Pod, annotations, full_name, labels
from adapters.wire.quantity import QuantityError, parse_int
from core.hardware.card import Mode
from core.hardware.quantity import FULL, format_bytes
from core.requests.request import ContainerRequest, Ranking, Request, SharingTerms

_MAX = (1 << 31) - 1
"""The largest amount that Volcano can store: int32."""

_NEVER_STARTED = (
    "several containers have cards: Volcano's device plugin never starts such a pod, and meanwhile"
    " refuses later ones of its node with as many cards; Dragoman's node agent starts it"
)
"""Source: volcano-vgpu-device-plugin 4fb76ba, GetPendingPod, which compares the devices of the pod
with those of one container (run on 28 November 2026: ``cannot get valid pod``)."""

_MIG = frozenset({Mode.MIG})

_MODES = {
    None: frozenset({Mode.SHARED, Mode.MPS, Mode.MIG}),
    keys.HAMI_CORE: frozenset({Mode.SHARED}),
    keys.MIG: _MIG,
}


@dataclass(frozen=True, slots=True)
class VolcanoPodReader:
    """Reads pods under one cluster's settings."""

    config: DeviceConfig
    scheduling: VolcanoScheduling
    ranking: Ranking

    def matches(self, pod: Pod) -> bool:
        """Return whether any container names a resource of this dialect."""
        return any(map(self._ours, resource_names(pod)))

    def read(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests.

        Raises:
            DialectError: the request is invalid, or out of scope.
        """
        requests = [(member, self._request(member)) for member in pod_containers(pod)]
        texts = annotations(pod)
        modes = _MODES.get(texts.get(keys.MODE))
        if modes is None:
            raise DialectError(
                f"metadata.annotations[{keys.MODE}]",
                texts[keys.MODE],
                f"must be {keys.HAMI_CORE} or {keys.MIG}, or be omitted to allow both",
            )
        use_types = _entries(texts, keys.USE_TYPE)
        avoid_types = _entries(texts, keys.AVOID_TYPE)
        apart = group(pod)
        notes = [
            f"container {member.container.name} names {self.config.memory} without "
            f"{self.config.count}: it gets one card"
            for member, request in requests
            if request and stated_amount(member, self.config.count) is None
        ]
        if keys.GROUP_POLICY in texts and apart is None:
            notes.append(f"{keys.GROUP_POLICY} has no effect: the pod is in no PodGroup")
        if use_types and avoid_types:
            notes.append(f"{keys.AVOID_TYPE} has no effect beside {keys.USE_TYPE}")
        if modes == _MIG:
            notes += self._smaller(request for _, request in requests)
        containers = tuple(request for _, request in requests if request is not None)
        if len(containers) > 1:
            notes.append(_NEVER_STARTED)
        return Request(
            uid=pod.metadata.uid,
            pod=full_name(pod),
            dialect=keys.NAME,
            containers=containers,
            modes=modes,
            allow_uuids=frozenset(_entries(texts, keys.USE_UUID)) or None,
            deny_uuids=frozenset(_entries(texts, keys.AVOID_UUID)),
            allow_types=use_types or None,
            deny_types=() if use_types else avoid_types,
            terms=self.terms(pod, apart),
            ranking=self.ranking,
            priority=pod.spec.priority or 0,
            # pkg/scheduler/api/devices/nvidia/vgpu/mig.go:189 compares with the configured table.
            by_configured_size=True,
            notes=tuple(notes),
        )

    def terms(self, pod: Pod, apart: str | None) -> SharingTerms:
        """Return on which terms a pod shares its cards.

        The scheduler's rules that match its labels exclude each other's pods from a card.

        Args:
            pod: the pod.
            apart: the group whose other pods must share no card with it; None for none.
        """
        own = labels(pod).items()
        exclusions = frozenset(
            ",".join(f"{label}={value}" for label, value in rule)
            for rule in self.scheduling.rules
            if all(pair in own for pair in rule)
        )
        return SharingTerms(group=apart, member_of=pod_group(pod), exclusions=exclusions)

    def _ours(self, resource: str) -> bool:
        known = resource in self.config.resources or resource == self.config.priority
        return known or resource.startswith(keys.FAMILY) or resource in keys.LEGACY

    def _request(self, member: PodContainer) -> ContainerRequest | None:
        config = self.config
        self._reject_unknown(member)
        count = _amount(
            member, config.count, (1, _MAX), "must be a number of cards, 1 or more, or be omitted"
        )
        memory = _amount(
            member,
            config.memory,
            (1, _MAX),
            f"must be a plain number of units of {format_bytes(config.unit)}, 1 or more; "
            "omitted, it means all memory of the card",
        )
        percent = _amount(
            member, config.percent, (1, FULL), "must be percent of each card's memory, 1 to 100"
        )
        cores = _amount(
            member, config.cores, (0, FULL), "must be percent of each card's compute, 0 to 100"
        )
        if memory is not None and percent is not None:
            raise DialectError(
                f"{member.path}.resources",
                f"{config.memory}: {memory}, {config.percent}: {percent}",
                "must name one of the two, not both",
            )
        if count is None and memory is None:
            if percent is None and cores is None:
                return None
            raise DialectError(
                f"{member.path}.resources",
                config.cores if percent is None else config.percent,
                f"needs {config.count} too, the number of cards",
            )
        return ContainerRequest(
            name=member.container.name,
            count=count or 1,
            memory=None if memory is None else memory * config.unit,
            memory_percent=(percent or FULL) if memory is None else None,
            compute=cores or 0,
            exclusive=cores == FULL,
            exclusive_by_amount=cores == FULL,
            step=config.unit,
            phase=member.phase,
        )

    def _reject_unknown(self, member: PodContainer) -> None:
        resources = member.container.resources
        named = {**(resources.requests or {}), **(resources.limits or {})}
        for resource in filter(self._ours, sorted(named)):
            if resource in self.config.resources:
                continue
            if resource in keys.LEGACY:
                problem = (
                    "is of Volcano's older GPU sharing, which is out of scope; "
                    f"use {self.config.count} and {self.config.memory}"
                )
            elif resource == self.config.priority:
                problem = "has no effect; give the pod a priority class instead"
            else:
                problem = f"must be one of {', '.join(sorted(self.config.resources))}"
            raise DialectError(f"{member.path}.resources[{resource}]", named[resource], problem)

    def _smaller(self, requests: Iterable[ContainerRequest | None]) -> Iterator[str]:
        """Yield notes where a slice has less memory than a container requests.

        Only pods that name the mode ``mig`` get the notes: most others share a card.
        """
        for request in requests:
            if request is None or request.memory is None:
                continue
            for model, slot in smaller_slices(self.config.tables, request.memory):
                yield (
                    f"container {request.name}: slice {slot.profile} of {model} fits by its"
                    f" configured size and has {format_bytes(slot.memory)} of the"
                    f" {format_bytes(request.memory)} requested"
                )


def _amount(member: PodContainer, resource: str, bounds: tuple[int, int], right: str) -> int | None:
    found = stated_amount(member, resource)
    if found is None:
        return None
    place, amount = found
    low, high = bounds
    text = str(amount).strip()
    try:
        number = parse_int(text)
    except QuantityError:
        number = low - 1
    # Kubernetes itself prints 3000 as 3k; these other suffixes mean another unit.
    if text.endswith(("i", "m", "u", "n")) or not low <= number <= high:
        raise DialectError(place, amount, right)
    return number


def _entries(texts: Mapping[str, str], key: str) -> tuple[str, ...]:
    entries = (entry.strip() for entry in texts.get(key, "").split(","))
    return tuple(entry for entry in entries if entry)


def group(pod: Pod) -> str | None:
    """Return the PodGroup whose other pods must share no card with a pod.

    None for no such constraint.

    These are all its other pods, whether they have the policy or not.
    Source: volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/utils.go:174-204,405-407.

    Raises:
        DialectError: the policy is unknown.
    """
    texts = annotations(pod)
    if keys.GROUP_POLICY not in texts:
        return None
    if texts[keys.GROUP_POLICY] != keys.SPREAD:
        raise DialectError(
            f"metadata.annotations[{keys.GROUP_POLICY}]",
            texts[keys.GROUP_POLICY],
            f"must be {keys.SPREAD}, or be omitted",
        )
    return pod_group(pod)


def pod_group(pod: Pod) -> str | None:
    """Return the PodGroup of a pod, with its namespace; None where it is in none."""
    texts = annotations(pod)
    name = next((texts[key] for key in keys.GROUP_NAMES if texts.get(key)), None)
    return None if name is None else f"{pod.metadata.namespace or 'default'}/{name}"


_AMOUNTS = request_writer.AmountKeys(keys.COUNT, keys.MEMORY, keys.MEMORY_PERCENT, keys.CORES)


def write(request: Request, card_memory: int | None) -> request_writer.WrittenRequest:  # noqa: ARG001
    """Write a request; only all of a card's compute makes the card exclusive here."""
    return request_writer.WrittenRequest(
        tuple(
            request_writer.amounts(container, _AMOUNTS, by_policy=False)
            for container in request.containers
        ),
        request_writer.words(
            {
                keys.MODE: request_writer.mode_word(request.modes, keys.HAMI_CORE, keys.MIG),
                keys.USE_UUID: sorted(request.allow_uuids or ()),
                keys.AVOID_UUID: sorted(request.deny_uuids),
                keys.USE_TYPE: request.allow_types,
                keys.AVOID_TYPE: request.deny_types,
            }
        ),
    )


WRITER = request_writer.RequestWriter(
    resources=keys.POD_RESOURCES,
    annotations=keys.POD_ANNOTATIONS - frozenset(keys.GROUP_NAMES),
    labels=frozenset(),
    unread=frozenset(),
    write=write,
)

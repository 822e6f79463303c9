"""Reads what a pod requests by claims of our driver; the reverse of ``claim_specs``."""

from collections.abc import Mapping
from dataclasses import dataclass

from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRA, DRIVER
from adapters.dialects.dra.card_selectors import CardConstraints, constraints
from adapters.dialects.dra.claim_specs import UUID
from adapters.dialects.dra.device_classes import ALL, MIG, WHOLE
from adapters.dialects.dra.devices import own_name
from adapters.wire.dra import ClaimSpec, ExactRequest
from adapters.wire.kube import Pod, full_name
from adapters.wire.quantity import QuantityError, parse_int
from core.hardware.card import Mode
from core.hardware.quantity import FULL, MIB
from core.requests.request import ContainerRequest, Phase, Request


@dataclass(frozen=True, slots=True)
class _Claimed:
    """What one claim requests."""

    exactly: ExactRequest
    amounts: Mapping[str, int]
    cards: CardConstraints


def is_own(spec: ClaimSpec) -> bool:
    """Whether a claim names a class of our driver."""
    return any(
        each.device_class_name in ALL
        for request in spec.devices.requests or ()
        for each in (request.exactly, *(request.first_available or ()))
        if each is not None
    )


def read_request(pod: Pod, claims: Mapping[str, ClaimSpec]) -> Request:
    """Read what a pod requests.

    Args:
        pod: with at least one container that has a claim.
        claims: the claim of our driver of each container that has one, by the container's name.

    Raises:
        DialectError: a claim requests what no dialect of pods has a word for.
    """
    found: list[tuple[ContainerRequest, _Claimed]] = []
    for member in pod_containers(pod):
        name = member.container.name
        if name in claims:
            claimed = _claimed(claims[name], f"the claim of container {name}")
            found.append((_container(name, claimed, member.phase), claimed))
    cards = found[0][1].cards
    for container, claimed in found:
        if claimed.cards != cards:
            problem = "all containers of a pod must have the same"
            raise DialectError(f"container {container.name}: selectors", "", problem)
    return Request(
        uid=pod.metadata.uid,
        pod=full_name(pod),
        dialect=DRA,
        containers=tuple(container for container, _ in found),
        modes=frozenset[Mode]().union(*(_modes(claimed.exactly) for _, claimed in found)),
        vendor=cards.vendor,
        allow_uuids=cards.allow_uuids,
        deny_uuids=cards.deny_uuids,
        allow_types=cards.allow_types,
        deny_types=cards.deny_types,
    )


def _claimed(spec: ClaimSpec, place: str) -> _Claimed:
    devices = spec.devices
    requests = devices.requests or ()
    if len(requests) != 1 or requests[0].exactly is None:
        raise DialectError(place, len(requests), "must have one request, with `exactly`")
    exactly = requests[0].exactly
    refused = {
        "adminAccess": exactly.admin_access,
        "tolerations": exactly.tolerations,
        "config": devices.config,
        "allocationMode": exactly.allocation_mode not in (None, "ExactCount"),
    }
    for field in (field for field, value in refused.items() if value):
        problem = "cannot be translated: no other dialect states it; leave it out"
        raise DialectError(f"{place}: {field}", "", problem)
    for constraint in devices.constraints or ():
        if constraint.get("distinctAttribute") != UUID:
            problem = f"cannot be translated: only distinctAttribute {UUID} can"
            raise DialectError(f"{place}: constraints", constraint, problem)
    selectors = (each.cel.expression if each.cel else "" for each in exactly.selectors or ())
    return _Claimed(exactly, _amounts(exactly, place), constraints(selectors, place))


def _amounts(exactly: ExactRequest, place: str) -> dict[str, int]:
    found: dict[str, int] = {}
    stated = (exactly.capacity and exactly.capacity.requests) or {}
    highest = {"memory": None, "compute": FULL}
    for written, amount in stated.items():
        name, field = own_name(written, DRIVER), f"{place}: capacity {written}"
        if name in found:
            raise DialectError(
                field, amount, "is stated twice, with the driver's domain and without"
            )
        if name not in highest or exactly.device_class_name == WHOLE:
            raise DialectError(field, amount, "no other dialect has it for this class")
        try:
            number = parse_int(str(amount))
        except QuantityError as error:
            raise DialectError(field, amount, str(error)) from None
        if number < 0 or number > (highest[name] or number):
            limits = "0 or more" if highest[name] is None else f"0 to {highest[name]}"
            raise DialectError(field, amount, f"must be {limits}")
        found[name] = number
    return found


def _container(name: str, claimed: _Claimed, phase: Phase) -> ContainerRequest:
    """What one container requests; a claim of all compute is exclusive."""
    exactly = claimed.exactly
    count = 1 if exactly.count is None else exactly.count
    if count < 1:
        raise DialectError(f"the claim of container {name}: count", count, "must be 1 or more")
    # A claim of no byte gets the smallest share that the driver has.
    memory = claimed.amounts.get("memory")
    compute = FULL if exactly.device_class_name == WHOLE else claimed.amounts.get("compute", 0)
    return ContainerRequest(
        name,
        count,
        memory=None if memory is None else max(memory, MIB),
        memory_percent=FULL if memory is None else None,
        compute=compute,
        exclusive=compute == FULL,
        step=MIB,
        phase=phase,
    )


def _modes(exactly: ExactRequest) -> frozenset[Mode]:
    if exactly.device_class_name == MIG:
        return frozenset({Mode.MIG})
    shared = frozenset({Mode.SHARED})
    return shared | {Mode.WHOLE} if exactly.device_class_name == WHOLE else shared

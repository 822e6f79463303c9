"""Writes what a pod requests as claims of our driver, one for each container.

Form: k8s.io/api v0.37.1 resource/v1/types.go, ResourceClaimSpec.
"""

from collections.abc import Iterator
from typing import Any

from adapters.dialects.dialect import DialectError
from adapters.dialects.dra import DRIVER
from adapters.dialects.dra.card_selectors import expressions
from adapters.dialects.request_writer import Loss, mebibytes, stated_compute
from core.hardware.card import Mode
from core.hardware.quantity import FULL
from core.requests.request import ContainerRequest, Phase, Request

SHARE = "share.dragoman.dev"
"""A share of one card: all its memory and no reserved compute where no amount is stated."""

WHOLE = "whole.dragoman.dev"
"""All memory of one card."""

MIG = "mig.dragoman.dev"
"""One MIG slice, with at least the amounts that are stated."""

ALL = frozenset({SHARE, WHOLE, MIG})
"""The DeviceClasses of our driver, which the chart creates (templates/device-classes.yaml)."""

REQUEST = "share"
"""Name of the only request of a claim."""

UUID = f"{DRIVER}/uuid"
"""The attribute in which the cards of a container differ."""

Json = dict[str, Any]


def claim_specs(request: Request, card_memory: int | None) -> tuple[Json, ...]:
    """The claim of each container of a request, in its order, as ``spec`` of a ResourceClaim.

    Args:
        request: what the pod requests.
        card_memory: bytes of each card; None where not known.

    Raises:
        DialectError: a container requests a part of a card's memory in percent, which has no word
            here, and the bytes of a card are not known.
    """
    selectors = [{"cel": {"expression": each}} for each in expressions(request)]
    return tuple(_spec(request, each, selectors, card_memory) for each in request.containers)


def lost_peak(request: Request) -> Iterator[Loss]:
    """What init containers lose: their claims are allocated as long as those of the others.

    A dialect counts a pod at its peak, and init containers run before the others.
    """
    phases = [each.phase for each in request.containers]
    if Phase.INIT in phases and len(phases) > 1:
        field = "cards of init containers"
        yield Loss(field, "of later containers too", "in addition, for the pod's whole life")


def _spec(
    request: Request, container: ContainerRequest, selectors: list[Json], card_memory: int | None
) -> Json:
    exactly: Json = {"deviceClassName": _class(request, container)}
    if selectors:
        exactly["selectors"] = selectors
    if container.count > 1:
        exactly["count"] = container.count
    amounts = {} if exactly["deviceClassName"] == WHOLE else _amounts(container, card_memory)
    if exactly["deviceClassName"] == MIG and "memory" not in amounts:
        amounts["memory"] = _memory(container, card_memory)
    if amounts:
        exactly["capacity"] = {"requests": amounts}
    devices: Json = {"requests": [{"name": REQUEST, "exactly": exactly}]}
    if container.count > 1:
        devices["constraints"] = [{"requests": [REQUEST], "distinctAttribute": UUID}]
    return {"devices": devices}


def _class(request: Request, container: ContainerRequest) -> str:
    if request.modes == frozenset({Mode.MIG}):
        return MIG
    is_whole = container.memory_percent == container.compute == FULL and container.exclusive
    return WHOLE if is_whole and Mode.WHOLE in request.modes else SHARE


def _amounts(container: ContainerRequest, card_memory: int | None) -> dict[str, str]:
    """What the container states; all memory is what a claim gets that states none."""
    found: dict[str, str] = {}
    if container.memory_percent != FULL:
        found["memory"] = _memory(container, card_memory)
    compute = stated_compute(container, by_policy=False)
    if compute:
        found["compute"] = str(compute)
    return found


def _memory(container: ContainerRequest, card_memory: int | None) -> str:
    if container.memory is None and card_memory is None:
        raise DialectError(
            f"container {container.name}",
            f"{container.memory_percent} % of the card's memory",
            "a claim counts bytes; state the memory of a card with --card-memory",
        )
    return f"{mebibytes(container.memory_on(card_memory or 0))}Mi"

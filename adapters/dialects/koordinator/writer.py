"""Writes a request in Koordinator's words."""

import msgspec

from adapters.dialects.formats.hami_record import METAX_QOS
from adapters.dialects.formats.nvidia_words import GPU
from adapters.dialects.koordinator import keys
from adapters.dialects.request_writer import (
    RequestWriter,
    WrittenRequest,
    needs_exclusive_policy,
    stated_compute,
    words,
)
from adapters.wire.quantity import format_binary
from core.hardware.quantity import FULL
from core.requests.request import ContainerRequest, Request

_WHOLE = {
    vendor: resource
    for resource, vendor in keys.WHOLE_CARDS.items()
    if resource != GPU  # without another, it does not mean Koordinator
}
_EXCLUSIVE = msgspec.json.encode({"gpu": {"exclusivePolicy": "DeviceLevel"}}).decode()


def write(request: Request, card_memory: int | None) -> WrittenRequest:
    """Write a request.

    All of a card's memory in percent makes the card exclusive here. Where the request differs, it
    is written in bytes, if the bytes of a card are known.
    """
    by_policy = needs_exclusive_policy(request, _is_exclusive)
    return WrittenRequest(
        tuple(
            _resources(container, request.vendor, card_memory, by_policy=by_policy)
            for container in request.containers
        ),
        words(
            {
                keys.ALLOCATE_HINT: _EXCLUSIVE if by_policy else "",
                METAX_QOS: (request.qos or "") if request.vendor == keys.METAX else "",
            }
        ),
    )


def _is_exclusive(container: ContainerRequest) -> bool:
    return FULL in (container.memory_percent, container.compute)


def _resources(
    container: ContainerRequest, vendor: str | None, card_memory: int | None, *, by_policy: bool
) -> dict[str, int | str]:
    count = container.count
    whole = container.exclusive and container.memory_percent == FULL == container.compute
    if whole and vendor in _WHOLE:
        return {_WHOLE[vendor]: count}
    resources: dict[str, int | str] = {keys.SHARED: count} if count > 1 else {}
    compute = stated_compute(container, by_policy=by_policy or _is_exclusive(container))
    if compute:
        resources[keys.CORE] = compute * count
    ratio = _ratio(container, card_memory)
    if ratio is None:
        resources[keys.MEMORY] = format_binary(container.memory_on(card_memory or 0) * count)
    else:
        resources[keys.RATIO] = ratio * count
    if vendor == keys.METAX:
        resources[keys.METAX_TRIGGER] = count
    return resources


def _ratio(container: ContainerRequest, card_memory: int | None) -> int | None:
    """The percent to write; None where bytes express the request better."""
    percent = container.memory_percent
    if percent is None or card_memory is None:
        return percent
    same = max(card_memory * percent // FULL, 1) == container.memory_on(card_memory)
    return percent if same and (percent < FULL or container.exclusive) else None


WRITER = RequestWriter(
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

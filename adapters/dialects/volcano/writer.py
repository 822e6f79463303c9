"""Writes a request in Volcano's words."""

from adapters.dialects.request_writer import (
    RequestWriter,
    WrittenRequest,
    mebibytes,
    mode_word,
    stated_compute,
    words,
)
from adapters.dialects.volcano import keys
from core.hardware.quantity import FULL
from core.requests.request import ContainerRequest, Request


def write(request: Request, card_memory: int | None) -> WrittenRequest:  # noqa: ARG001
    """Write a request; only all of a card's compute makes the card exclusive here."""
    return WrittenRequest(
        tuple(map(_resources, request.containers)),
        words(
            {
                keys.MODE: mode_word(request.modes, keys.HAMI_CORE, keys.MIG),
                keys.USE_UUID: sorted(request.allow_uuids or ()),
                keys.AVOID_UUID: sorted(request.deny_uuids),
                keys.USE_TYPE: request.allow_types,
                keys.AVOID_TYPE: request.deny_types,
            }
        ),
    )


def _resources(container: ContainerRequest) -> dict[str, int | str]:
    resources: dict[str, int | str] = {keys.COUNT: container.count}
    if container.memory is not None:
        resources[keys.MEMORY] = mebibytes(container.memory)
    else:
        resources[keys.MEMORY_PERCENT] = container.memory_percent or FULL
    resources[keys.CORES] = stated_compute(container, by_policy=False)
    return resources


WRITER = RequestWriter(
    resources=keys.POD_RESOURCES,
    annotations=keys.POD_ANNOTATIONS - frozenset(keys.GROUP_NAMES),
    labels=frozenset(),
    unread=frozenset(),
    write=write,
)

"""Writes a request in Volcano's words."""

from adapters.dialects.request_writer import (
    AmountKeys,
    RequestWriter,
    WrittenRequest,
    amounts,
    mode_word,
    words,
)
from adapters.dialects.volcano import keys
from core.requests.request import Request

_AMOUNTS = AmountKeys(keys.COUNT, keys.MEMORY, keys.MEMORY_PERCENT, keys.CORES)


def write(request: Request, card_memory: int | None) -> WrittenRequest:  # noqa: ARG001
    """Write a request; only all of a card's compute makes the card exclusive here."""
    return WrittenRequest(
        tuple(amounts(container, _AMOUNTS, by_policy=False) for container in request.containers),
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


WRITER = RequestWriter(
    resources=keys.POD_RESOURCES,
    annotations=keys.POD_ANNOTATIONS - frozenset(keys.GROUP_NAMES),
    labels=frozenset(),
    unread=frozenset(),
    write=write,
)

"""Writes a request in HAMi's words for NVIDIA cards."""

from adapters.dialects.formats.hami_policies import CARD_POLICY, MUTEX
from adapters.dialects.hami import keys
from adapters.dialects.request_writer import (
    AmountKeys,
    RequestWriter,
    WrittenRequest,
    amounts,
    mode_word,
    needs_exclusive_policy,
    words,
)
from core.hardware.card import Mode
from core.hardware.quantity import FULL
from core.requests.request import Request

_AMOUNTS = AmountKeys(keys.COUNT, keys.MEMORY, keys.PERCENT, keys.CORES)


def write(request: Request, card_memory: int | None) -> WrittenRequest:  # noqa: ARG001
    """Write a request.

    The amounts of memory and compute are always written: without them HAMi's defaults decide, and
    whole cards by ``nvidia.com/gpu`` alone mean other dialects too.
    """
    mutex = needs_exclusive_policy(request, lambda container: container.compute == FULL)
    return WrittenRequest(
        tuple(amounts(container, _AMOUNTS, by_policy=mutex) for container in request.containers),
        words(
            {
                keys.MODE: _modes(request.modes),
                keys.USE_UUID: sorted(request.allow_uuids or ()),
                keys.AVOID_UUID: sorted(request.deny_uuids),
                keys.USE_TYPE: request.allow_types,
                keys.AVOID_TYPE: request.deny_types,
                CARD_POLICY: MUTEX if mutex else "",
            }
        ),
    )


def _modes(modes: frozenset[Mode]) -> str:
    """The modes that a request allows, as far as one or two words say it; empty for all."""
    if Mode.MPS not in modes or Mode.SHARED in modes:
        return mode_word(modes, keys.HAMI_CORE, keys.MIG)
    return f"{keys.MIG},{keys.MPS}" if Mode.MIG in modes else keys.MPS


WRITER = RequestWriter(
    resources=keys.POD_RESOURCES,
    annotations=keys.POD_ANNOTATIONS,
    labels=frozenset(),
    unread=frozenset({keys.PRIORITY}),
    write=write,
)

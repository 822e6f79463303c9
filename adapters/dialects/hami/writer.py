"""Writes a request in HAMi's words for NVIDIA cards."""

from adapters.dialects.formats.hami_policies import CARD_POLICY, MUTEX
from adapters.dialects.hami import keys
from adapters.dialects.request_writer import (
    RequestWriter,
    WrittenRequest,
    mebibytes,
    mode_word,
    needs_exclusive_policy,
    stated_compute,
    words,
)
from core.hardware.quantity import FULL
from core.requests.request import ContainerRequest, Request


def write(request: Request, card_memory: int | None) -> WrittenRequest:  # noqa: ARG001
    """Write a request.

    The amounts of memory and compute are always written: without them HAMi's defaults decide, and
    whole cards by ``nvidia.com/gpu`` alone mean other dialects too.
    """
    mutex = needs_exclusive_policy(request, lambda container: container.compute == FULL)
    return WrittenRequest(
        tuple(_resources(container, mutex=mutex) for container in request.containers),
        words(
            {
                keys.MODE: mode_word(request.modes, keys.HAMI_CORE, keys.MIG),
                keys.USE_UUID: sorted(request.allow_uuids or ()),
                keys.AVOID_UUID: sorted(request.deny_uuids),
                keys.USE_TYPE: request.allow_types,
                keys.AVOID_TYPE: request.deny_types,
                CARD_POLICY: MUTEX if mutex else "",
            }
        ),
    )


def _resources(container: ContainerRequest, *, mutex: bool) -> dict[str, int | str]:
    resources: dict[str, int | str] = {keys.COUNT: container.count}
    if container.memory is not None:
        resources[keys.MEMORY] = mebibytes(container.memory)
    else:
        resources[keys.PERCENT] = container.memory_percent or FULL
    resources[keys.CORES] = stated_compute(container, by_policy=mutex)
    return resources


WRITER = RequestWriter(
    resources=keys.POD_RESOURCES,
    annotations=keys.POD_ANNOTATIONS,
    labels=frozenset(),
    unread=frozenset({keys.PRIORITY}),
    write=write,
)

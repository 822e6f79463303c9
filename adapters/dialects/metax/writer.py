"""Writes a request in the words of MetaX cards under HAMi."""

from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.hami_policies import CARD_POLICY, MUTEX
from adapters.dialects.metax import keys
from adapters.dialects.metax.shares import TASK_CLASSES
from adapters.dialects.request_writer import (
    RequestWriter,
    WrittenRequest,
    mebibytes,
    needs_exclusive_policy,
    stated_compute,
    words,
)
from core.hardware.card import Mode
from core.hardware.quantity import FULL
from core.requests.request import ContainerRequest, Request, TaskClass


def write(request: Request, card_memory: int | None) -> WrittenRequest:
    """Write a request.

    Raises:
        DialectError: a container requests a part of a card's memory in percent, which has no word
            here, and the bytes of a card are not known.
    """
    if request.modes == frozenset({Mode.WHOLE}):
        return WrittenRequest(tuple({keys.GPU: each.count} for each in request.containers))
    online = request.task_class is TaskClass.ONLINE
    mutex = needs_exclusive_policy(
        request, lambda container: container.compute == FULL and not online
    )
    names = {task_class: name for name, task_class in TASK_CLASSES.items()}
    return WrittenRequest(
        tuple(
            {
                keys.SGPU: container.count,
                **_compute(container, online=online, mutex=mutex),
                **_memory(container, card_memory),
            }
            for container in request.containers
        ),
        words(
            {
                keys.USE_UUIDS: sorted(request.allow_uuids or ()),
                keys.NO_USE_UUIDS: sorted(request.deny_uuids),
                keys.APP_CLASS: names.get(request.task_class, ""),
                keys.QOS: request.qos or "",
                CARD_POLICY: MUTEX if mutex else "",
            }
        ),
    )


def _compute(container: ContainerRequest, *, online: bool, mutex: bool) -> dict[str, int]:
    """The amount of compute, at least 1 percent: without one a container has all of its cards'."""
    if online:
        return {}
    return {keys.VCORE: max(stated_compute(container, by_policy=mutex), 1)}


def _memory(container: ContainerRequest, card_memory: int | None) -> dict[str, str]:
    if container.memory_percent == FULL:
        return {}
    if container.memory is None and card_memory is None:
        raise DialectError(
            f"container {container.name}",
            f"{container.memory_percent} % of the card's memory",
            f"{keys.VMEMORY} counts bytes; state the memory of a card with --card-memory",
        )
    return {keys.VMEMORY: f"{mebibytes(container.memory_on(card_memory or 0))}Mi"}


WRITER = RequestWriter(
    resources=frozenset({keys.SGPU, keys.VCORE, keys.VMEMORY, keys.GPU}),
    annotations=keys.POD_ANNOTATIONS,
    labels=frozenset(),
    unread=frozenset(),
    write=write,
)

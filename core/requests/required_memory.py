"""How much memory of a card a request needs: for the search, for choices of others, for quotas."""

from core.hardware import mig
from core.hardware.card import Card, Mode
from core.requests.request import ContainerRequest, Request


def required_memory(request: Request, container: ContainerRequest, card: Card) -> int:
    """Bytes that a container of a request needs of a card.

    Of a card in MIG mode a percentage is at most its largest slice, because 100 % of such a card
    means all that one container can get. A request that takes slices by their configured size
    needs what the smallest of these really has.
    """
    memory = container.memory_on(card.memory)
    if card.mode is not Mode.MIG:
        return memory
    if request.by_configured_size:
        slot = mig.smallest_configured(card.geometry, memory)
        memory = memory if slot is None else min(memory, slot.memory)
    if container.memory is not None:
        return memory
    largest = max((slot.memory for slot in mig.free_slices(card.geometry, ())), default=memory)
    return min(memory, largest)

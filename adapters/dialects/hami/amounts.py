"""Reads what one container requests.

Source: nvidia/device.go, GenerateResourceRequests, and the defaults of the webhook in
mutateContainerResource and defaultExclusiveCoreIfNeeded.
"""

from dataclasses import dataclass

from adapters.dialects.containers import PodContainer, stated_amount, whole_amount
from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.hami_record import MAX_MIB
from adapters.dialects.hami.settings import HamiConfig
from core.hardware.quantity import FULL, MIB
from core.requests.request import ContainerRequest

MAX_CARDS = 1024
LOWEST_PRIORITY = 1


@dataclass(frozen=True, slots=True)
class HamiAmounts:
    """What a container requests, each amount as stated; None where it is not.

    Attributes:
        member: the container.
        count: cards, 1 or more.
        memory: units of each card's memory, 0 or more.
        percent: of each card's memory, 0 to 100.
        cores: percent of each card's compute, 0 to 100.
        notes: what was assumed, as sentences.
    """

    member: PodContainer
    count: int
    memory: int | None
    percent: int | None
    cores: int | None
    notes: tuple[str, ...]

    def request(self, config: HamiConfig, *, alone: bool, linked: bool) -> ContainerRequest:
        """The request of the container.

        Args:
            config: the settings.
            alone: it must have its cards for itself.
            linked: the pod's topology decides which cards it gets together.
        """
        memory = (self.memory or 0) * config.unit
        if not memory and not self.percent:
            memory = config.default_memory
        compute = self._compute(config)
        return ContainerRequest(
            self.member.container.name,
            self.count,
            memory=memory * MIB if memory else None,
            memory_percent=None if memory else self.percent or FULL,
            compute=compute,
            exclusive=alone or compute == FULL,
            exclusive_by_compute=not alone and compute == FULL,
            linked=linked,
            step=MIB,
            phase=self.member.phase,
        )

    def _compute(self, config: HamiConfig) -> int:
        """Percent: all of a card for a container that names neither compute nor a part of memory.

        As for HAMi, a stated 0 is not all memory here, but the default of the settings there.
        """
        if self.cores is not None:
            return self.cores
        if self.percent is not None:
            return FULL if self.percent == FULL else config.default_cores
        return FULL if self.memory is None else config.default_cores


def read_amounts(member: PodContainer, config: HamiConfig) -> HamiAmounts | None:
    """Read the amounts of a container; None where it requests no card.

    Raises:
        DialectError: an amount is invalid, or contradicts another.
    """
    count = _amount(member, config.count, MAX_CARDS, "it counts cards")
    memory = _amount(
        member, config.memory, MAX_MIB // config.unit, f"it counts {_units(config)} of each card"
    )
    percent = _amount(member, config.percent, FULL, "it is percent of each card's memory")
    cores = _amount(member, config.cores, FULL, "it is percent of each card's compute")
    priority = _amount(member, config.priority, LOWEST_PRIORITY, "0 is high, 1 is low")
    found = zip(config.amounts, (memory, percent, cores, priority), strict=True)
    stated = [name for name, amount in found if amount is not None]
    if not stated:
        return HamiAmounts(member, count, None, None, None, ()) if count else None
    if count == 0:
        problem = f"must be 1 or more beside {stated[0]}; or remove both for no card"
        raise DialectError(f"{member.path}.resources[{config.count}]", count, problem)
    if memory and percent:
        value = f"{config.memory}: {memory}, {config.percent}: {percent}"
        problem = "must name one of the two, not both"
        raise DialectError(f"{member.path}.resources", value, problem)
    if count is None and (stated == [config.priority] or not config.default_count):
        problem = f"needs {config.count} too, the number of cards"
        raise DialectError(f"{member.path}.resources", stated[0], problem)
    notes = [
        f"{member.path}: {name}: 0 is as if it were omitted: {_instead(config)}"
        for name, amount in ((config.memory, memory), (config.percent, percent))
        if amount == 0 and not memory and not percent
    ]
    if count is None:
        count = config.default_count
        notes.append(f"{member.path}: names {stated[0]} without {config.count}: it gets {count}")
    return HamiAmounts(member, count, memory, percent, cores, tuple(notes))


def _amount(member: PodContainer, resource: str, high: int, meaning: str) -> int | None:
    found = stated_amount(member, resource)
    if found is None:
        return None
    if str(found[1]).strip().endswith("i"):
        raise DialectError(*found, f"must be a plain number, 0 to {high}; {meaning}")
    try:
        return whole_amount(member, resource, 0, high)
    except DialectError as error:
        raise DialectError(error.field, error.value, f"{error.problem}; {meaning}") from None


def _units(config: HamiConfig) -> str:
    return "MiB" if config.unit == 1 else f"units of {config.unit} MiB"


def _instead(config: HamiConfig) -> str:
    return f"{config.default_memory} MiB" if config.default_memory else "all memory of the card"

"""The cards as the agent's own readers find them."""

from contextlib import suppress

from msgspec import Struct, field

from adapters.agent.hardware.model import CardLoad, Hardware, HardwareSource, InventoryError
from adapters.agent.hardware.nvidia import NvmlInventory
from adapters.agent.hardware.nvml import Nvml, NvmlError
from adapters.agent.hardware.nvml_mig import NvmlMigReader
from core.hardware.card import Card
from core.hardware.quantity import MIB

_WHOLE_CARD = (1 << 32) - 1
"""The number of the MIG instance of a process on a card that is not in MIG mode."""


class ReadProcess(Struct, frozen=True, rename="camel"):
    """A process on a card; its memory is None where the driver does not say."""

    pid: int
    memory_mib: int | None = field(default=None, name="memoryMiB")
    gpu_instance: int | None = None


class ReadInstance(Struct, frozen=True, rename="camel"):
    """A MIG instance; without a uuid where no container can get it."""

    profile: str
    start: int
    uuid: str = ""
    devices: tuple[str, ...] = ()


class ReadCard(Struct, frozen=True, rename="camel"):
    """A card, in the words of the agent.

    Attributes:
        used_mib: memory in use by all processes and by the driver; None where not known.
        compute: percent of the time during which a kernel ran; None where not known.
        bus: address on the PCI bus; empty where the source does not know it.
        links: groups of connected cards, each as ``level:name``.
        parts: uuids of all MIG devices, also of those that are no whole instance.
    """

    index: int
    uuid: str
    vendor: str
    model: str
    memory_mib: int = field(name="memoryMiB")
    used_mib: int | None = field(name="usedMiB")
    compute: int | None
    mode: str
    healthy: bool
    problem: str
    numa: int | None
    bus: str
    links: tuple[str, ...]
    devices: tuple[str, ...]
    instances: tuple[ReadInstance, ...]
    parts: tuple[str, ...]
    processes: tuple[ReadProcess, ...]


class Reading(Struct, frozen=True, rename="camel"):
    """All that the agent reads of the cards.

    Attributes:
        source: of the configuration: ``nvml``, ``file`` or ``none``.
        problem: why the source cannot list the cards; empty where it can.
        driver: version of the driver; empty where not known.
        library: version of NVML; empty where not known.
        cards: by index.
    """

    source: str
    problem: str = ""
    driver: str = ""
    library: str = ""
    cards: tuple[ReadCard, ...] = ()


def read_cards(name: str, source: HardwareSource | None) -> Reading:
    """Read the cards once.

    Args:
        name: of the source, in the configuration.
        source: None where the configuration names none.
    """
    if source is None:
        return Reading(name, "the configuration has no source of cards: the ledger's count")
    try:
        hardware = source.read()
    except InventoryError as error:
        return Reading(name, str(error))
    nvidia = source if isinstance(source, NvmlInventory) else None
    driver = library = ""
    buses: dict[str, str] = {}
    if nvidia is not None:
        with suppress(NvmlError):
            driver = nvidia.nvml.call("nvmlSystemGetDriverVersion")
            library = nvidia.nvml.call("nvmlSystemGetNVMLVersion")
            buses = {card.uuid: card.bus_id for card in nvidia.nvml.cards()}
    loads = source.loads()
    cards = tuple(
        _card(card, hardware, loads.get(card.uuid), buses.get(card.uuid, ""), nvidia)
        for card in hardware.cards
    )
    return Reading(name, "", driver, library, cards)


def _card(
    card: Card, hardware: Hardware, load: CardLoad | None, bus: str, nvidia: NvmlInventory | None
) -> ReadCard:
    return ReadCard(
        index=card.index,
        uuid=card.uuid,
        vendor=card.vendor,
        model=card.model,
        memory_mib=card.memory // MIB,
        used_mib=None if load is None else load.memory // MIB,
        compute=None if load is None else load.compute,
        mode=card.mode.value,
        healthy=card.healthy,
        problem=hardware.problems.get(card.uuid, ""),
        numa=card.numa,
        bus=bus,
        links=tuple(f"{each.level.name.lower()}:{each.name}" for each in card.links),
        devices=hardware.devices.get(card.uuid, ()),
        instances=_instances(card, hardware),
        parts=() if nvidia is None else _parts(nvidia, card.uuid),
        processes=() if nvidia is None else processes(nvidia.nvml, card.uuid),
    )


def _instances(card: Card, hardware: Hardware) -> tuple[ReadInstance, ...]:
    usable = {
        (key.profile, key.start): each
        for key, each in hardware.instances.items()
        if key.card == card.uuid
    }
    others = {
        (each.profile, each.start): None for each in hardware.gpu_instances.get(card.uuid, ())
    }
    found = sorted((others | usable).items(), key=lambda item: item[0][1])
    return tuple(
        ReadInstance(profile, start)
        if each is None
        else ReadInstance(profile, start, each.uuid, each.devices)
        for (profile, start), each in found
    )


def _parts(source: NvmlInventory, uuid: str) -> tuple[str, ...]:
    try:
        instances = NvmlMigReader(source.nvml).instances(uuid) or ()
    except NvmlError:
        return ()  # the card is not healthy; its problem says why
    return tuple(sorted(device.uuid for each in instances for device in each.devices))


def processes(nvml: Nvml, uuid: str) -> tuple[ReadProcess, ...]:
    """List the compute processes of a card, by pid; none where it does not answer."""
    try:
        found = nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", nvml.handle_of(uuid))
    except NvmlError:
        return ()
    return tuple(
        ReadProcess(
            each.pid,
            None if each.usedGpuMemory is None else each.usedGpuMemory // MIB,
            None if each.gpuInstanceId == _WHOLE_CARD else each.gpuInstanceId,
        )
        for each in sorted(found, key=lambda each: each.pid)
    )

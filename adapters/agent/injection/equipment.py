"""The node's hardware as containers can get it, from its sources."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.mig_partitioner import MigPartitioner
from adapters.agent.hardware.model import Hardware
from adapters.agent.injection.adjustment import Equipment
from adapters.agent.injection.profiles import VendorProfile
from adapters.agent.log import log_event
from adapters.agent.nri.model import RuntimeInfo
from core.hardware.mig import MigKey

CDI_SINCE = (2, 1)
"""containerd's first version with CDI devices of plugins; older ones drop them silently."""

_NONE_WITHDRAWN = frozenset[MigKey]()
_NONE_FAILED: Mapping[MigKey, str] = {}


@dataclass(slots=True)
class EquipmentSource:
    """Builds the equipment, and keeps it until one of its sources changes.

    Every source replaces its values and never changes them, so that identity shows a change.

    Attributes:
        grants: whose cards count where the hardware is not known.
        profiles: by vendor.
        hardware: of the node, as last read.
        partitioner: creates MIG instances; None where the agent creates none.
        cdi: whether the runtime supports CDI devices of plugins.
    """

    grants: LedgerGrants
    profiles: Mapping[str, VendorProfile]
    hardware: Callable[[], Hardware]
    partitioner: MigPartitioner | None = None
    cdi: bool = False
    _cached: tuple[tuple[object, ...], Equipment] = field(
        default_factory=lambda: ((), Equipment({}, {}))
    )

    def equipment(self) -> Equipment:
        """Return the equipment as it is now; from any thread."""
        maker = self.partitioner
        # Before the hardware: an instance is withdrawn until the hardware was read again.
        withdrawn = _NONE_WITHDRAWN if maker is None else maker.withdrawn
        failed = _NONE_FAILED if maker is None else maker.failed_instances
        hardware = self.hardware()
        ledger_cards = None if hardware.cards else self.grants.cards()
        sources = (hardware, ledger_cards, withdrawn, failed, self.cdi)
        cached, equipment = self._cached
        if len(cached) == len(sources) and all(map(_same, cached, sources)):
            return equipment
        instances = hardware.instances
        if withdrawn:
            instances = {key: each for key, each in instances.items() if key not in withdrawn}
        equipment = Equipment(
            {card.uuid: card for card in hardware.cards} if ledger_cards is None else ledger_cards,
            self.profiles,
            hardware.devices,
            instances,
            self.cdi,
            creates_instances=maker is not None,
            failed_instances=failed,
        )
        self._cached = sources, equipment
        return equipment

    def configure(self, runtime: RuntimeInfo) -> None:
        """Adapt to a runtime."""
        self.cdi = supports_cdi(runtime)
        log_event("nri.configured", runtime=runtime.name, version=runtime.version, cdi=self.cdi)


def _same(one: object, other: object) -> bool:
    return one is other


def supports_cdi(runtime: RuntimeInfo) -> bool:
    """Return whether CDI devices of plugins reach the container; False for unknown runtimes."""
    if runtime.name != "containerd":
        return False
    numbers = runtime.version.removeprefix("v").split(".")
    try:
        return (int(numbers[0]), int(numbers[1])) >= CDI_SINCE
    except (ValueError, IndexError):
        return False

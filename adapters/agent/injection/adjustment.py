"""Translates a container's limits into an adjustment for this node, by the hardware that it has."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

import msgspec

from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.mig_partitioner import MigPartitioner
from adapters.agent.hardware.model import Hardware, Instance
from adapters.agent.injection import hami_core as hami
from adapters.agent.injection.plan import AdjustmentPlan
from adapters.agent.injection.profiles import VOID, VendorProfile
from adapters.agent.log import log_event
from adapters.agent.nri.model import NriContainer, PodSandbox, RuntimeInfo
from core.hardware.card import Card
from core.hardware.mig import MigKey
from core.hardware.quantity import MIB
from core.requests.limits import CardLimit, GrantError, Limits

CDI_SINCE = (2, 1)
"""containerd's first version with CDI devices of plugins; older ones drop them silently."""

_NONE_WITHDRAWN = frozenset[MigKey]()
_NONE_FAILED: Mapping[MigKey, str] = {}


class PartitioningError(GrantError):
    """A MIG instance does not exist yet; the agent is creating it."""


class Equipment(msgspec.Struct, frozen=True):
    """The node's hardware, as far as containers can get it.

    Attributes:
        cards: by uuid.
        devices: device nodes by uuid of the card, where the inventory knows them.
        profiles: by vendor.
        cdi: whether the runtime supports CDI devices of plugins.
        creates_instances: whether the agent creates MIG instances that do not exist.
        failed_instances: why an instance could not be created.
    """

    cards: Mapping[str, Card]
    profiles: Mapping[str, VendorProfile]
    devices: Mapping[str, tuple[str, ...]] = msgspec.field(
        default_factory=dict[str, tuple[str, ...]]
    )
    instances: Mapping[MigKey, Instance] = msgspec.field(default_factory=dict[MigKey, Instance])
    cdi: bool = False
    creates_instances: bool = False
    failed_instances: Mapping[MigKey, str] = msgspec.field(default_factory=dict[MigKey, str])

    def named_cards(self, words: Collection[str]) -> frozenset[str] | None:
        """Return the cards that the items of a runtime's variable name; None where one is unknown.

        Args:
            words: uuids of cards or of MIG instances, or the driver's numbers of cards.
        """
        known = {slot.uuid: key[0] for key, slot in self.instances.items()}
        known |= {str(card.index): uuid for uuid, card in self.cards.items()}
        known |= {uuid: uuid for uuid in self.cards}
        return frozenset(map(known.__getitem__, words)) if known.keys() >= set(words) else None

    def lifted_limits(self, limits: Limits, container: NriContainer) -> list[str]:
        """Name what lifts HAMi-core's limits of a container, as far as it can be seen."""
        if not any(card.memory_limited or card.compute_limited for card in limits.cards):
            return []
        found = [
            f"a mount at {mount.destination}"
            for mount in container.mounts
            if mount.destination.strip("/") == hami.OVERRIDE
        ]
        shared = [limit.uuid for limit in limits.cards if limit.slice is None]
        if len(shared) > 1:
            cards = filter(None, map(self.cards.get, shared))
            profiles = filter(None, (self.profiles.get(card.vendor) for card in cards))
            libraries = {each.hami.library for each in profiles if each.hami}
            found += [
                f"CUDA_VISIBLE_DEVICES, with which HAMi-core {release} limits none of several cards"
                for release in filter(None, map(hami.unenforced_release, libraries))
            ]
        return found

    def device_nodes(self, uuid: str) -> Sequence[str]:
        """Return the device nodes of a card of this node; none where no profile names them."""
        known = self.devices.get(uuid)
        if known is not None:
            return known
        card = self.cards[uuid]
        profile = self.profiles.get(card.vendor)
        templates = () if profile is None else profile.card_devices
        return [_for_card(template, uuid, card.index) for template in templates]


@dataclass(slots=True)
class EquipmentSource:
    """Builds the equipment, and keeps it until one of its sources changes.

    Every source replaces its values and never changes them, so that identity shows a change.

    Attributes:
        grants: whose cards count where the hardware is not known.
        partitioner: creates MIG instances; None where the agent creates none.
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
        if len(cached) == len(sources) and all(map(is_, cached, sources)):
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


def supports_cdi(runtime: RuntimeInfo) -> bool:
    """Return whether CDI devices of plugins reach the container; False for unknown runtimes."""
    if runtime.name != "containerd":
        return False
    numbers = runtime.version.removeprefix("v").split(".")
    try:
        return (int(numbers[0]), int(numbers[1])) >= CDI_SINCE
    except (ValueError, IndexError):
        return False


def plan_share(
    limits: Limits, pod: PodSandbox, container: NriContainer, equipment: Equipment
) -> AdjustmentPlan:
    """Plan what a container with a share gets; cards of other vendors stay invisible.

    Raises:
        PartitioningError: the agent is still creating a MIG instance.
        GrantError: the node cannot provide the share.
    """
    vendors: dict[str, list[CardLimit]] = {}
    for limit in limits.cards:
        card = equipment.cards.get(limit.uuid)
        if card is None:
            raise GrantError(f"card {limit.uuid} is not on this node")
        vendors.setdefault(card.vendor, []).append(limit)
    plans: list[AdjustmentPlan] = []
    for vendor, cards in vendors.items():
        profile = equipment.profiles.get(vendor)
        if profile is None:
            raise GrantError(f"the agent's configuration has no profile for vendor {vendor}")
        if profile.injects:
            plans += _of_vendor(cards, profile, pod, container, equipment)
    return AdjustmentPlan().merged_with(*plans, plan_void(equipment, vendors))


def plan_void(equipment: Equipment, present: Collection[str] = ()) -> AdjustmentPlan:
    """Hide the cards of all vendors but those that are present, whatever the image sets."""
    return AdjustmentPlan(
        {
            profile.visible_env: VOID
            for vendor, profile in equipment.profiles.items()
            if profile.injects and profile.visible_env and vendor not in present
        }
    )


def _of_vendor(
    limits: Sequence[CardLimit],
    profile: VendorProfile,
    pod: PodSandbox,
    container: NriContainer,
    equipment: Equipment,
) -> list[AdjustmentPlan]:
    # A container numbers its cards by their place on the bus, not by their order in a list.
    cards = sorted(limits, key=lambda limit: (equipment.cards[limit.uuid].index, limit.uuid))
    indexes = [equipment.cards[limit.uuid].index for limit in cards]
    uuids: list[str] = []
    cdi: list[str] = []
    nodes: list[str] = []
    for limit, index in zip(cards, indexes, strict=True):
        uuid, devices = limit.uuid, tuple[str, ...]()
        if limit.slice is not None:
            key = MigKey(uuid, limit.slice.profile, limit.slice.start)
            instance, why = equipment.instances.get(key), equipment.failed_instances.get(key)
            if instance is None:
                problem = (
                    f"card {uuid} has no {limit.slice.profile} instance at {limit.slice.start}"
                )
                if why is None and equipment.creates_instances:
                    raise PartitioningError(f"{problem} yet")
                raise GrantError(problem if why is None else f"{problem}: {why}")
            uuid, devices = instance.uuid, instance.devices
        uuids.append(uuid)
        if equipment.cdi and profile.cdi:
            cdi.append(_for_card(profile.cdi, uuid, index))
        else:
            nodes += devices or equipment.device_nodes(limit.uuid)
    values = {
        "{uuids}": ",".join(uuids),
        "{indexes}": ",".join(map(str, indexes)),
        "{memories}": ",".join(str(limit.memory // MIB) for limit in cards),
        "{computes}": ",".join(str(limit.compute) for limit in cards),
    }
    env = {name: _fill(value, values) for name, value in profile.env.items()}
    if profile.visible_env:
        env[profile.visible_env] = _fill(profile.visible_value, values)
    plans = [AdjustmentPlan(env, profile.mounts)]
    if cdi:
        plans.append(AdjustmentPlan(cdi=tuple(cdi)))
    else:
        devices = tuple(dict.fromkeys((*nodes, *profile.devices)))
        plans.append(AdjustmentPlan(devices=devices, optional_devices=profile.optional_devices))
    if profile.hami is not None and any(
        card.memory_limited or card.compute_limited for card in cards
    ):
        plans += [
            AdjustmentPlan(hami.limit_env(cards)),
            hami.library_plan(profile.hami, pod.uid, container),
        ]
    return plans


def _for_card(template: str, uuid: str, index: int) -> str:
    return _fill(template, {"{uuid}": uuid, "{index}": str(index)})


def _fill(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(name, value)
    return template

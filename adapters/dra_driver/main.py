"""Builds the driver from the agent's configuration, and runs it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from adapters.agent.apiserver.credentials import AgentCredentials, of_kubeconfig, of_pod
from adapters.agent.apiserver.ledger_watch import LedgerWatch
from adapters.agent.config import AgentConfig, node_name, profiles
from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.watcher import HardwareWatcher
from adapters.agent.hardware_source import hardware_source
from adapters.agent.injection.equipment import EquipmentSource
from adapters.agent.injection.profiles import VendorProfile
from adapters.agent.log import log_event
from adapters.agent.supervisor import supervise
from adapters.dra_driver.claim_server import ClaimServer
from adapters.dra_driver.devices import CardDevices, card_devices, names_of_cards, with_conditions
from adapters.dra_driver.health import DeviceHealth
from adapters.dra_driver.preparation import Preparer
from adapters.dra_driver.prepared import PreparedClaims
from adapters.dra_driver.publisher import SlicePublisher
from adapters.dra_driver.slice_server import SliceServer
from adapters.dra_driver.slices import DevicePool, pools
from adapters.dra_driver.sockets import serving
from core.hardware.card import Card


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards of the node, as their devices.

    Attributes:
        node: its name.
        watcher: of the hardware.
        grants: the ledger, whose cards have what other components say too.
        vendors: profiles; a vendor whose own components serve its pods has no devices.
        slots: places on a card that the ledger lacks.
        conditions: whether schedulers wait until the ledger has a claim.
    """

    node: str
    watcher: HardwareWatcher
    grants: LedgerGrants
    vendors: Mapping[str, VendorProfile]
    slots: int
    conditions: bool = False

    def pools(self) -> tuple[DevicePool, ...] | None:
        """The pools that should be published; None as long as ledger or hardware is not known."""
        ready = self.grants.known and (self.watcher.known or self.watcher.source is None)
        if not ready:
            return None
        devices = self._devices()
        return pools(self.node, map(with_conditions, devices) if self.conditions else devices)

    def cards(self) -> Mapping[str, str]:
        """The uuid of the card of each device, by the device's name."""
        return names_of_cards(self._devices())

    def _devices(self) -> list[CardDevices]:
        recorded = self.grants.cards()
        hardware = self.watcher.hardware.cards
        cards = [self._merged(card, recorded) for card in hardware] or list(recorded.values())
        found = (card_devices(card) for card in cards if self._serves(card))
        return [each for each in found if each is not None]

    def _serves(self, card: Card) -> bool:
        profile = self.vendors.get(card.vendor)
        return profile is not None and profile.injects

    def _merged(self, card: Card, recorded: Mapping[str, Card]) -> Card:
        """A card with what the ledger says: claims are compared with that."""
        known = recorded.get(card.uuid)
        if known is None:
            return replace(card, slots=self.slots)
        return replace(
            card,
            memory=min(card.memory, known.memory) or known.memory,
            slots=known.slots,
            healthy=card.healthy and known.healthy,
            geometry=known.geometry,
        )


async def run(config: AgentConfig) -> None:
    """Publish and serve until SIGTERM or SIGINT.

    Raises:
        CredentialsError: the credentials for the cluster are invalid.
        OSError: a socket cannot be created.
        UnsupportedClusterError: the cluster cannot store shared devices.
    """
    name = node_name(config)
    vendors = profiles(config)
    credentials = _credentials(config)
    grants = LedgerGrants()
    watcher = HardwareWatcher(hardware_source(config.inventory, name))
    watcher.read_first()
    cards = NodeCards(name, watcher, grants, vendors, config.publish.slots, config.dra.conditions)
    equipment = EquipmentSource(grants, vendors, lambda: watcher.hardware, cdi=True)
    preparer = Preparer(
        ClaimServer(credentials),
        grants,
        equipment.equipment,
        cards.cards,
        PreparedClaims(Path(config.dra.cdi)),
    )
    publisher = SlicePublisher(SliceServer(credentials, name), cards.pools)
    health = DeviceHealth(cards.pools, lambda: watcher.hardware.problems)
    watcher.subscribers += [publisher.wake, health.wake]
    ledger = LedgerWatch(credentials, name, grants)
    async with serving(Path(config.dra.kubelet), preparer, health):
        log_event("driver.started", node=name)
        await supervise(
            [publisher.run(), watcher.run(), ledger.run(), _wake(grants, publisher, health)]
        )
    log_event("driver.ended")


async def _wake(grants: LedgerGrants, *followers: SlicePublisher | DeviceHealth) -> None:
    """Compare after each change of the ledger: its cards may have changed."""
    while True:
        change = grants.next_change()
        for each in followers:
            each.wake()
        await change


def _credentials(config: AgentConfig) -> AgentCredentials:
    kubeconfig = config.ledger.kubeconfig
    return of_kubeconfig(Path(kubeconfig)) if kubeconfig else of_pod(os.environ)

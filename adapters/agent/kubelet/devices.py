"""The cards of pods that NVIDIA's own device plugin, or Volcano's older one, serves.

Such a pod has no record of its cards; only the kubelet knows them. The agent reports them for pods
whose cards the ledger does not know, and writes nothing for other pods.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.model import Hardware
from adapters.agent.hook.facts import UUID_PREFIXES, names_card
from adapters.agent.kubelet.checkpoint import DeviceAssignment, KubeletAssignments
from adapters.wire.records.hardware import DeviceHolding, is_reported
from core.requests.grant import KUBELET

INTERVAL = 2.0
"""Seconds between two readings, while there is a pod whose cards the ledger does not know."""


def holdings(
    assignments: Sequence[DeviceAssignment], hardware: Hardware, pods: Collection[str]
) -> tuple[DeviceHolding, ...]:
    """Return the cards of some pods; none of a container whose cards are unknown or ambiguous.

    The cards that the plugin made visible by uuid count, or else by number, as NVML numbers them:
    the devices of HAMi's and Volcano's plugins are interchangeable for the kubelet, and the plugin
    gives the container what a scheduler chose. Where the plugin sets no visible cards, the
    kubelet's devices count.

    Args:
        assignments: of the kubelet.
        hardware: of this node.
        pods: uids of the pods that count.
    """
    cards = _Cards.on(hardware)
    found = (
        (one, cards.of(one)) for one in assignments if one.pod in pods and is_reported(one.resource)
    )
    reported = (
        DeviceHolding(
            one.pod,
            one.container,
            one.resource,
            len(one.devices),
            tuple(sorted(held)),
            shared=held != set(one.devices),
        )
        for one, held in found
        if held
    )
    return tuple(sorted(reported, key=lambda each: (each.pod, each.container, each.resource)))


@dataclass(frozen=True, slots=True)
class _Cards:
    """The node's cards by uuid and by number; no numbers where two cards have the same one."""

    names: Mapping[str, str]
    numbers: Mapping[str, str]

    @classmethod
    def on(cls, hardware: Hardware) -> "_Cards":
        cards = [card for card in hardware.cards if card.vendor == "nvidia"]
        slices = {slot.uuid: key[0] for key, slot in hardware.instances.items()}
        numbers = {str(card.index): card.uuid for card in cards}
        return cls(
            slices | {card.uuid: card.uuid for card in cards},
            numbers if len(numbers) == len(cards) else {},
        )

    def of(self, one: DeviceAssignment) -> set[str]:
        """Return the cards of a container; none where any of them is unknown or ambiguous."""
        visible = one.visible
        devices = _all(one.without_replicas, self.names)
        if not any(map(names_card, visible)):
            return devices
        if all(word.startswith(UUID_PREFIXES) for word in visible):
            return _all(visible, self.names)
        numbers = _all(visible, self.numbers)
        return numbers if not devices or devices == numbers else set()


def _all(words: Sequence[str], known: Mapping[str, str]) -> set[str]:
    return {known[word] for word in words} if known.keys() >= set(words) else set()


@dataclass(slots=True)
class KubeletDevices:
    """Follows the kubelet's device assignments.

    Attributes:
        assignments: of the kubelet.
        grants: from the ledger.
        hardware: of the node, as it is now.
        subscribers: called after ``found`` has changed.
        found: the cards to report; None as long as the ledger is not known.
    """

    assignments: KubeletAssignments
    grants: LedgerGrants
    hardware: Callable[[], Hardware]
    subscribers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    found: tuple[DeviceHolding, ...] | None = None
    _read: tuple[DeviceAssignment, ...] = ()

    async def run(self) -> None:
        """Update every ``INTERVAL``, and at once when the ledger has changed, until cancelled."""
        while True:
            change = self.grants.next_change()
            if self._pods():
                self._read = await asyncio.to_thread(self.assignments.read)
            self.update()
            with suppress(TimeoutError):
                await asyncio.wait_for(change, INTERVAL)

    def update(self) -> None:
        """Compute ``found``; no effect before the ledger is known."""
        if not self.grants.known:
            return
        found = holdings(self._read, self.hardware(), self._pods())
        if found != self.found:
            self.found = found
            for notify in self.subscribers:
                notify()

    def _pods(self) -> frozenset[str]:
        """List the pods whose cards the ledger does not know, or knows from this agent."""
        ledger = self.grants.ledger
        allocations = {} if ledger is None else ledger.allocations
        return frozenset(
            uid
            for uid, held in allocations.items()
            if held.unread is not None or held.dialect == KUBELET
        )

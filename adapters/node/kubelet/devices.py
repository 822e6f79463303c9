"""Which cards the pods have that NVIDIA's own device plugin, or Volcano's older one, serves.

Nothing on such a pod says it; the kubelet knows. It is told of pods alone that the ledger cannot
tell, so that nothing is written for any other.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from adapters.node.grants import LedgerGrants
from adapters.node.hardware.model import Hardware
from adapters.node.hook.other_injectors import UUID_PREFIXES
from adapters.node.kubelet.checkpoint import MAX_FILE, CheckpointError, DeviceAssignment, read
from adapters.node.log import log_event
from adapters.wire.hardware import KUBELET, REPORTED, DeviceHolding

INTERVAL = 2.0
"""Seconds between two looks, while there is a pod that the ledger cannot tell."""

_REPLICA = "::"
"""Between a device and its copy's number. NVIDIA k8s-device-plugin internal/rm/devices.go."""


def holdings(
    given: Sequence[DeviceAssignment], hardware: Hardware, pods: Collection[str]
) -> tuple[DeviceHolding, ...]:
    """What some pods hold; nothing of a container whose cards cannot be told.

    What the plugin made visible by name is the truth, then by number, as NVML counts: HAMi's plugin
    and Volcano's have devices of which the kubelet takes any, and give what a scheduler chose.
    Where the plugin hands cards over by other means, they are the kubelet's devices.

    Args:
        given: by the kubelet.
        hardware: of this node.
        pods: uids of those that count.
    """
    cards = _Cards.on(hardware)
    found = ((one, cards.of(one)) for one in given if one.pod in pods and one.resource in REPORTED)
    told = (
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
    return tuple(sorted(told, key=lambda holding: (holding.pod, holding.container)))


@dataclass(frozen=True, slots=True)
class _Cards:
    """The node's cards by all their words; NVML's numbers only where each is one card's."""

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
        """The cards of a container; none where any of them is not known, or in doubt."""
        seen = one.visible
        devices = _all([device.split(_REPLICA)[0] for device in one.devices], self.names)
        if all(word == "void" or word.startswith("/") for word in seen):
            return devices
        if all(word.startswith(UUID_PREFIXES) for word in seen):
            return _all(seen, self.names)
        numbers = _all(seen, self.numbers)
        return numbers if not devices or devices == numbers else set()


def _all(words: Sequence[str], known: Mapping[str, str]) -> set[str]:
    return {known[word] for word in words} if known.keys() >= set(words) else set()


@dataclass(slots=True)
class KubeletDevices:
    """Follows what the kubelet has given.

    Attributes:
        place: the kubelet's file.
        grants: what the ledger says.
        hardware: what is in the node now.
        changed: called when ``found`` is another.
        found: what is to be told; None as long as nobody has looked.
    """

    path: Path
    grants: LedgerGrants
    hardware: Callable[[], Hardware]
    changed: Callable[[], None]
    found: tuple[DeviceHolding, ...] | None = None
    _given: tuple[DeviceAssignment, ...] = ()
    _version: tuple[int, ...] = ()
    _problem: str = field(default="")

    async def run(self) -> None:
        """Look until cancelled, at once when the ledger is another."""
        while True:
            change = self.grants.next_change()
            if self._pods():
                await asyncio.to_thread(self.read)
            self.look()
            with suppress(TimeoutError):
                await asyncio.wait_for(change, INTERVAL)

    def look(self) -> None:
        """Say who holds what; before the ledger is known nobody can."""
        if not self.grants.known:
            return
        found = holdings(self._given, self.hardware(), self._pods())
        if found != self.found:
            self.found = found
            self.changed()

    def _pods(self) -> frozenset[str]:
        """Those that the ledger cannot tell, or could because it was told from here."""
        ledger = self.grants.ledger
        allocations = {} if ledger is None else ledger.allocations
        return frozenset(
            uid
            for uid, held in allocations.items()
            if held.unread is not None or held.dialect == KUBELET
        )

    def read(self) -> None:
        """Read the file where it is another.

        What cannot be read leaves what was known: it is by uid, and a pod keeps its devices.
        """
        problem = ""
        try:
            stat = self.path.stat()
            version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if version != self._version:
                with self.path.open("rb") as file:
                    self._given = read(file.read(MAX_FILE + 1))
                self._version = version
        except (OSError, CheckpointError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            log_event("kubelet_checkpoint.invalid", reason=problem)
        self._problem = problem

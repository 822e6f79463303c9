"""The agent put together: what it is made of, and how it starts and ends."""

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from adapters.node.adjust import Equipment
from adapters.node.agent import Agent
from adapters.node.config import Config, node_name, profiles
from adapters.node.grants import LedgerGrants
from adapters.node.inventory import Hardware, Inventory, InventoryError
from adapters.node.inventory_file import FileInventory
from adapters.node.journal import tell
from adapters.node.ledger_file import LedgerFile
from adapters.node.link import Link
from adapters.node.nri import Runtime
from adapters.node.profiles import Profile
from adapters.node.watchdog import Watchdog

CDI_SINCE = (2, 1)
"""containerd's first version that takes a plugin's CDI devices; older ones drop them silently."""


@dataclass(slots=True)
class Node:
    """What is known of the node while the agent runs.

    Attributes:
        grants: what the ledger says.
        profiles: by vendor.
        hardware: what is in the node; empty where nobody can say, then the ledger is believed.
        cdi: whether the runtime takes CDI devices.
    """

    grants: LedgerGrants
    profiles: Mapping[str, Profile]
    hardware: Hardware = field(default_factory=Hardware)
    cdi: bool = False

    def equipment(self) -> Equipment:
        """The node's hardware as it is now."""
        cards = {card.uuid: card for card in self.hardware.cards} or self.grants.cards()
        return Equipment(
            cards, self.profiles, self.hardware.devices, self.hardware.instances, self.cdi
        )

    def configure(self, runtime: Runtime) -> None:
        """Learn what the runtime can do."""
        self.cdi = takes_cdi(runtime)
        tell("link.configured", runtime=runtime.name, version=runtime.version, cdi=self.cdi)


def takes_cdi(runtime: Runtime) -> bool:
    """Whether CDI devices reach the container; a runtime that is not known is not trusted to."""
    if runtime.name != "containerd":
        return False
    numbers = runtime.version.removeprefix("v").split(".")
    try:
        return (int(numbers[0]), int(numbers[1])) >= CDI_SINCE
    except (ValueError, IndexError):
        return False


async def run(config: Config) -> None:
    """Serve until told to end by SIGTERM or SIGINT."""
    node = Node(LedgerGrants(), profiles(config))
    inventory = _inventory(config)
    node.hardware = _look(inventory, node.hardware)
    agent = Agent(node.grants, node.equipment, frozenset(config.exempt))
    watchdog = Watchdog()
    watchdog.start()
    ledger = LedgerFile(Path(config.ledger.file), node.grants)
    ledger.look()
    link = Link(
        Path(config.socket),
        config.plugin.name,
        config.plugin.index,
        agent,
        watchdog,
        configure=node.configure,
    )
    tell("agent.started", node=node_name(config), cards=len(node.hardware.cards))
    tasks = [asyncio.ensure_future(work) for work in (link.run(), ledger.run())]
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    done, _ = await asyncio.wait(
        [*tasks, waiting := asyncio.ensure_future(ended.wait())],
        return_when=asyncio.FIRST_COMPLETED,
    )
    for task in (*tasks, waiting):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    watchdog.end()
    tell("agent.ended", told=waiting in done)


def _inventory(config: Config) -> Inventory | None:
    match config.inventory.source:
        case "file":
            return FileInventory(Path(config.inventory.file), node_name(config))
        case _:
            return None


def _look(inventory: Inventory | None, before: Hardware) -> Hardware:
    if inventory is None:
        return before
    try:
        return inventory.hardware()
    except InventoryError as error:
        tell("inventory.unread", reason=str(error))
        return before

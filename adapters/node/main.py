"""The agent put together: what it is made of, and how it starts and ends."""

import asyncio
import gc
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from adapters.node.apiserver.credentials import of_kubeconfig, of_pod
from adapters.node.apiserver.events import PodEvents
from adapters.node.apiserver.ledger_file import LedgerFile
from adapters.node.apiserver.ledger_watch import LedgerWatch
from adapters.node.apiserver.status import HardwarePublisher, SharingConfig, desired_status
from adapters.node.config import AgentConfig, node_name, profiles
from adapters.node.grants import LedgerGrants
from adapters.node.hardware.file import FileInventory
from adapters.node.hardware.health import APPLICATION_XIDS, Health
from adapters.node.hardware.mig_partitioner import MigPartitioner
from adapters.node.hardware.model import Hardware, HardwareSource, InventoryError
from adapters.node.hardware.nvidia import NvmlInventory
from adapters.node.hardware.nvml_events import XidListener
from adapters.node.hardware.nvml_mig import NvmlMig
from adapters.node.hook.adjustment import Equipment
from adapters.node.hook.containers import ContainerRegistry
from adapters.node.hook.deadline import Watchdog
from adapters.node.hook.plugin import NriPlugin
from adapters.node.hook.policy import Policy
from adapters.node.hook.profiles import VendorProfile
from adapters.node.hook.reporter import ContainerReporter
from adapters.node.kubelet.devices import KubeletDevices
from adapters.node.log import log_event
from adapters.node.metrics.collect import MetricsCollector
from adapters.node.metrics.server import MetricsServer
from adapters.node.nri.model import RuntimeInfo
from adapters.wire.hardware import NodeHardware
from core.hardware.mig import MigKey

CDI_SINCE = (2, 1)
"""containerd's first version that takes a plugin's CDI devices; older ones drop them silently."""


INTERVAL = 10.0
"""Seconds between two looks at the hardware."""


@dataclass(slots=True)
class NodeAgent:
    """What is known of the node while the agent runs.

    Attributes:
        grants: what the ledger says.
        profiles: by vendor.
        hardware: what is in the node; empty where nobody can say, then the ledger is believed.
        cdi: whether the runtime takes CDI devices.
        inventory: that is asked for the hardware.
        cutter: that makes slices; None where they must be there.
        known: whether the hardware was ever read.
        publisher: told when the hardware is another; None where nobody is told.
        holders: who knows what the kubelet has given; None where it is not asked.
    """

    grants: LedgerGrants
    profiles: Mapping[str, VendorProfile]
    hardware: Hardware = field(default_factory=Hardware)
    cdi: bool = False
    inventory: HardwareSource | None = None
    cutter: MigPartitioner | None = None
    known: bool = False
    publisher: HardwarePublisher | None = None
    holders: KubeletDevices | None = None
    _nudged: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def equipment(self) -> Equipment:
        """The node's hardware as it is now; from any thread."""
        cutter = self.cutter
        # Before the hardware: what is withdrawn is forgotten only when the hardware is read anew.
        withdrawn = frozenset[MigKey]() if cutter is None else cutter.withdrawn
        hardware = self.hardware
        cards = {card.uuid: card for card in hardware.cards} or self.grants.cards()
        there = hardware.instances
        if withdrawn:
            there = {key: slot for key, slot in there.items() if key not in withdrawn}
        return Equipment(
            cards,
            self.profiles,
            hardware.devices,
            there,
            self.cdi,
            creates_instances=cutter is not None,
            failed_instances={} if cutter is None else cutter.failed_instances,
        )

    def caches(self) -> Path | None:
        """The folder in which each container that HAMi-core bounds has a folder."""
        found = (profile.hami for profile in self.profiles.values())
        return next((Path(hami.caches) for hami in found if hami is not None), None)

    async def watch(self) -> None:
        """Look at the hardware again and again until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._nudged.wait(), INTERVAL)
            self._nudged.clear()
            await self.look()

    def nudge(self) -> None:
        """Look at the hardware now."""
        self._nudged.set()

    async def look(self) -> None:
        """Read the hardware anew; what began earlier is never believed later."""
        async with self._looking:
            self.take(await asyncio.to_thread(_look, self.inventory))

    def take(self, found: Hardware | None) -> None:
        """Believe what was found; None where nobody could say."""
        if found is None or (self.known and found == self.hardware):
            return
        if self.known:
            log_event("hardware.changed", cards=len(found.cards))
        self.hardware, self.known = found, True
        if self.publisher is not None:
            self.publisher.wake()

    def told(self, terms: SharingConfig) -> NodeHardware | None:
        """What is told of the node; None as long as nobody could say."""
        holdings = () if self.holders is None else self.holders.found
        known = self.known and holdings is not None
        return desired_status(self.hardware, terms, holdings or ()) if known else None

    def configure(self, runtime: RuntimeInfo) -> None:
        """Learn what the runtime can do."""
        self.cdi = takes_cdi(runtime)
        log_event("nri.configured", runtime=runtime.name, version=runtime.version, cdi=self.cdi)


def takes_cdi(runtime: RuntimeInfo) -> bool:
    """Whether CDI devices reach the container; a runtime that is not known is not trusted to."""
    if runtime.name != "containerd":
        return False
    numbers = runtime.version.removeprefix("v").split(".")
    try:
        return (int(numbers[0]), int(numbers[1])) >= CDI_SINCE
    except (ValueError, IndexError):
        return False


async def run(config: AgentConfig) -> None:
    """Serve until told to end by SIGTERM or SIGINT.

    Raises:
        CredentialsError: the cluster cannot be reached as configured.
        OSError: the metrics' address cannot be used.
    """
    node = NodeAgent(LedgerGrants(), profiles(config))
    inventory = _inventory(config)
    node.inventory = inventory
    node.take(_look(inventory))
    if isinstance(inventory, NvmlInventory):
        _listen(inventory, node)
    if config.mig.cut and isinstance(inventory, NvmlInventory):
        node.cutter = MigPartitioner(
            node.grants,
            NvmlMig(inventory.nvml),
            lambda: node.hardware,
            node.look,
            config.mig.enable,
        )
    agent = Policy(node.grants, node.equipment, frozenset(config.exempt))
    watchdog = Watchdog()
    watchdog.start()
    ledger = _ledger(config, node)
    tenants = ContainerRegistry(node.caches())
    news = ContainerReporter()
    link = NriPlugin(
        Path(config.socket),
        config.plugin.name,
        config.plugin.index,
        agent,
        watchdog,
        news,
        configure=node.configure,
        observe=tenants.observe,
    )
    monitor = MetricsCollector(
        node_name(config),
        tenants,
        lambda: node.hardware,
        dict if inventory is None else inventory.loads,
        news.counters,
        node.grants.lookup,
    )
    work = [link.run(), ledger.run(), node.watch()]
    if node.cutter is not None:
        work.append(node.cutter.run())
    if isinstance(ledger, LedgerWatch):
        events = PodEvents(ledger.credentials, node_name(config))
        news.emit = events.emit
        work.append(events.run())
    if node.publisher is not None:
        work.append(node.publisher.run())
    if node.holders is not None:
        work.append(node.holders.run())
    if config.monitor.listen:
        scrape = MetricsServer(monitor.families, lambda: news.counters.active)
        work.append(scrape.run(config.monitor.listen))
    log_event("agent.started", node=node_name(config), cards=len(node.hardware.cards))
    tasks = [asyncio.ensure_future(each) for each in work]
    gc.collect()
    gc.freeze()  # what was made until now stays: no collection needs to look at it again
    try:
        await _until_told(tasks)
    finally:
        watchdog.stop()
    log_event("agent.ended")


async def _until_told(tasks: Sequence[asyncio.Future[None]]) -> None:
    """Wait for a signal; a task that ends before is a failure of the whole agent."""
    loop = asyncio.get_running_loop()
    told = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _tell_once, told)
    await asyncio.wait([*tasks, told], return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in failed:
        task.result()


def _tell_once(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)


def _ledger(config: AgentConfig, node: NodeAgent) -> LedgerFile | LedgerWatch:
    if config.ledger.file:
        file = LedgerFile(Path(config.ledger.file), node.grants)
        file.look()
        return file
    kubeconfig = config.ledger.kubeconfig
    credentials = of_kubeconfig(Path(kubeconfig)) if kubeconfig else of_pod(os.environ)
    watch = LedgerWatch(credentials, node_name(config), node.grants)
    if config.publish.cards and node.inventory is not None:
        said = config.publish
        terms = SharingConfig(said.dialects, said.slots, said.isolation or None)
        node.publisher = HardwarePublisher(credentials, node_name(config), lambda: node.told(terms))
        watch.on_status = node.publisher.on_status
        if said.checkpoint:
            place, wake = Path(said.checkpoint), node.publisher.wake
            node.holders = KubeletDevices(place, node.grants, lambda: node.hardware, wake)
    return watch


def _inventory(config: AgentConfig) -> HardwareSource | None:
    match config.inventory.source:
        case "file":
            return FileInventory(Path(config.inventory.file), node_name(config))
        case "nvml":
            ignored = APPLICATION_XIDS.union(config.inventory.ignore_xids)
            return NvmlInventory(node_name(config), health=Health(ignored))
        case _:
            return None


def _listen(inventory: NvmlInventory, node: NodeAgent) -> None:
    """Have errors of the cards noted, and the hardware looked at when one counts."""
    loop = asyncio.get_running_loop()

    def heard(uuid: str, xid: int) -> None:
        counts = inventory.health.record_xid(uuid, xid)
        log_event("card.error", card=uuid, xid=xid, counts=counts)
        if counts:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(node.nudge)

    XidListener(inventory.nvml, heard).start()


def _look(inventory: HardwareSource | None) -> Hardware | None:
    if inventory is None:
        return None
    try:
        return inventory.read()
    except InventoryError as error:
        log_event("nvml.read_failed", reason=str(error))
        return None

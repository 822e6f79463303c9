"""Builds the agent from its configuration, and runs it."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.agent.apiserver import reports
from adapters.agent.apiserver.credentials import of_kubeconfig, of_pod
from adapters.agent.apiserver.ledger import LedgerFile, LedgerWatch
from adapters.agent.config import AgentConfig, InventorySource, node_name, profiles
from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.health import APPLICATION_XIDS, Health, XidListener
from adapters.agent.hardware.mig_partitioner import MigPartitioner
from adapters.agent.hardware.model import FileInventory, Hardware, HardwareSource, HardwareWatcher
from adapters.agent.hardware.nvidia import NvmlInventory
from adapters.agent.hardware.nvml_mig import NvmlMigDriver, NvmlMigReader
from adapters.agent.hook.containers import ContainerRegistry, StoppedPods
from adapters.agent.hook.create_container import Watchdog
from adapters.agent.hook.facts import AssignedDevices, none_assigned
from adapters.agent.hook.plugin import NriPlugin
from adapters.agent.hook.policy import Policy
from adapters.agent.hook.reporter import ContainerReporter, EmitEvent, without_cluster
from adapters.agent.injection.adjustment import EquipmentSource
from adapters.agent.injection.cache_dirs import CacheCleaner
from adapters.agent.injection.profiles import cache_root
from adapters.agent.kubelet import KubeletAssignments, KubeletDevices
from adapters.agent.log import log_event
from adapters.agent.metrics.collect import MetricsCollector
from adapters.agent.metrics.server import MetricsServer
from adapters.agent.nri.session import ContainerEvent

Work = list[Coroutine[Any, Any, None]]


def hardware_source(inventory: InventorySource, node: str) -> HardwareSource | None:
    """Return the source of the cards; None where the cards of the ledger are used."""
    match inventory.source:
        case "file":
            return FileInventory(Path(inventory.file), node)
        case "nvml":
            return NvmlInventory(node, health=Health(APPLICATION_XIDS.union(inventory.ignore_xids)))
        case _:
            return None


@dataclass(frozen=True, slots=True)
class LocalCards:
    """The node's cards.

    Attributes:
        source: reads them; None where the configuration names none.
        partitioner: cuts cards into the slices that the ledger grants; None where that is off.
    """

    source: HardwareSource | None
    watcher: HardwareWatcher
    partitioner: MigPartitioner | None

    @classmethod
    def of(cls, config: AgentConfig, node: str, grants: LedgerGrants) -> "LocalCards":
        """Read the cards once, and again when an error makes one unhealthy."""
        source = hardware_source(config.inventory, node)
        watcher = HardwareWatcher(source)
        watcher.read_first()
        if not isinstance(source, NvmlInventory):
            return cls(source, watcher, None)
        loop = asyncio.get_running_loop()

        def on_xid(uuid: str, xid: int) -> None:
            counts = source.health.record_xid(uuid, xid)
            log_event("card.error", card=uuid, xid=xid, counts=counts)
            if counts:
                _call_soon(loop, watcher.nudge)

        XidListener(source.nvml, on_xid).start()
        partitioner = MigPartitioner(
            grants,
            NvmlMigDriver(NvmlMigReader(source.nvml)),
            lambda: watcher.hardware,
            watcher.read,
            config.mig.enable,
        )
        return cls(source, watcher, partitioner if config.mig.cut else None)

    def found(self) -> Hardware:
        """Return what was read last."""
        return self.watcher.hardware


async def run(config: AgentConfig) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        CredentialsError: the credentials for the cluster are invalid.
        OSError: the metrics server cannot use its address.
    """
    node, vendors, grants = node_name(config), profiles(config), LedgerGrants()
    caches = cache_root(vendors)
    hardware = LocalCards.of(config, node, grants)
    devices: KubeletDevices | None = None
    assigned: AssignedDevices = none_assigned
    if config.publish.checkpoint:
        assignments = KubeletAssignments(Path(config.publish.checkpoint))
        assigned = assignments.given
        devices = KubeletDevices(assignments, grants, hardware.found)
    containers, stopped = ContainerRegistry(caches), StoppedPods(grants)

    def observe(event: ContainerEvent) -> None:
        containers.observe(event)
        stopped.observe(event)

    work, emit = _ledger_client(config, node, grants, hardware, devices, stopped)
    reporter, watchdog = ContainerReporter(emit=emit), Watchdog()
    equipment = EquipmentSource(grants, vendors, hardware.found, hardware.partitioner)
    policy = Policy(grants, equipment.equipment, frozenset(config.exempt), assigned)
    plugin = NriPlugin(
        Path(config.socket),
        config.plugin.name,
        config.plugin.index,
        policy,
        watchdog,
        reporter,
        configure=equipment.configure,
        observe=observe,
    )
    work += [plugin.run(), hardware.watcher.run()]
    if hardware.partitioner is not None:
        work.append(hardware.partitioner.run())
    if caches is not None:
        work.append(CacheCleaner(caches).run())
    if config.monitor.listen:
        loads = dict if hardware.source is None else hardware.source.loads
        collector = MetricsCollector(
            node, containers, hardware.found, loads, reporter.counters, grants.lookup
        )
        metrics = MetricsServer(collector.families, lambda: reporter.counters.active)
        work.append((await metrics.start(config.monitor.listen)).serve_forever())
    log_event("agent.started", node=node, cards=len(hardware.found().cards))
    gc.collect()
    gc.freeze()  # everything built until now stays: no collection needs to traverse it again
    watchdog.start()
    try:
        await _supervise(work)
    finally:
        watchdog.stop()
    log_event("agent.ended")


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call on the loop, from another thread; no effect where the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function)


def _ledger_client(
    config: AgentConfig,
    node: str,
    grants: LedgerGrants,
    hardware: LocalCards,
    devices: KubeletDevices | None,
    stopped: StoppedPods,
) -> tuple[Work, EmitEvent]:
    """Return the tasks that follow the ledger and write its status, and what writes Events."""
    if config.ledger.file:
        file = LedgerFile(Path(config.ledger.file), grants)
        file.look()
        return [file.run()], without_cluster
    kubeconfig, settings = config.ledger.kubeconfig, config.publish
    credentials = of_kubeconfig(Path(kubeconfig)) if kubeconfig else of_pod(os.environ)
    events = reports.PodEvents(credentials, node)
    watch = LedgerWatch(credentials, node, grants)
    work: Work = [watch.run(), events.run()]
    if settings.cards and hardware.source is not None:
        mig_cut = hardware.partitioner is not None
        status = reports.NodeStatusSource(
            hardware.watcher,
            reports.SharingConfig(
                settings.dialects, settings.slots, settings.isolation or None, mig_cut
            ),
            tuple if devices is None else lambda: devices.found,
            stopped.confirmed,
        )
        publisher = reports.HardwarePublisher(credentials, node, status.desired)
        watch.on_status = publisher.on_status
        loop = asyncio.get_running_loop()
        hardware.watcher.subscribers.append(publisher.wake)
        stopped.subscribers.append(lambda: _call_soon(loop, publisher.wake))
        work.append(publisher.run())
        if devices is not None:
            devices.subscribers.append(publisher.wake)
            work.append(devices.run())
    return work, events.emit


async def _supervise(work: Work) -> None:
    """Run all tasks until SIGTERM or SIGINT, then cancel them.

    A task that ends before is a failure of the whole agent: its exception is raised.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    signalled = asyncio.ensure_future(stopped.wait())
    everything: list[asyncio.Future[Any]] = [*tasks, signalled]
    await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in tasks if task.done()]
    for each in everything:
        each.cancel()
    await asyncio.gather(*everything, return_exceptions=True)
    for task in failed:
        task.result()

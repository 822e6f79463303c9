"""Builds the agent from its configuration, and runs it."""

import asyncio
import gc
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.agent.apiserver.credentials import of_kubeconfig, of_pod
from adapters.agent.apiserver.events import PodEvents
from adapters.agent.apiserver.ledger_file import LedgerFile
from adapters.agent.apiserver.ledger_watch import LedgerWatch
from adapters.agent.apiserver.status import HardwarePublisher, NodeStatusSource, SharingConfig
from adapters.agent.config import AgentConfig, node_name, profiles
from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.mig_partitioner import MigPartitioner
from adapters.agent.hardware.model import HardwareSource
from adapters.agent.hardware.nvidia import NvmlInventory
from adapters.agent.hardware.nvml_events import XidListener
from adapters.agent.hardware.nvml_mig import NvmlMigReader
from adapters.agent.hardware.nvml_mig_driver import NvmlMigDriver
from adapters.agent.hardware.watcher import HardwareWatcher
from adapters.agent.hardware_source import hardware_source
from adapters.agent.hook.claim_files import ClaimFiles
from adapters.agent.hook.containers import ContainerRegistry
from adapters.agent.hook.deadline import Watchdog
from adapters.agent.hook.facts import none_assigned
from adapters.agent.hook.plugin import NriPlugin
from adapters.agent.hook.policy import Policy
from adapters.agent.hook.reporter import ContainerReporter, EmitEvent, without_cluster
from adapters.agent.hook.stopped_pods import StoppedPods
from adapters.agent.injection.cache_dirs import CacheCleaner
from adapters.agent.injection.equipment import EquipmentSource
from adapters.agent.injection.profiles import cache_root
from adapters.agent.kubelet.assignments import KubeletAssignments
from adapters.agent.kubelet.devices import KubeletDevices
from adapters.agent.log import log_event
from adapters.agent.metrics.collect import MetricsCollector
from adapters.agent.metrics.server import MetricsServer
from adapters.agent.nri.session import ContainerEvent
from adapters.agent.supervisor import supervise

Work = list[Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class LedgerClient:
    """How the agent reaches the ledger.

    Attributes:
        work: the tasks that follow the ledger, and write status and Events.
        emit: writes Events.
    """

    work: Work = field(default_factory=Work)
    emit: EmitEvent = without_cluster


async def run(config: AgentConfig) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        CredentialsError: the credentials for the cluster are invalid.
        OSError: the metrics server cannot use its address.
    """
    name = node_name(config)
    vendors = profiles(config)
    grants = LedgerGrants()

    source = hardware_source(config.inventory, name)
    watcher = HardwareWatcher(source)
    watcher.read_first()
    if isinstance(source, NvmlInventory):
        _start_xid_listener(source, watcher)
    partitioner = _partitioner(config, grants, source, watcher)
    equipment = EquipmentSource(grants, vendors, lambda: watcher.hardware, partitioner)

    stopped = StoppedPods(grants)
    claims = ClaimFiles(Path(config.dra.cdi), grants)
    checkpoint = config.publish.checkpoint
    assignments = KubeletAssignments(Path(checkpoint)) if checkpoint else None
    devices = (
        None
        if assignments is None
        else KubeletDevices(assignments, grants, lambda: watcher.hardware)
    )
    ledger = _ledger_client(
        config, name, grants, watcher, devices, stopped, claims, mig_cut=partitioner is not None
    )
    reporter = ContainerReporter(emit=ledger.emit)
    caches = cache_root(vendors)
    containers = ContainerRegistry(caches)
    watchdog = Watchdog()
    plugin = NriPlugin(
        Path(config.socket),
        config.plugin.name,
        config.plugin.index,
        Policy(
            grants,
            equipment.equipment,
            frozenset(config.exempt),
            none_assigned if assignments is None else assignments.given,
            Path(config.dra.cdi),
        ),
        watchdog,
        reporter,
        configure=equipment.configure,
        observe=lambda event: _observe(event, containers, stopped, claims),
    )
    collector = MetricsCollector(
        name,
        containers,
        lambda: watcher.hardware,
        dict if source is None else source.loads,
        reporter.counters,
        grants.lookup,
    )

    work = [plugin.run(), watcher.run(), *ledger.work]
    if partitioner is not None:
        work.append(partitioner.run())
    if caches is not None:
        work.append(CacheCleaner(caches).run())
    if config.monitor.listen:
        metrics = MetricsServer(collector.families, lambda: reporter.counters.active)
        server = await metrics.start(config.monitor.listen)
        work.append(server.serve_forever())
    log_event("agent.started", node=name, cards=len(watcher.hardware.cards))
    gc.collect()
    gc.freeze()  # everything built until now stays: no collection needs to traverse it again
    watchdog.start()
    try:
        await supervise(work)
    finally:
        watchdog.stop()
    log_event("agent.ended")


def _observe(
    event: ContainerEvent, *followers: ContainerRegistry | StoppedPods | ClaimFiles
) -> None:
    for each in followers:
        each.observe(event)


def _start_xid_listener(inventory: NvmlInventory, watcher: HardwareWatcher) -> None:
    """Record the cards' errors, and read the hardware again when one makes a card unhealthy."""
    loop = asyncio.get_running_loop()

    def on_xid(uuid: str, xid: int) -> None:
        counts = inventory.health.record_xid(uuid, xid)
        log_event("card.error", card=uuid, xid=xid, counts=counts)
        if counts:
            _call_soon(loop, watcher.nudge)

    XidListener(inventory.nvml, on_xid).start()


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call on the loop, from another thread; no effect where the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function)


def _partitioner(
    config: AgentConfig,
    grants: LedgerGrants,
    source: HardwareSource | None,
    watcher: HardwareWatcher,
) -> MigPartitioner | None:
    if not config.mig.cut or not isinstance(source, NvmlInventory):
        return None
    return MigPartitioner(
        grants,
        NvmlMigDriver(NvmlMigReader(source.nvml)),
        lambda: watcher.hardware,
        watcher.read,
        config.mig.enable,
    )


def _ledger_client(
    config: AgentConfig,
    node: str,
    grants: LedgerGrants,
    watcher: HardwareWatcher,
    devices: KubeletDevices | None,
    stopped: StoppedPods,
    claims: ClaimFiles,
    *,
    mig_cut: bool,
) -> LedgerClient:
    if config.ledger.file:
        file = LedgerFile(Path(config.ledger.file), grants)
        file.look()
        return LedgerClient([file.run()])
    kubeconfig = config.ledger.kubeconfig
    credentials = of_kubeconfig(Path(kubeconfig)) if kubeconfig else of_pod(os.environ)
    events = PodEvents(credentials, node)
    if not config.publish.cards or watcher.source is None:
        watch = LedgerWatch(credentials, node, grants)
        return LedgerClient([watch.run(), events.run()], events.emit)
    settings = config.publish
    sharing = SharingConfig(settings.dialects, settings.slots, settings.isolation or None, mig_cut)
    status = NodeStatusSource(
        watcher,
        sharing,
        tuple if devices is None else lambda: devices.found,
        stopped.confirmed,
        claims.deallocated,
    )
    publisher = HardwarePublisher(credentials, node, status.desired)
    loop = asyncio.get_running_loop()
    watcher.subscribers.append(publisher.wake)
    stopped.subscribers.append(lambda: _call_soon(loop, publisher.wake))
    claims.subscribers.append(publisher.wake)
    work = [publisher.run(), claims.run()]
    if devices is not None:
        devices.subscribers.append(publisher.wake)
        work.append(devices.run())
    watch = LedgerWatch(credentials, node, grants, publisher.on_status)
    return LedgerClient([watch.run(), events.run(), *work], events.emit)

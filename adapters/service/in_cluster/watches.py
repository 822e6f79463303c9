"""The watches of the service: each reflector with its handler."""

import math
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from adapters.accounting.claim_cache import ClaimCache
from adapters.accounting.gang_cache import GangCache
from adapters.cluster.api import paths
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import Selection
from adapters.cluster.watch.object_tracker import EventHandler, Identity, ObjectDecoder
from adapters.cluster.watch.reflector import Reflector
from adapters.dialects.allocation_record import MARK
from adapters.service.cluster_state import cluster_cache
from adapters.service.decide.service import Service
from adapters.service.in_cluster import handlers
from adapters.service.in_cluster.agent_metrics import AgentPods
from adapters.service.observe.decision_log import Logger
from adapters.wire.agent_report import LABELS, AgentPod
from adapters.wire.body import PodDecoder
from adapters.wire.dra import DeviceClass, DeviceTaintRule, ListedClaim, ResourceSlice
from adapters.wire.kube import ConfigMap, DeviceObject, KubeNode, Unreadable
from adapters.wire.kube_policy import PodGroupObject, ResourceQuotaObject
from adapters.wire.records.hardware import HardwareRecordError, NodeHardware, decode
from adapters.wire.records.ledger import LedgerObject
from adapters.wire.records.quota import ShareQuotaObject
from core.requests.gang import GangApi, GangRef


class Sync(StrEnum):
    """One thing to wait for; ``/readyz`` shows the value."""

    PODS = "pods"
    NODES = "nodes"
    DEVICES = "devices"
    CLAIMS = "resourceclaims"
    SLICES = "resourceslices"
    CLASSES = "deviceclasses"
    RULES = "devicetaintrules"
    QUOTAS = "quotas"
    RESOURCE_QUOTAS = "resourcequotas"
    POD_GROUPS = "podgroups"
    KOORDINATOR_POD_GROUPS = "podgroups of koord-scheduler"
    PLUGINS_POD_GROUPS = "podgroups of scheduler-plugins"
    VOLCANO_POD_GROUPS = "podgroups of vc-scheduler"
    SCHEDULER_CONFIG = "the schedulers' settings"
    ADOPTION = "adoption of bound pods"
    CERTIFICATE = "the certificate"


GANGS = frozenset((Sync.POD_GROUPS, Sync.KOORDINATOR_POD_GROUPS, Sync.PLUGINS_POD_GROUPS))
"""A pod whose gang is not known yet would be bound alone. vc-scheduler knows its own gangs."""

WATCHED = GANGS | {
    Sync.PODS,
    Sync.NODES,
    Sync.DEVICES,
    Sync.QUOTAS,
    Sync.RESOURCE_QUOTAS,
    Sync.SCHEDULER_CONFIG,
}
"""Complete after the first list of each watch; the reconciler starts then."""

CLAIMS = frozenset((Sync.CLAIMS, Sync.SLICES, Sync.CLASSES, Sync.RULES))
"""What completes after the first list of each watch that ResourceClaims need, if they count."""

GANG_APIS = {
    GangApi.KUBERNETES: (paths.POD_GROUPS, Sync.POD_GROUPS),
    GangApi.KOORDINATOR: (paths.KOORDINATOR_POD_GROUPS, Sync.KOORDINATOR_POD_GROUPS),
    GangApi.SCHEDULER_PLUGINS: (paths.PLUGINS_POD_GROUPS, Sync.PLUGINS_POD_GROUPS),
    GangApi.VOLCANO: (paths.VOLCANO_POD_GROUPS, Sync.VOLCANO_POD_GROUPS),
}


class Watches:
    """Makes reflectors of one API server and logs their errors."""

    def __init__(self, client: KubeClient, log: Logger) -> None:
        self._client = client
        self._log = log
        self._all: dict[str, list[Reflector[Any]]] = {}

    @property
    def kinds(self) -> Collection[str]:
        """The kinds that are watched, by their plural in the API."""
        return self._all.keys()

    def unreadable(self, kind: str) -> int:
        """Return how many objects of a kind cannot be decoded."""
        return sum(each.unreadable for each in self._all[kind])

    def reflector(
        self,
        selection: Selection,
        kind: type[Any] | ObjectDecoder[Any],
        handler: EventHandler[Any],
    ) -> "Reflector[Any]":
        """Return a reflector; it lists nothing before it runs."""

        def failed(error: ClusterError) -> None:
            kind = " ".join(filter(None, (selection.resource.plural, selection.fields)))
            self._log.warning("watch.failed", kind=kind, text=str(error))

        def unreadable(what: Unreadable, problem: str) -> None:
            self._log.warning(
                "watch.object_unreadable",
                kind=selection.resource.plural,
                object=f"{what.namespace}/{what.name}",
                text=problem,
            )

        made = Reflector(
            self._client,
            selection,
            kind,
            handler,
            report=failed,
            report_unreadable=unreadable,
        )
        self._all.setdefault(selection.resource.plural, []).append(made)
        return made

    def cluster(
        self, cache: cluster_cache.ClusterCache, service: Service
    ) -> dict[str, "Reflector[Any]"]:
        """Return the reflectors that fill the cluster cache, by the names of their metrics."""

        def pod_deleted(key: cluster_cache.ObjectKey) -> None:
            service.forget(key.uid)
            cache.drop_pod(key)

        handler = partial(self._handler, service)
        pods = handler(Sync.PODS, cache.put_pod, pod_deleted, cache.put_unreadable_pod)
        nodes = handler(Sync.NODES, cache.put_node, cache.drop_node)
        devices = handler(Sync.DEVICES, cache.put_device, cache.drop_device)
        quotas = handlers.QuotaHandler(
            service.quotas,
            lambda: service.readiness.mark_synced(Sync.QUOTAS),
            lambda name, text: self._log.warning("quota.invalid", object=name, text=text),
        )
        return {
            "pods": self.reflector(Selection(paths.PODS), PodDecoder(MARK), pods),
            "nodes": self.reflector(Selection(paths.NODES), KubeNode, nodes),
            "devices": self.reflector(
                Selection(paths.DEVICES, optional=True), DeviceObject, devices
            ),
            "quotas": self.reflector(
                Selection(paths.SHARE_QUOTAS, optional=True), ShareQuotaObject, quotas
            ),
        }

    def resource_quotas(
        self, service: Service
    ) -> tuple[handlers.ResourceQuotaHandler, Reflector[Any]]:
        """Return the reflector of ResourceQuotas with its handler."""
        handler = handlers.ResourceQuotaHandler(
            service.quotas,
            lambda: service.pod_requests.dialects,
            lambda: service.readiness.mark_synced(Sync.RESOURCE_QUOTAS),
            lambda name, text: self._log.warning("resource_quota.invalid", object=name, text=text),
        )
        return handler, self.reflector(
            Selection(paths.RESOURCE_QUOTAS), ResourceQuotaObject, handler
        )

    def claims(self, cache: ClaimCache, service: Service) -> dict[str, "Reflector[Any]"]:
        """Return the reflectors of ResourceClaims and their devices, by the names of their metrics.

        A cluster without the API ``resource.k8s.io/v1`` has neither.
        """
        handler = partial(self._handler, service)

        def put_claim(claim: ListedClaim) -> None:
            cache.put_claim(claim, listed=reflectors[paths.RESOURCE_CLAIMS.plural].listing)

        claims = handler(
            Sync.CLAIMS,
            put_claim,
            lambda key: cache.drop_claim(f"{key.namespace}/{key.name}"),
            cache.put_unreadable_claim,
        )
        slices = handler(Sync.SLICES, cache.put_slice, lambda key: cache.drop_slice(key.name))
        classes = handler(Sync.CLASSES, cache.put_class, lambda key: cache.drop_class(key.name))
        rules = handler(Sync.RULES, cache.put_rule, lambda key: cache.drop_rule(key.name))
        reflectors = {
            resource.plural: self.reflector(Selection(resource, optional=True), kind, taken)
            for resource, kind, taken in (
                (paths.DEVICE_CLASSES, DeviceClass, classes),
                (paths.DEVICE_TAINT_RULES, DeviceTaintRule, rules),
                (paths.RESOURCE_SLICES, ResourceSlice, slices),
                (paths.RESOURCE_CLAIMS, ListedClaim, claims),
            )
        }
        return reflectors

    def gangs(self, cache: GangCache, service: Service) -> dict[str, "Reflector[Any]"]:
        """Return the reflectors of the objects of gangs, by the names of their metrics.

        A cluster has at most one or two of these APIs.
        """

        def handler(api: GangApi, sync: Sync) -> cluster_cache.ClusterCacheHandler[Any]:
            return self._handler(
                service,
                sync,
                partial(cache.put_group, api),
                lambda key: cache.drop_group(GangRef(api, key.namespace, key.name)),
            )

        return {
            f"podgroups.{resource.group}": self.reflector(
                Selection(resource, optional=True), PodGroupObject, handler(api, sync)
            )
            for api, (resource, sync) in GANG_APIS.items()
        }

    def _handler(
        self,
        service: Service,
        sync: Sync,
        update: cluster_cache.Update[Any],
        delete: cluster_cache.Delete,
        unreadable: Callable[[Unreadable, str], None] | None = None,
    ) -> cluster_cache.ClusterCacheHandler[Any]:
        def synced() -> None:
            service.readiness.mark_synced(sync)

        return cluster_cache.ClusterCacheHandler(update, delete, synced, unreadable)

    def agents(self, pods: AgentPods, namespace: str) -> "Reflector[Any]":
        """Return the reflector of the node agents' pods."""
        labels = ",".join(f"{key}={value}" for key, value in LABELS.items())
        return self.reflector(Selection(paths.PODS, namespace, labels=labels), AgentPod, pods)

    def scheduler_config(
        self, config: handlers.SchedulerConfig, renamed: Mapping[str, str]
    ) -> list["Reflector[Any]"]:
        """Return the reflectors of the schedulers' config maps, one for each name."""
        return [
            self.reflector(
                Selection(paths.CONFIG_MAPS, fields=f"metadata.name={name}"),
                ConfigMap,
                config.handler(name),
            )
            for name in sorted(handlers.config_map_names(renamed))
        ]


@dataclass(eq=False, slots=True)
class LedgerHandler:
    """Hands each NodeLedger to the store, and the agent's report in its status to the cache.

    ``reported`` is called with the name of a node and its agent's report, None where there is none
    any more; ``invalid`` with the node and the problem of a status that cannot be decoded: the
    earlier one counts.
    """

    _store: EventHandler[LedgerObject]
    _reported: Callable[[str, NodeHardware | None], None]
    _invalid: Callable[[str, str], None]

    def on_update(self, thing: LedgerObject) -> None:
        """Hand on an object, and the report in it."""
        node = thing.metadata.name
        try:
            self._reported(node, decode(thing.status, node))
        except HardwareRecordError as error:
            self._invalid(node, str(error))
        self._store.on_update(thing)

    def on_delete(self, what: Identity) -> None:
        """Hand on that an object was deleted."""
        self._reported(what.name, None)
        self._store.on_delete(what)

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        """Hand on an object that cannot be decoded."""
        self._store.on_unreadable(what, problem)

    def on_synced(self) -> None:
        """Hand on that all objects were listed."""
        self._store.on_synced()


@dataclass(eq=False, slots=True)
class ClusterLedgerWatch:
    """The watch of NodeLedgers: the store reads the spec of each, the cache its status."""

    _watches: Watches
    _cache: cluster_cache.ClusterCache
    _log: Logger
    _reflector: Reflector[Any] | None = None

    def follow(self, store: EventHandler[LedgerObject]) -> Coroutine[object, object, None]:
        """Hand all NodeLedgers and their changes to the store, until cancelled."""

        def invalid(node: str, text: str) -> None:
            self._log.warning("agent_status.invalid", node=node, text=text)

        handler = LedgerHandler(store, self._cache.put_hardware, invalid)
        self._reflector = self._watches.reflector(
            Selection(paths.NODE_LEDGERS), LedgerObject, handler
        )
        return self._reflector.run()

    def staleness(self) -> float:
        """Return the seconds since the watch was up to date; infinite before its first list."""
        return math.inf if self._reflector is None else self._reflector.staleness()

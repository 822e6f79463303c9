"""Reads a live cluster as kubectl would reach it. Reads only; nothing is written."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from adapters.cli.input.limits import check_file
from adapters.cli.input.manifests import GANG_APIS, Manifests
from adapters.cli.input.source import InputError, InputLocation
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import load
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.kubeconfig import KubeContext, choose, files_of
from adapters.cluster.api.paths import (
    CONFIG_MAPS,
    DEVICES,
    DISRUPTION_BUDGETS,
    JOBS,
    KOORDINATOR_POD_GROUPS,
    NODE_LEDGERS,
    NODES,
    PLUGINS_POD_GROUPS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    SHARE_QUOTAS,
    VOLCANO_POD_GROUPS,
    Resource,
)
from adapters.cluster.api.transport import Timeouts
from adapters.cluster.objects.lists import list_all
from adapters.cluster.watch.selection import Selection
from adapters.dialects import registry
from adapters.dialects.dialect import Document
from adapters.wire.budget import Budget
from adapters.wire.dra import ResourceClaim, ResourceSlice
from adapters.wire.job import JobObject
from adapters.wire.kube import ConfigMap, DeviceObject, KubeNode, Pod, full_name
from adapters.wire.pod_group import PodGroupObject
from adapters.wire.records.ledger_records import LedgerObject
from adapters.wire.records.quota import ShareQuotaObject
from adapters.wire.resource_quota import ResourceQuotaObject
from core.requests.gang import GangRef

T = TypeVar("T")

_PATIENCE = Timeouts(read=30.0, total=120.0, attempts=3)
"""A person waits: fewer attempts than the service makes, and more time for a page of pods."""

_GROUPS = (POD_GROUPS, KOORDINATOR_POD_GROUPS, PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS)

Progress = Callable[[str, int], None]
"""Called with the plural name of a kind and the number of its objects so far."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The user's choice of a cluster, as kubectl has it.

    Attributes:
        kubeconfig: the only file to read; None for the files that kubectl reads.
        context: of the files; None for the current one.
    """

    kubeconfig: Path | None = None
    context: str | None = None


def context_of(options: ClusterOptions) -> KubeContext:
    """The context that kubectl would use.

    Raises:
        InputError: there is no such context, or a file cannot be read or exceeds a limit.
    """
    for file in files_of(options.kubeconfig, os.environ, Path.home()):
        check_file(file)
    try:
        return choose(options.kubeconfig, options.context, os.environ, Path.home())
    except ClusterError as error:
        raise InputError("kubeconfig", error.message) from error


def call(
    context: KubeContext,
    work: Callable[[KubeClient], Coroutine[None, None, T]],
    patience: Timeouts = _PATIENCE,
) -> T:
    """Connect to a cluster and run some requests.

    Raises:
        InputError: the credentials cannot be used, or a request failed.
    """
    try:
        return asyncio.run(_connected(context, work, patience))
    except ClusterError as error:
        raise InputError(f"cluster {context.name}", str(error)) from error


def read_cluster(context: KubeContext, progress: Progress, *, evictions: bool = False) -> Manifests:
    """Read nodes, Devices, pods, PodGroups, NodeLedgers, quotas and the schedulers' settings.

    Devices, PodGroups, NodeLedgers and ShareQuotas may be unknown to the cluster. Ledgers are read
    before and after the pods: an allocation that was committed in between belongs to a pod that is
    just being bound.

    Args:
        context: of the kubeconfig.
        progress: is called while a list is read.
        evictions: read PodDisruptionBudgets and Jobs too.

    Raises:
        InputError: a list cannot be read.
    """
    return call(context, lambda client: _Reader(client, context, progress).run(evictions=evictions))


async def _connected(
    context: KubeContext, work: Callable[[KubeClient], Coroutine[None, None, T]], patience: Timeouts
) -> T:
    async with KubeClient(load(context.source), patience) as client:
        return await work(client)


class _Reader:
    def __init__(self, client: KubeClient, context: KubeContext, progress: Progress) -> None:
        self._client = client
        self._place = InputLocation(f"cluster {context.name}", 0)
        self._progress = progress

    async def run(self, *, evictions: bool) -> Manifests:
        before = await self._list(Selection(NODE_LEDGERS, optional=True), LedgerObject)
        nodes = await self._list(Selection(NODES), KubeNode)
        devices = await self._list(Selection(DEVICES, optional=True), DeviceObject)
        pods = await self._list(Selection(PODS), Pod)
        groups, ungrouped = await self._gangs()
        slices, claims, problems = await self._claims()
        after = await self._list(Selection(NODE_LEDGERS, optional=True), LedgerObject)
        quotas, unread = await self._quotas(SHARE_QUOTAS, ShareQuotaObject)
        host_quotas, host_unread = await self._quotas(RESOURCE_QUOTAS, ResourceQuotaObject)
        disruptions: list[Budget] = []
        jobs: list[JobObject] = []
        without_jobs: tuple[str, ...] = ()
        if evictions:
            disruptions = await self._list(Selection(DISRUPTION_BUDGETS), Budget)
            jobs, without_jobs = await self._jobs()
        settings = [
            config
            for name in sorted({name for name, _ in registry.documents()})
            for config in await self._settings(f"metadata.name={name}")
        ]
        settings += [
            config
            for label in registry.document_labels()
            for config in await self._settings(labels=label)
            if not {*_documents(config)} <= {name for each in settings for name in _documents(each)}
        ]
        return Manifests(
            nodes=self._placed((each.metadata.name, each) for each in nodes),
            devices=self._placed((each.metadata.name, each) for each in devices),
            pods=self._placed((full_name(each), each) for each in pods),
            config_maps=self._placed(
                (f"{each.metadata.namespace}/{each.metadata.name}", each) for each in settings
            ),
            ledgers=self._placed((each.metadata.name, each) for each in before),
            claims=self._placed(
                (f"{each.metadata.namespace}/{each.metadata.name}", each) for each in claims
            ),
            slices=self._placed((each.metadata.name, each) for each in slices),
            problems=(*problems, *unread, *host_unread, *ungrouped, *without_jobs),
            groups=groups,
            quotas=self._placed((each.metadata.namespace, each) for each in quotas),
            resource_quotas=[(each, self._place) for each in host_quotas],
            budgets=[(each, self._place) for each in disruptions],
            jobs=self._placed(
                (f"{each.metadata.namespace}/{each.metadata.name}", each) for each in jobs
            ),
            newer_ledgers={each.metadata.name: each for each in after},
        )

    async def _claims(self) -> tuple[list[ResourceSlice], list[ResourceClaim], tuple[str, ...]]:
        """Slices and claims; none, and a problem, where the user may not list them."""
        try:
            slices = await self._list(Selection(RESOURCE_SLICES, optional=True), ResourceSlice)
            claims = await self._list(Selection(RESOURCE_CLAIMS, optional=True), ResourceClaim)
        except ClusterError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return [], [], (f"cards that ResourceClaims have do not count: {error.message}",)
        return slices, claims, ()

    async def _gangs(
        self,
    ) -> tuple[dict[GangRef, tuple[PodGroupObject, InputLocation]], tuple[str, ...]]:
        """The objects of all gangs; a problem for each API whose objects the user may not list."""
        found: dict[GangRef, tuple[PodGroupObject, InputLocation]] = {}
        problems: list[str] = []
        for resource in _GROUPS:
            try:
                listed = await self._list(Selection(resource, optional=True), PodGroupObject)
            except ClusterError as error:
                if error.status != HTTPStatus.FORBIDDEN:
                    raise
                text = f"gangs of {resource.group} are not known: {error.message}"
                problems.append(text)
                continue
            for group in listed:
                meta = group.metadata
                ref = GangRef(GANG_APIS[resource.group], meta.namespace, meta.name)
                found[ref] = group, self._place
        return found, tuple(problems)

    async def _jobs(self) -> tuple[list[JobObject], tuple[str, ...]]:
        """All Jobs; none, and a problem, where the user may not list them."""
        try:
            return await self._list(Selection(JOBS), JobObject), ()
        except ClusterError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return [], (f"pods of Jobs are not moved: {error.message}",)

    async def _quotas(self, of: Resource, kind: type[T]) -> tuple[list[T], tuple[str, ...]]:
        """All quotas of a kind; none, and a problem, where the user may not list them."""
        try:
            return await self._list(Selection(of, optional=True), kind), ()
        except ClusterError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return [], (f"{of.plural} do not limit what is placed: {error.message}",)

    async def _list(self, selection: Selection, kind: type[T]) -> list[T]:
        plural = selection.resource.plural
        try:
            return await list_all(
                self._client, selection, kind, listed=lambda count: self._progress(plural, count)
            )
        except ClusterError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                raise _forbidden(selection.resource, error) from error
            raise

    async def _settings(self, fields: str = "", labels: str = "") -> Sequence[ConfigMap]:
        """The ConfigMap of a scheduler; where several namespaces have it, the first by name."""
        selection = Selection(CONFIG_MAPS, fields=fields, labels=labels)
        found = await self._list(selection, ConfigMap)
        return sorted(found, key=lambda each: each.metadata.namespace)[:1]

    def _placed(self, objects: Iterable[tuple[str, T]]) -> dict[str, tuple[T, InputLocation]]:
        return {name: (each, self._place) for name, each in objects}


def _documents(config: ConfigMap) -> list[Document]:
    """The settings files that a ConfigMap has."""
    found = (registry.document_of(config, key) for key in sorted(config.data or {}))
    return [document for document in found if document is not None]


def _forbidden(resource: Resource, error: ClusterError) -> ClusterError:
    scope = "in all namespaces" if resource.namespaced else "of the cluster"
    return ClusterError(
        error.status,
        error.reason,
        f"must list {resource.plural} {scope}, because pods of all namespaces share cards:"
        f" {error.message}",
    )

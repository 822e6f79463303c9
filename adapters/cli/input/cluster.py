"""Reads a live cluster as kubectl would reach it. Reads only; nothing is written.

The metrics of node agents come through the API server, which forwards a request to a pod's first
port (pkg/registry/core/pod/strategy.go). Events are kept by the cluster, one hour by default, so
that they outlive every replica of the service.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from adapters.cli.input.document import check_file
from adapters.cli.input.manifests import GANG_APIS, Manifests
from adapters.cli.input.source import InputError, InputLocation
from adapters.cli.output.terminal import first_names
from adapters.cluster.api import paths
from adapters.cluster.api.client import KubeClient, list_all
from adapters.cluster.api.credentials import KubeContext, choose, files_of, load
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import Resource, Selection
from adapters.cluster.api.transport import Timeouts
from adapters.dialects import registry
from adapters.dialects.dialect import Document
from adapters.wire.agent_report import LABELS, AgentReports, NodeReport, parse
from adapters.wire.dra import DeviceClass, DeviceTaintRule, ListedClaim, ResourceSlice
from adapters.wire.kube import ConfigMap, DeviceObject, KubeNode, Metadata, Pod, Wire, full_name
from adapters.wire.kube_policy import Budget, JobObject, PodGroupObject, ResourceQuotaObject
from adapters.wire.records.ledger import LedgerObject
from adapters.wire.records.quota import ShareQuotaObject
from core.requests.gang import GangRef

T = TypeVar("T")

PATIENCE = Timeouts(read=30.0, total=120.0, attempts=3)
"""A person waits: fewer attempts than the service makes, and more time for a page of pods."""

_GROUPS = (
    paths.POD_GROUPS,
    paths.KOORDINATOR_POD_GROUPS,
    paths.PLUGINS_POD_GROUPS,
    paths.VOLCANO_POD_GROUPS,
)

PATIENCE_WITH_AGENTS = Timeouts(read=10.0, total=10.0, attempts=1)
"""One try: what an agent reports is worth no long wait."""

_AT_ONCE = 16
"""Agents that are asked at the same time."""

_NAMED = 3
"""Nodes that a sentence names."""

_EVENTS = Resource("", "v1", "events")

Progress = Callable[[str, int], None]
"""Called with the plural name of a kind and the number of its objects so far."""


class _Series(Wire, frozen=True, gc=False):
    count: int = 0
    last_observed_time: str | None = None


class _Source(Wire, frozen=True, gc=False):
    component: str | None = None


class _Event(Wire, frozen=True, gc=False):
    # Source: k8s.io/api/core/v1/types.go, Event.
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None
    reporting_component: str | None = None
    source: _Source = _Source()


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One Event.

    Attributes:
        time: when it was last seen, RFC 3339; empty where nothing says so.
        count: how often it was seen.
        reason: in one word.
        component: what reported it.
        message: as it was written.
    """

    time: str
    count: int
    reason: str
    component: str
    message: str


def context_of(kubeconfig: Path | None, context: str | None) -> KubeContext:
    """Return the context that kubectl would use, of the choices of ``Origin``.

    Raises:
        InputError: there is no such context, or a file cannot be read or exceeds a limit.
    """
    for file in files_of(kubeconfig, os.environ, Path.home()):
        check_file(file)
    try:
        return choose(kubeconfig, context, os.environ, Path.home())
    except ClusterError as error:
        raise InputError("kubeconfig", error.message) from error


def call(
    context: KubeContext,
    work: Callable[[KubeClient], Coroutine[None, None, T]],
    patience: Timeouts = PATIENCE,
) -> T:
    """Connect to a cluster and run some requests.

    Raises:
        InputError: the credentials cannot be used, or a request failed.
    """

    async def connected() -> T:
        async with KubeClient(load(context.source), patience) as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except ClusterError as error:
        raise InputError(f"cluster {context.name}", str(error)) from error


def read_cluster(context: KubeContext, progress: Progress, *, evictions: bool = False) -> Manifests:
    """Read nodes, Devices, pods, PodGroups, NodeLedgers, quotas and the schedulers' settings.

    Devices, PodGroups, NodeLedgers and ShareQuotas may be unknown to the cluster. Ledgers are read
    before and after the pods: an allocation that was committed in between belongs to a pod that is
    just being bound.

    For ``evictions`` PodDisruptionBudgets and Jobs are read too.

    Raises:
        InputError: a list cannot be read.
    """
    return call(context, lambda client: _Reader(client, context, progress).run(evictions=evictions))


class _Reader:
    def __init__(self, client: KubeClient, context: KubeContext, progress: Progress) -> None:
        self._client = client
        self._place = InputLocation(f"cluster {context.name}", 0)
        self._progress = progress
        self._problems: list[str] = []

    async def run(self, *, evictions: bool) -> Manifests:
        """Read all lists, one after the other; see ``read_cluster``."""
        before = await self._list(Selection(paths.NODE_LEDGERS, optional=True), LedgerObject)
        nodes = await self._list(Selection(paths.NODES), KubeNode)
        devices = await self._list(Selection(paths.DEVICES, optional=True), DeviceObject)
        pods = await self._list(Selection(paths.PODS), Pod)
        slices: list[ResourceSlice] = []
        claims: list[ListedClaim] = []
        with self._permitted("cards that ResourceClaims have do not count"):
            published = await self._list(
                Selection(paths.RESOURCE_SLICES, optional=True), ResourceSlice
            )
            claims = await self._list(Selection(paths.RESOURCE_CLAIMS, optional=True), ListedClaim)
            slices = published
        classes = await self._optional(paths.DEVICE_CLASSES, DeviceClass, "{} are not known")
        unknown = "cards that {} close are not known"
        rules = await self._optional(paths.DEVICE_TAINT_RULES, DeviceTaintRule, unknown)
        after = await self._list(Selection(paths.NODE_LEDGERS, optional=True), LedgerObject)
        limits = "{} do not limit what is placed"
        quotas = await self._optional(paths.SHARE_QUOTAS, ShareQuotaObject, limits)
        host_quotas = await self._optional(paths.RESOURCE_QUOTAS, ResourceQuotaObject, limits)
        groups: dict[GangRef, tuple[PodGroupObject, InputLocation]] = {}
        for resource in _GROUPS:
            api, unknown = GANG_APIS[resource.group], f"gangs of {resource.group} are not known"
            for each in await self._optional(resource, PodGroupObject, unknown):
                ref = GangRef(api, each.metadata.namespace, each.metadata.name)
                groups[ref] = each, self._place
        disruptions: list[Budget] = []
        jobs: list[JobObject] = []
        if evictions:
            disruptions = await self._list(Selection(paths.DISRUPTION_BUDGETS), Budget)
            with self._permitted("pods of Jobs are not moved"):
                jobs = await self._list(Selection(paths.JOBS), JobObject)
        settings = await self._settings()
        return Manifests(
            nodes=self._placed((each.metadata.name, each) for each in nodes),
            devices=self._placed((each.metadata.name, each) for each in devices),
            pods=self._placed((full_name(each), each) for each in pods),
            config_maps=self._placed((_full_name(each.metadata), each) for each in settings),
            ledgers=self._placed((each.metadata.name, each) for each in before),
            claims=self._placed((_full_name(each.metadata), each) for each in claims),
            classes=self._placed((each.metadata.name, each) for each in classes),
            slices=self._placed((each.metadata.name, each) for each in slices),
            rules=self._placed((each.metadata.name, each) for each in rules),
            problems=tuple(self._problems),
            groups=groups,
            quotas=self._placed((each.metadata.namespace, each) for each in quotas),
            resource_quotas=[(each, self._place) for each in host_quotas],
            budgets=[(each, self._place) for each in disruptions],
            jobs=self._placed((_full_name(each.metadata), each) for each in jobs),
            newer_ledgers={each.metadata.name: each for each in after},
        )

    async def _optional(self, resource: Resource, kind: type[T], without: str) -> list[T]:
        """Read what the cluster may not know, and the user may not be allowed to list."""
        with self._permitted(without.format(resource.plural)):
            return await self._list(Selection(resource, optional=True), kind)
        return []

    @contextmanager
    def _permitted(self, without: str) -> Iterator[None]:
        """Note a problem where the user may not list something that a run can do without."""
        try:
            yield
        except ClusterError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            self._problems.append(f"{without}: {error.message}")

    async def _settings(self) -> list[ConfigMap]:
        """Read the ConfigMaps of the schedulers, by name, then by label those of other files."""

        async def first(fields: str = "", labels: str = "") -> list[ConfigMap]:
            """Read one; where several namespaces have it, the first by name."""
            selection = Selection(paths.CONFIG_MAPS, fields=fields, labels=labels)
            found = await self._list(selection, ConfigMap)
            return sorted(found, key=lambda each: each.metadata.namespace)[:1]

        settings: list[ConfigMap] = []
        for name in sorted({name for name, _ in registry.documents()}):
            settings += await first(fields=f"metadata.name={name}")
        known = {document for each in settings for document in _documents(each)}
        for label in registry.document_labels():
            for config in await first(labels=label):
                if not {*_documents(config)} <= known:
                    settings.append(config)
        return settings

    async def _list(self, selection: Selection, kind: type[T]) -> list[T]:
        plural = selection.resource.plural
        try:
            return await list_all(
                self._client, selection, kind, listed=lambda count: self._progress(plural, count)
            )
        except ClusterError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            scope = "in all namespaces" if selection.resource.namespaced else "of the cluster"
            why = f"must list {plural} {scope}, because pods of all namespaces share cards"
            message = f"{why}: {error.message}"
            raise ClusterError(error.status, error.reason, message) from error

    def _placed(self, objects: Iterable[tuple[str, T]]) -> dict[str, tuple[T, InputLocation]]:
        return {name: (each, self._place) for name, each in objects}


def _documents(config: ConfigMap) -> list[Document]:
    """Return the settings files that a ConfigMap has."""
    found = (registry.document_of(config, key) for key in sorted(config.data or {}))
    return [document for document in found if document is not None]


def _full_name(metadata: Metadata) -> str:
    return f"{metadata.namespace}/{metadata.name}"


def agent_pods(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return the running pods with the labels of the chart's agents, by node."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        node, labels = pod.spec.node_name, pod.metadata.labels or {}
        if node and pod.status.phase == "Running" and LABELS.items() <= labels.items():
            found.setdefault(node, []).append(pod)
    return found


async def read_agents(client: KubeClient, agents: Mapping[str, list[Pod]]) -> AgentReports:
    """Read the metrics of the agents, a few at a time; never fails.

    Anyone may give a pod these labels: where two pods of a node have them, none is read.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def read(pods: list[Pod]) -> NodeReport | str:
        if len(pods) > 1:
            names = " and ".join(map(full_name, pods))
            return f"{names} both have the labels of its agent"
        meta, node = pods[0].metadata, pods[0].spec.node_name or ""
        try:
            async with turns:
                text = await client.get(paths.PODS.path(meta.name, meta.namespace, "proxy/metrics"))
            return parse(text.decode(), node)
        except ClusterError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                return f"get on pods/proxy in namespace {meta.namespace} is forbidden"
            return f"{error.status or error.reason}: {error.message.replace(meta.name, 'POD')}"
        except ValueError as error:
            return f"its metrics cannot be read: {error}"

    answers = await asyncio.gather(*map(read, agents.values()))
    found: dict[str, NodeReport] = {}
    problems: dict[str, list[str]] = {}
    for node, answer in zip(agents, answers, strict=True):
        if isinstance(answer, str):
            problems.setdefault(answer, []).append(node)
        else:
            found[node] = answer
    unread: list[str] = []
    for problem, nodes in problems.items():
        names = first_names(sorted(nodes), _NAMED)
        plural = "s" if len(nodes) > 1 else ""
        unread.append(f"cannot read the agent{plural} of node{plural} {names}: {problem}")
    return AgentReports(found, tuple(unread))


async def pod_events(client: KubeClient, namespace: str, uid: str) -> Sequence[PodEvent]:
    """Read the Events of a pod, oldest first; none where the user may not list Events.

    Raises:
        ClusterError: the server did not answer.
    """
    selection = Selection(_EVENTS, namespace=namespace, fields=f"involvedObject.uid={uid}")
    try:
        found = await list_all(client, selection, _Event)
    except ClusterError as error:
        if error.status in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
            return ()
        raise
    events: list[PodEvent] = []
    for each in found:
        series = each.series or _Series()
        events.append(
            PodEvent(
                time=series.last_observed_time or each.last_timestamp or each.event_time or "",
                count=max(series.count, each.count or 1),
                reason=each.reason or "",
                component=each.reporting_component or each.source.component or "",
                message=" ".join((each.message or "").split()),
            )
        )
    return sorted(events, key=lambda each: each.time)

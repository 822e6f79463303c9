"""``dragoman doctor``: all requests, and all checks of what was read.

The requests read, or ask the API server to try something without doing it.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

from adapters.cli.doctor import card_givers, cluster, objects, schedulers, service, webhooks
from adapters.cli.doctor.finding import CheckResult, FindingLevel
from adapters.cli.doctor.objects import NetworkPolicy
from adapters.cli.doctor.observed import (
    Account,
    HttpAnswer,
    Installation,
    Observed,
    Permission,
    scheduler_pods,
)
from adapters.cluster.api import paths
from adapters.cluster.api.client import KubeClient, list_all
from adapters.cluster.api.error import ClusterError, read
from adapters.cluster.api.paths import Resource, Selection, segment
from adapters.cluster.objects.access import ACCESS, REVIEW
from adapters.cluster.objects.certificates import SecretClient
from adapters.dialects import registry
from adapters.wire.api import TypeMeta
from adapters.wire.decode.decoder import Decoder
from adapters.wire.kube import ConfigMap, DeviceObject

T = TypeVar("T")

_NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
_SERVICES = Resource("", "v1", "services")
_DEPLOYMENTS = Resource("apps", "v1", "deployments")
_DAEMON_SETS = Resource("apps", "v1", "daemonsets")
_NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
_DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)

_NO_ANSWER = frozenset({"Unreachable", "Silent", "Broken"})

_TRIED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "dragoman-doctor"},
    "spec": {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "main",
                "image": "dragoman.invalid/doctor",
                "resources": {
                    "limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1"}
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    },
}


CHECKS: tuple[Callable[[Observed], Iterator[CheckResult]], ...] = (
    cluster.check_api_server,
    service.check_service,
    schedulers.check_schedulers,
    webhooks.check_webhooks,
    webhooks.check_resources,
    service.check_device_configuration,
    webhooks.check_certificates,
    cluster.check_permissions,
    card_givers.check_agents,
    card_givers.check_components,
    card_givers.check_device_plugins,
    cluster.check_claims,
    cluster.check_claim_schedulers,
)


async def observe(client: KubeClient) -> Observed:
    """Read a cluster.

    What the user may not read is noted in ``unreadable``; the checks then say what they lack.

    Raises:
        ClusterError: the API server does not answer, or does not know the user.
    """
    reader = _Reader(client, Observed(int(time.time())))
    await reader.read_lists()
    await reader.read_details()
    return reader.seen


@dataclass(frozen=True, slots=True)
class _Reader:
    _client: KubeClient
    seen: Observed

    async def read_lists(self) -> None:
        """Read what does not depend on an installation."""
        seen = self.seen
        decoder = Decoder(objects.Version)
        seen.version = read(decoder, await self._client.get("/version")).git_version
        seen.pods = await self._list(paths.PODS, objects.ProgramPod)
        seen.nodes = await self._list(paths.NODES, objects.ProgramNode)
        seen.namespaces = await self._list(_NAMESPACES, TypeMeta)
        seen.services = await self._list(_SERVICES, objects.KubeService)
        seen.deployments = await self._list(_DEPLOYMENTS, objects.ProgramController)
        seen.daemon_sets = await self._list(_DAEMON_SETS, objects.ProgramController)
        seen.webhooks = await self._list(paths.MUTATING_WEBHOOKS, objects.WebhookConfiguration)
        seen.network_policies = await self._list(_NETWORK_POLICIES, NetworkPolicy)
        seen.ledgers = await self._list(paths.NODE_LEDGERS, objects.LedgerState)
        seen.devices = await self._list(paths.DEVICES, DeviceObject)
        for name in sorted({name for name, _ in registry.documents()}):
            selection = Selection(paths.CONFIG_MAPS, fields=f"metadata.name={name}")
            seen.settings += await self._selected(selection, ConfigMap)
        for label in registry.document_labels():
            selection = Selection(paths.CONFIG_MAPS, labels=label)
            seen.labelled += await self._selected(selection, ConfigMap)
        path = _DEFINITIONS.path("nodeledgers.dragoman.dev")
        body = await self._unless_refused("customresourcedefinitions", self._client.find(path))
        seen.definition = read(Decoder(objects.Definition), body) if body else None

    async def read_details(self) -> None:
        """Read what belongs to installations and schedulers."""
        seen = self.seen
        wanted = {
            (found.pod.metadata.namespace, found.source.config_map)
            for found in scheduler_pods(seen.pods)
            if found.source is not None
        }
        wanted |= {(release.namespace, release.name) for release in seen.releases()}
        wanted |= {(each.metadata.namespace, each.metadata.name) for each in seen.agents()}
        places = sorted(wanted)
        finding = (self._client.find(paths.CONFIG_MAPS.path(name, space)) for space, name in places)
        bodies = await asyncio.gather(*(self._unless_refused("configmaps", w) for w in finding))
        for place, body in zip(places, bodies, strict=True):
            if body is not None:
                seen.config_maps[place] = read(Decoder(ConfigMap), body)
        await asyncio.gather(*(self._release(release) for release in seen.releases()))
        if seen.reads_claims:
            # the server answers 404 where it does not serve their API
            listing = self._client.find(paths.DEVICE_CLASSES.collection())
            body = await self._unless_refused(paths.DEVICE_CLASSES.plural, listing)
            if body is not None:
                seen.device_classes = read(Decoder(objects.DeviceClassList), body).items
        asked = {*cluster.needed(seen), *cluster.needed_for_claims(seen)}
        await asyncio.gather(*(self._review(*each) for each in sorted(asked)))

    async def _list(self, resource: Resource, kind: type[T]) -> tuple[T, ...]:
        return await self._selected(Selection(resource, optional=True), kind)

    async def _selected(self, selection: Selection, kind: type[T]) -> tuple[T, ...]:
        listing = list_all(self._client, selection, kind)
        return tuple(await self._unless_refused(selection.resource.plural, listing) or ())

    async def _unless_refused(self, kind: str, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            return await work
        except ClusterError as error:
            if error.status == HTTPStatus.UNAUTHORIZED or error.reason in _NO_ANSWER:
                raise
            self.seen.unreadable[kind] = error.message
            return None

    async def _release(self, release: Installation) -> None:
        seen, place = self.seen, f"/api/v1/namespaces/{segment(release.namespace)}"
        ready = self._client.get(f"{place}/services/http:{segment(release.name)}:http/proxy/readyz")
        seen.ready[str(release)] = await _answer(ready)
        tried = self._client.create(paths.PODS.collection("default"), _TRIED, {"dryRun": "All"})
        seen.admitted[str(release)] = await _answer(tried)
        if release.secret:
            reading = SecretClient(self._client).get(release.namespace, release.secret)
            secret = await self._unless_refused("secrets", reading)
            if secret is not None:
                seen.secrets[release.namespace, release.secret] = secret.data

    async def _review(self, account: Account, permission: Permission) -> None:
        plural, _, part = permission.resource.partition("/")
        attributes = {
            "verb": permission.verb, "group": permission.group, "resource": plural,
            "subresource": part, "name": permission.name, "namespace": permission.namespace,
        }  # fmt: skip
        user = f"system:serviceaccount:{account.namespace}:{account.name}"
        # kubernetes staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go
        accounts = "system:serviceaccounts"
        groups = ["system:authenticated", accounts, f"{accounts}:{account.namespace}"]
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
        }
        asking = self._client.create(ACCESS.collection(), body)
        answer = await self._unless_refused(ACCESS.plural, asking)
        if answer is not None:
            review = read(REVIEW, answer)
            self.seen.reviews[account, permission] = review.status.allowed


async def _answer(work: Coroutine[Any, Any, bytes]) -> HttpAnswer:
    try:
        return HttpAnswer(HTTPStatus.OK, (await work).decode(errors="replace"))
    except ClusterError as error:
        return HttpAnswer(error.status, error.message)


def examine(seen: Observed) -> list[CheckResult]:
    """Return the findings of all checks, in the order in which a reader needs them."""
    return [finding for check in CHECKS for finding in check(seen)]


def exit_status(findings: list[CheckResult]) -> int:
    """0 where every finding is ``OK``, else 1."""
    return int(any(each.level is not FindingLevel.OK for each in findings))

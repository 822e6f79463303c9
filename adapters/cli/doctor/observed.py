"""What was read of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from adapters.cli.doctor import objects, programs
from adapters.cli.doctor.network_policies import NetworkPolicy
from adapters.cli.input.document import load_yaml
from adapters.cli.input.source import InputError, InputLocation
from adapters.wire.agent_pod import COMPONENT
from adapters.wire.dra import DeviceClass
from adapters.wire.kube import ConfigMap, DeviceObject

SERVICE, AGENT = "service", "node"
"""Components of the chart, by its label."""

_COMPONENT = "app.kubernetes.io/component"
_NAME = "app.kubernetes.io/name"
NAME = "dragoman"


class HttpAnswer(NamedTuple):
    """An answer over HTTP: the status, 0 for none, and the text."""

    status: int
    text: str


class Permission(NamedTuple):
    """An action that an account must be allowed.

    Attributes:
        verb: such as ``list``.
        group: of the API; empty for the core group.
        resource: plural; with its subresource behind a slash.
        name: of the only object; empty for all.
        namespace: the only one; empty for all.
    """

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f" {self.name}" if self.name else ""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{name}{place}"


class Account(NamedTuple):
    """A service account."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of the service by the chart.

    Attributes:
        namespace: of the service.
        name: of its objects.
        settings: of the service; empty where they cannot be read.
        secret: name of the Secret with its certificate; empty for none.
    """

    namespace: str
    name: str
    settings: Mapping[str, object]
    secret: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class Observed:
    """A cluster at one moment, as far as it could be read.

    Attributes:
        now: seconds since 1970.
        unreadable: kinds that could not be read, with the error.
        version: the API server's.
        definition: the CustomResourceDefinition of NodeLedger; None where there is none.
        device_classes: of ResourceClaims; None where the API server does not serve them, or no
            installation reads claims.
        settings: the ConfigMaps in which schedulers and device plugins may rename resources.
        labelled: the ConfigMaps, of any name, with a label of such a file.
        secrets: the installations' Secrets, by namespace and name: the entries that are text.
        ready: by full name of a release, what ``/readyz`` answered through the API server.
        admitted: by release, what the API server answered to a dry run of a pod.
        reviews: by account and permission, whether it is allowed.
    """

    now: int
    version: str = ""
    unreadable: dict[str, str] = field(default_factory=dict)
    pods: tuple[programs.ProgramPod, ...] = ()
    nodes: tuple[objects.ProgramNode, ...] = ()
    namespaces: tuple[objects.Named, ...] = ()
    services: tuple[objects.KubeService, ...] = ()
    deployments: tuple[programs.Workload, ...] = ()
    daemon_sets: tuple[programs.Workload, ...] = ()
    webhooks: tuple[objects.WebhookConfiguration, ...] = ()
    network_policies: tuple[NetworkPolicy, ...] = ()
    ledgers: tuple[objects.LedgerState, ...] = ()
    devices: tuple[DeviceObject, ...] = ()
    definition: objects.Definition | None = None
    device_classes: tuple[DeviceClass, ...] | None = None
    settings: tuple[ConfigMap, ...] = ()
    labelled: tuple[ConfigMap, ...] = ()
    config_maps: dict[tuple[str, str], ConfigMap] = field(default_factory=dict)
    secrets: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    ready: dict[str, HttpAnswer] = field(default_factory=dict)
    admitted: dict[str, HttpAnswer] = field(default_factory=dict)
    reviews: dict[tuple[Account, Permission], bool] = field(default_factory=dict)

    def releases(self) -> list[Installation]:
        """Installations of the service."""
        return [self._release(each) for each in self.deployments if _is(each, SERVICE)]

    def agents(self) -> list[programs.Workload]:
        """DaemonSets of the node agent."""
        return [each for each in self.daemon_sets if _is(each, AGENT)]

    def exempt(self) -> frozenset[str] | None:
        """Namespaces in which the agents hide no card; None where that is not known."""
        found = [
            content.get("exempt")
            for each in self.agents()
            if (content := self._agent_settings(each.metadata.namespace, each.metadata.name))
        ]
        named = [frozenset(map(str, each)) for each in found if isinstance(each, list)]
        return frozenset.intersection(*named) if named else None

    def _agent_settings(self, namespace: str, name: str) -> Mapping[str, object]:
        return _settings(self.config_maps.get((namespace, name)), "node.yaml")

    def _release(self, deployment: programs.Workload) -> Installation:
        meta = deployment.metadata
        found = self.config_maps.get((meta.namespace, meta.name))
        settings = _settings(found, "sidecar.yaml")
        tls = settings.get("tls")
        managed = tls.get("managed") if isinstance(tls, dict) else None
        secret = managed.get("secret") if isinstance(managed, dict) else None
        mounted = (each.secret for each in deployment.spec.template.spec.volumes or ())
        names = (each.secret_name for each in mounted if each is not None)
        return Installation(
            meta.namespace, meta.name, settings, str(secret) if secret else next(names, "")
        )


def _is(workload: programs.Workload, component: str) -> bool:
    found = objects.labels(workload)
    if COMPONENT in found:
        return found[COMPONENT] == component
    runs = {each.image_name for each in workload.spec.template.spec.containers}
    ours = found.get(_NAME) == NAME or any(name.startswith(NAME) for name in runs)
    return ours and found.get(_COMPONENT) == component


def _settings(found: ConfigMap | None, key: str) -> Mapping[str, object]:
    try:
        text = ((found and found.data) or {}).get(key, "")
        content = load_yaml(text, lambda line: InputLocation(key, line))
    except InputError:
        return {}
    return content if isinstance(content, dict) else {}

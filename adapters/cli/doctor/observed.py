"""What was read of a cluster, and what it has: installations, schedulers, nodes with cards."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from msgspec import Raw

from adapters.cli.configure.options import Scheduler
from adapters.cli.doctor import objects
from adapters.cli.input.document import load_yaml
from adapters.cli.input.source import InputError, InputLocation
from adapters.dialects import registry
from adapters.dialects.dialect import Defaults
from adapters.dialects.merge import read_node
from adapters.wire.agent_report import COMPONENT
from adapters.wire.api import TypeMeta
from adapters.wire.dra import DeviceClass
from adapters.wire.kube import ConfigMap, DeviceObject
from adapters.wire.records import hardware
from adapters.wire.records.hardware import HardwareRecordError, NodeHardware
from core.hardware.node import Node

SERVICE, AGENT = "service", "node"
"""Components of the chart, by its label."""

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

    @property
    def reads_claims(self) -> bool:
        """Whether it reads ResourceClaims."""
        return bool(self.below("dra", "claims"))

    @property
    def evicts(self) -> bool:
        """Whether the service evicts pods of lower priority for others."""
        return bool(self.below("preemption", "enabled"))

    def below(self, section: str, name: str) -> object:
        """Return a setting of a section; None where it is not stated."""
        found = self.settings.get(section)
        return found.get(name) if isinstance(found, Mapping) else None

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
    pods: tuple[objects.ProgramPod, ...] = ()
    nodes: tuple[objects.ProgramNode, ...] = ()
    namespaces: tuple[TypeMeta, ...] = ()
    services: tuple[objects.KubeService, ...] = ()
    deployments: tuple[objects.ProgramController, ...] = ()
    daemon_sets: tuple[objects.ProgramController, ...] = ()
    webhooks: tuple[objects.WebhookConfiguration, ...] = ()
    network_policies: tuple[objects.NetworkPolicy, ...] = ()
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

    @property
    def reads_claims(self) -> bool:
        """Whether an installation reads ResourceClaims."""
        return any(each.reads_claims for each in self.releases())

    def agents(self) -> list[objects.ProgramController]:
        """DaemonSets of the node agent."""
        return [each for each in self.daemon_sets if _is(each, AGENT)]

    def exempt(self) -> frozenset[str] | None:
        """Namespaces in which the agents hide no card; None where that is not known."""
        places = [(each.metadata.namespace, each.metadata.name) for each in self.agents()]
        files = [settings_of(self.config_maps.get(place), "node.yaml") for place in places]
        found = [file.get("exempt") for file in files]
        named = [frozenset(map(str, each)) for each in found if isinstance(each, list)]
        return frozenset.intersection(*named) if named else None

    def _release(self, deployment: objects.ProgramController) -> Installation:
        meta = deployment.metadata
        found = self.config_maps.get((meta.namespace, meta.name))
        settings = settings_of(found, "sidecar.yaml")
        tls = settings.get("tls")
        managed = tls.get("managed") if isinstance(tls, dict) else None
        secret = managed.get("secret") if isinstance(managed, dict) else None
        mounted = (each.secret for each in deployment.spec.template.spec.volumes or ())
        names = (each.secret_name for each in mounted if each is not None)
        return Installation(
            meta.namespace, meta.name, settings, str(secret) if secret else next(names, "")
        )


def _is(workload: objects.ProgramController, component: str) -> bool:
    found = objects.labels(workload)
    if COMPONENT in found:
        return found[COMPONENT] == component
    runs = {each.image_name for each in workload.spec.template.spec.containers}
    ours = found.get("app.kubernetes.io/name") == NAME or any(
        name.startswith(NAME) for name in runs
    )
    return ours and found.get("app.kubernetes.io/component") == component


def settings_of(found: ConfigMap | None, key: str) -> Mapping[str, object]:
    """Return the settings in a key of a ConfigMap; none where they cannot be read."""
    try:
        text = ((found and found.data) or {}).get(key, "")
        content = load_yaml(text, lambda line: InputLocation(key, line))
    except InputError:
        return {}
    return content if isinstance(content, dict) else {}


_FLAGS = {
    Scheduler.KUBE: "--config",
    Scheduler.KOORD: "--config",
    Scheduler.VOLCANO: "--scheduler-conf",
}
"""Source: kubernetes cmd/kube-scheduler/app/options/options.go, which koord-scheduler uses too;
volcano.sh/volcano cmd/scheduler/app/options/options.go."""


class ConfigMapKey(NamedTuple):
    """A key of a ConfigMap, in the pod's namespace."""

    config_map: str
    key: str


class SchedulerPod(NamedTuple):
    """A scheduler.

    Attributes:
        scheduler: its kind.
        pod: in which it runs.
        file: of its configuration, in its container; empty where it has none.
        source: of that file; None where it comes from no ConfigMap, or there is no file.
    """

    scheduler: Scheduler
    pod: objects.ProgramPod
    file: str
    source: ConfigMapKey | None


def scheduler_pods(pods: Iterable[objects.ProgramPod]) -> Iterator[SchedulerPod]:
    """Return the schedulers that run, in the order of the pods."""
    for pod in pods:
        for container in pod.spec.containers:
            command = (PurePosixPath(word).name for word in container.words[:1])
            names = {container.image_name, *command}
            scheduler = next((each for each in Scheduler if each.value in names), None)
            if scheduler is not None and pod.status.phase not in {"Succeeded", "Failed"}:
                file = _option(container.words, _FLAGS[scheduler])
                yield SchedulerPod(scheduler, pod, file, _source(pod, container, file))


def _option(words: list[str], flag: str) -> str:
    for at, word in enumerate(words):
        name, sign, value = word.partition("=")
        if name == flag:
            return value if sign else next(iter(words[at + 1 :]), "")
    return ""


def _source(
    pod: objects.ProgramPod, container: objects.ProgramContainer, file: str
) -> ConfigMapKey | None:
    for mount in container.volume_mounts or ():
        try:
            below = PurePosixPath(file).relative_to(mount.mount_path)
        except ValueError:
            continue
        inside = mount.sub_path if mount.sub_path else str(below)
        for volume in pod.spec.volumes or ():
            if volume.name == mount.name and volume.config_map is not None:
                renamed = {each.path: each.key for each in volume.config_map.items or ()}
                return ConfigMapKey(volume.config_map.name, renamed.get(inside, inside))
    return None


@dataclass(frozen=True, slots=True)
class DescribedNode:
    """A node with cards.

    Attributes:
        node: with the cards that annotations, the Device object and the agent describe.
        by_agent: whether the agent reports cards.
    """

    node: Node
    by_agent: bool

    def has_dialect(self, name: str) -> bool:
        """Whether a dialect describes one of the cards."""
        return any(name in card.dialects for card in self.node.cards)


def nodes_with_cards(seen: Observed) -> Mapping[str, DescribedNode]:
    """Return the nodes whose cards an annotation, a Device or an agent describes, by name."""
    dialects = registry.dialects({}, Defaults())
    devices = {each.metadata.name: each for each in seen.devices}
    reports: dict[str, NodeHardware | None] = {}
    for ledger in seen.ledgers:
        if isinstance(ledger.status, Raw):
            with suppress(HardwareRecordError):
                reports[ledger.metadata.name] = hardware.decode(ledger.status, ledger.metadata.name)
    found: dict[str, DescribedNode] = {}
    for each in seen.nodes:
        name = each.metadata.name
        report = reports.get(name)
        node, _ = read_node(each, devices.get(name), dialects, report)
        if node.cards:
            found[name] = DescribedNode(node, by_agent=bool(report and report.cards))
    return found

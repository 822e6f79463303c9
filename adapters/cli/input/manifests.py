"""The Kubernetes objects of the input, by kind and name."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from adapters.cli.input.document import Document, documents
from adapters.cli.input.source import InputError, InputLocation, Source
from adapters.wire.dra import ClaimManifest, DeviceTaintRule, ResourceClaim, ResourceSlice
from adapters.wire.kube import ConfigMap, DeviceObject, KubeNode, Metadata, Pod, Wire
from adapters.wire.kube_policy import Budget, JobObject, PodGroupObject, ResourceQuotaObject
from adapters.wire.records.ledger import LedgerObject
from adapters.wire.records.quota import ShareQuotaObject
from core.requests.gang import GangApi, GangRef

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

Progress = Callable[[int, int], None]
"""Called with the numbers of list items that were read and that are known, so far."""

PARTS = 1 << 10
"""Parts of objects that are kept for later ones to share."""

_FORMS = (
    "Node",
    "Pod",
    "Device",
    "ConfigMap",
    "NodeLedger",
    "ResourceClaim",
    "ResourceSlice",
    "DeviceTaintRule",
    "ShareQuota",
    "ResourceQuota",
    "PodDisruptionBudget",
    "PodGroup",
)

_JOB = "Job"

# Source: koordinator-sh/koordinator config/crd/bases/scheduling.koordinator.sh_devices.yaml.
_GROUPS = {
    "Device": "scheduling.koordinator.sh",
    "NodeLedger": "dragoman.dev",
    "ResourceClaim": "resource.k8s.io",
    "ResourceSlice": "resource.k8s.io",
    "DeviceTaintRule": "resource.k8s.io",
    "ShareQuota": "dragoman.dev",
    "PodDisruptionBudget": "policy",
    _JOB: "batch",
}

GANG_APIS = {
    "scheduling.k8s.io": GangApi.KUBERNETES,
    "scheduling.sigs.k8s.io": GangApi.KOORDINATOR,
    "scheduling.x-k8s.io": GangApi.SCHEDULER_PLUGINS,
    "scheduling.volcano.sh": GangApi.VOLCANO,
}
"""The groups of the API that have a PodGroup."""

_DRA = frozenset({"resource.k8s.io", "resource.nvidia.com"})
"""Groups whose other kinds stand beside claims and slices, and say nothing about cards."""

_OF_PODS = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "Job", "PodTemplate", "ReplicaSet", "StatefulSet"}
    | {"JobSet", "LeaderWorkerSet", "ReplicationController"}
)


@dataclass(frozen=True, slots=True)
class Manifests:
    """The input, each object with its location.

    Attributes:
        nodes: by name, in order of the input.
        devices: by name, which is that of their node.
        pods: by ``namespace/name``, in order of the input.
        config_maps: by ``namespace/name``.
        ledgers: by the name of their node.
        claims: by ``namespace/name``.
        slices: by name.
        rules: that taint devices, by name.
        quotas: by namespace.
        resource_quotas: all; a namespace may have several.
        budgets: all PodDisruptionBudgets; of a live cluster only where they were asked for.
        jobs: by ``namespace/name``; only where they were asked for.
        groups: the objects of gangs.
        newer_ledgers: of a live cluster, the ledgers as they were after the pods were read.
        problems: what could not be read, as sentences.
        skipped: how many objects of each kind that is not read the lists and folders have.
    """

    nodes: dict[str, tuple[KubeNode, InputLocation]] = field(default_factory=dict)
    devices: dict[str, tuple[DeviceObject, InputLocation]] = field(default_factory=dict)
    pods: dict[str, tuple[Pod, InputLocation]] = field(default_factory=dict)
    config_maps: dict[str, tuple[ConfigMap, InputLocation]] = field(default_factory=dict)
    ledgers: dict[str, tuple[LedgerObject, InputLocation]] = field(default_factory=dict)
    claims: dict[str, tuple[ResourceClaim, InputLocation]] = field(default_factory=dict)
    slices: dict[str, tuple[ResourceSlice, InputLocation]] = field(default_factory=dict)
    rules: dict[str, tuple[DeviceTaintRule, InputLocation]] = field(default_factory=dict)
    quotas: dict[str, tuple[ShareQuotaObject, InputLocation]] = field(default_factory=dict)
    resource_quotas: list[tuple[ResourceQuotaObject, InputLocation]] = field(default_factory=list)
    budgets: list[tuple[Budget, InputLocation]] = field(default_factory=list)
    jobs: dict[str, tuple[JobObject, InputLocation]] = field(default_factory=dict)
    groups: dict[GangRef, tuple[PodGroupObject, InputLocation]] = field(default_factory=dict)
    newer_ledgers: dict[str, LedgerObject] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    skipped: Counter[str] = field(default_factory=Counter[str])


class _RecordManifest(Wire, frozen=True, gc=False):
    metadata: Metadata = Metadata()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] | None = None


def manifests(
    texts: Iterable[Source], progress: Progress | None = None, *, jobs: bool = False
) -> Manifests:
    """Read all objects; those of other kinds in lists and folders are counted and skipped.

    So are other kinds of Dynamic Resource Allocation, as DeviceClasses, wherever they stand.

    The progress is called for the items of lists. Jobs are read only for ``jobs``.

    Raises:
        InputError: a text is not YAML or JSON, has an object without a name or a duplicate one;
            a named file has a kind of another use outside of a list; or there is nothing to read.
    """
    found = Manifests()
    members = _Members((*_FORMS, _JOB) if jobs else _FORMS, found.skipped, progress)
    shared = _SharedParts()
    for text in texts:
        empty = True
        for document in documents(text):
            empty = False
            for member, kind in members.of(document, "", inside=not text.named):
                _add(found, member, kind, shared)
        if empty and text.named:
            raise InputError(text.name, "contains no manifest")
    owners: dict[str, str] = {}
    for name, (pod, place) in found.pods.items():
        uid = pod.metadata.uid
        if uid and owners.setdefault(uid, name) != name:
            raise InputError(place, f"Pod {name} has the uid of Pod {owners[uid]}")
    read = (found.nodes, found.devices, found.pods, found.config_maps, found.slices)
    if not any((*read, found.resource_quotas, found.groups)):
        if members.unknown is not None:
            raise members.unknown
        raise InputError("the input", "contains no manifest")
    return found


@dataclass(slots=True)
class _Members:
    """The objects of documents, and those that are skipped.

    Attributes:
        forms: the kinds that are read.
        skipped: is counted up.
        progress: is called for the items of lists.
        unknown: the error of the first object that was skipped.
        read: items of lists so far.
        known: items of the lists that have begun.
    """

    forms: Collection[str]
    skipped: Counter[str]
    progress: Progress | None
    unknown: InputError | None = None
    read: int = 0
    known: int = 0

    def of(
        self, document: Document, default: str, *, inside: bool
    ) -> Iterator[tuple[Document, str]]:
        """Yield the objects of a document, with their kinds; ``default`` where it names none.

        It is ``inside`` where it is one of many that the user did not name: in a list or a folder.
        """
        head = document.head()
        kind = head.kind or default
        is_dra = str(head.api_version).partition("/")[0] in _DRA
        if kind == "":
            raise InputError(document.location, "kind is missing")
        if not isinstance(kind, str):
            raise InputError(document.location, f"kind must be text, but is {kind!r}")
        item = kind.removesuffix("List")
        if (is_dra or self._known(item, head.api_version)) and kind != item:
            count, members = document.items()
            self.known += count
            for member in members:
                yield from self.of(member, item, inside=True)
                self.read += 1
                if self.progress is not None:
                    self.progress(self.read, self.known)
        elif kind in self.forms and self._known(kind, head.api_version):
            yield document, kind
        else:
            of = "" if head.api_version is None else f" of {head.api_version}"
            right = f"supported kinds are {', '.join(self.forms)} and List"
            if kind == "PodGroup":
                right = f"its apiVersion must be of {', '.join(GANG_APIS)}"
            elif kind in _OF_PODS:
                right += "; pass the Pods that it creates"
            unknown = InputError(document.location, f"unknown kind {kind}{of}; {right}")
            if not (inside or is_dra):
                raise unknown
            if kind != _JOB:  # read where it counts
                # A kind that is read, of another group, has its group beside it.
                self.skipped[f"{kind} of {head.api_version}" if kind in self.forms else kind] += 1
            self.unknown = self.unknown or unknown

    def _known(self, kind: str, version: object) -> bool:
        if kind == "PodGroup":
            return str(version).partition("/")[0] in GANG_APIS
        if kind not in {"", *self.forms}:
            return False
        if kind in _GROUPS:
            return version is None or str(version).startswith(f"{_GROUPS[kind]}/")
        return version in (None, "v1")


def _add(found: Manifests, document: Document, kind: str, shared: "_SharedParts") -> None:
    match kind:
        case "Node":
            node = document.read(KubeNode)
            _put(found.nodes, node.metadata.name, node, "Node", document.location)
        case "Device":
            device = shared.device(document.read(DeviceObject))
            _put(found.devices, device.metadata.name, device, "Device", document.location)
        case "ConfigMap":
            config = document.read(ConfigMap)
            name = _named(config.metadata, document.location)
            _put(found.config_maps, name, config, "ConfigMap", document.location)
        case "NodeLedger":
            record = document.read(_RecordManifest)
            status = b"" if record.status is None else msgspec.json.encode(record.status)
            spec = msgspec.Raw(msgspec.json.encode(record.spec))
            ledger = LedgerObject(record.metadata, spec, msgspec.Raw(status))
            _put(found.ledgers, ledger.metadata.name, ledger, "NodeLedger", document.location)
        case "ResourceClaim":
            claim = document.read(ClaimManifest).claim()
            name = _named(claim.metadata, document.location)
            _put(found.claims, name, claim, kind, document.location)
        case "ResourceSlice":
            published = document.read(ResourceSlice)
            _put(found.slices, published.metadata.name, published, kind, document.location)
        case "DeviceTaintRule":
            rule = document.read(DeviceTaintRule)
            _put(found.rules, rule.metadata.name, rule, kind, document.location)
        case "ShareQuota":
            record = document.read(_RecordManifest)
            spec = msgspec.Raw(msgspec.json.encode(record.spec))
            stated = msgspec.Raw(msgspec.json.encode(record.status or {}))
            quota = ShareQuotaObject(record.metadata, spec, stated)
            namespace = _named(quota.metadata, document.location).partition("/")[0]
            _put(found.quotas, namespace, quota, "ShareQuota of", document.location)
        case "ResourceQuota":
            found.resource_quotas.append((document.read(ResourceQuotaObject), document.location))
        case "PodDisruptionBudget":
            found.budgets.append((document.read(Budget), document.location))
        case "PodGroup":
            group = document.read(PodGroupObject)
            namespace, _, name = _named(group.metadata, document.location).partition("/")
            api = GANG_APIS[str(document.head().api_version).partition("/")[0]]
            metadata = msgspec.structs.replace(group.metadata, namespace=namespace)
            group = msgspec.structs.replace(group, metadata=metadata)
            ref = GangRef(api, namespace, name)
            _put(found.groups, ref, group, kind, document.location)
        case "Job":
            job = document.read(JobObject)
            name = _named(job.metadata, document.location)
            _put(found.jobs, name, job, kind, document.location)
        case _:
            pod = shared.pod(document.read(Pod))
            name = _named(pod.metadata, document.location)
            _check_containers(pod, document.location)
            _put(found.pods, name, pod, "Pod", document.location)


class _SharedParts:
    """Equal parts of objects as one: a dump has the replicas of a workload side by side."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, bytes], Any] = {}

    def of(self, part: T) -> T:
        """Return the part, or an earlier one that is equal."""
        if len(self._known) == PARTS:
            self._known.clear()
        found: T = self._known.setdefault((type(part), msgspec.json.encode(part)), part)
        return found

    def pod(self, pod: Pod) -> Pod:
        """Return a pod of shared parts."""
        meta = pod.metadata
        labels, annotations = self.of(meta.labels), self.of(meta.annotations)
        meta = msgspec.structs.replace(meta, labels=labels, annotations=annotations)
        return msgspec.structs.replace(pod, metadata=meta, spec=self.of(pod.spec))

    def device(self, device: DeviceObject) -> DeviceObject:
        """Return a Device of shared parts: the cards of a node mostly have equal resources."""
        infos = device.spec.devices or ()
        devices = tuple(
            msgspec.structs.replace(info, resources=self.of(info.resources)) for info in infos
        )
        spec = msgspec.structs.replace(device.spec, devices=devices)
        return msgspec.structs.replace(device, spec=spec)


def _named(metadata: Metadata, place: InputLocation) -> str:
    if not metadata.name:
        raise InputError(place, "metadata.name is missing")
    return f"{metadata.namespace or 'default'}/{metadata.name}"


def _check_containers(pod: Pod, place: InputLocation) -> None:
    if not pod.spec.containers:
        raise InputError(place, "spec.containers is missing or empty")
    names: set[str] = set()
    for field_name, containers in (
        ("initContainers", pod.spec.init_containers or ()),
        ("containers", pod.spec.containers),
    ):
        for index, container in enumerate(containers):
            where = f"spec.{field_name}[{index}].name"
            if not container.name:
                raise InputError(place, f"{where} is missing")
            if container.name in names:
                raise InputError(place, f"{where}: {container.name!r} is a duplicate")
            names.add(container.name)


def _put(
    known: dict[K, tuple[T, InputLocation]], name: K, thing: T, kind: str, place: InputLocation
) -> None:
    if not name:
        raise InputError(place, "metadata.name is missing")
    if name in known:
        raise InputError(
            place, f"{kind} {name} is a duplicate; the first one is at {known[name][1]}"
        )
    known[name] = (thing, place)

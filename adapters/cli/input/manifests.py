"""The Kubernetes objects of the input, by kind and name."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from adapters.cli.input.document import Document, documents
from adapters.cli.input.source import InputError, InputLocation, Source
from adapters.cli.input.workload import Workload, check_containers
from adapters.wire import dra
from adapters.wire.kube import ConfigMap, DeviceObject, KubeNode, Metadata, Pod, Wire, WorkloadRef
from adapters.wire.kube_policy import Budget, JobObject, PodGroupObject, ResourceQuotaObject
from adapters.wire.records.ledger import LedgerObject
from adapters.wire.records.quota import ShareQuotaObject
from core.requests.gang import GangApi, GangRef

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with the numbers of list items that were read and that are known, so far."""

PARTS = 1 << 10
"""Parts of objects that are kept for later ones to share."""

GANG_APIS = {
    "scheduling.k8s.io": GangApi.KUBERNETES,
    "scheduling.sigs.k8s.io": GangApi.KOORDINATOR,
    "scheduling.x-k8s.io": GangApi.SCHEDULER_PLUGINS,
    "scheduling.volcano.sh": GangApi.VOLCANO,
}
"""The groups of the API that have a PodGroup."""

_DRA = frozenset({"resource.k8s.io", "resource.nvidia.com"})
"""Groups whose other kinds stand beside claims and slices, and say nothing about cards."""


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
        templates: of claims, by ``namespace/name``.
        classes: of devices, by name.
        slices: by name.
        rules: that taint devices, by name.
        quotas: by namespace.
        resource_quotas: all; a namespace may have several.
        budgets: all PodDisruptionBudgets; of a live cluster only where they were asked for.
        jobs: by ``namespace/name``; only where they were asked for.
        groups: the objects of gangs.
        newer_ledgers: of a live cluster, the ledgers as they were after the pods were read.
        problems: what could not be read, as sentences.
        skipped: how many objects there are of each kind that is not read.
        workloads: what makes pods.
        made: by ``namespace/name`` of a pod that does not exist yet, the workload that makes it.
    """

    nodes: dict[str, tuple[KubeNode, InputLocation]] = field(default_factory=dict)
    devices: dict[str, tuple[DeviceObject, InputLocation]] = field(default_factory=dict)
    pods: dict[str, tuple[Pod, InputLocation]] = field(default_factory=dict)
    config_maps: dict[str, tuple[ConfigMap, InputLocation]] = field(default_factory=dict)
    ledgers: dict[str, tuple[LedgerObject, InputLocation]] = field(default_factory=dict)
    claims: dict[str, tuple[dra.ResourceClaim, InputLocation]] = field(default_factory=dict)
    templates: dict[str, tuple[dra.ClaimTemplate, InputLocation]] = field(default_factory=dict)
    classes: dict[str, tuple[dra.DeviceClass, InputLocation]] = field(default_factory=dict)
    slices: dict[str, tuple[dra.ResourceSlice, InputLocation]] = field(default_factory=dict)
    rules: dict[str, tuple[dra.DeviceTaintRule, InputLocation]] = field(default_factory=dict)
    quotas: dict[str, tuple[ShareQuotaObject, InputLocation]] = field(default_factory=dict)
    resource_quotas: list[tuple[ResourceQuotaObject, InputLocation]] = field(default_factory=list)
    budgets: list[tuple[Budget, InputLocation]] = field(default_factory=list)
    jobs: dict[str, tuple[JobObject, InputLocation]] = field(default_factory=dict)
    groups: dict[GangRef, tuple[PodGroupObject, InputLocation]] = field(default_factory=dict)
    newer_ledgers: dict[str, LedgerObject] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    skipped: Counter[str] = field(default_factory=Counter[str])
    workloads: list[Workload] = field(default_factory=list)
    made: dict[str, WorkloadRef] = field(default_factory=dict)


class _RecordManifest(Wire, frozen=True, gc=False):
    metadata: Metadata = Metadata()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] | None = None


class _Kind(NamedTuple):
    """How the objects of a kind are read.

    Attributes:
        keep: what of ``Manifests`` has them.
        form: of the object.
        group: of its API; empty for the core.
        namespaced: whether ``metadata.namespace`` is a part of its name.
    """

    keep: str
    form: type[Any]
    group: str = ""
    namespaced: bool = True


_JOB = "Job"

# Source: koordinator-sh/koordinator config/crd/bases/scheduling.koordinator.sh_devices.yaml.
_KINDS = {
    "Node": _Kind("nodes", KubeNode, namespaced=False),
    "Pod": _Kind("pods", Pod),
    "Device": _Kind("devices", DeviceObject, "scheduling.koordinator.sh", namespaced=False),
    "ConfigMap": _Kind("config_maps", ConfigMap),
    "NodeLedger": _Kind("ledgers", _RecordManifest, "dragoman.dev", namespaced=False),
    "ResourceClaim": _Kind("claims", dra.ClaimManifest, "resource.k8s.io"),
    "ResourceClaimTemplate": _Kind("templates", dra.ClaimTemplate, "resource.k8s.io"),
    "DeviceClass": _Kind("classes", dra.DeviceClass, "resource.k8s.io", namespaced=False),
    "ResourceSlice": _Kind("slices", dra.ResourceSlice, "resource.k8s.io", namespaced=False),
    "DeviceTaintRule": _Kind("rules", dra.DeviceTaintRule, "resource.k8s.io", namespaced=False),
    "ShareQuota": _Kind("quotas", _RecordManifest, "dragoman.dev"),
    "ResourceQuota": _Kind("resource_quotas", ResourceQuotaObject),
    "PodDisruptionBudget": _Kind("budgets", Budget, "policy"),
    "PodGroup": _Kind("groups", PodGroupObject),
    _JOB: _Kind("jobs", JobObject, "batch"),
}
_FORMS = tuple(kind for kind in _KINDS if kind != _JOB)


def manifests(
    texts: Iterable[Source],
    progress: Progress | None = None,
    *,
    jobs: bool = False,
    workloads: bool = False,
) -> Manifests:
    """Read all objects; those of other kinds are counted and skipped.

    The progress is called for the items of lists. Jobs as such are read only for ``jobs``; for
    ``workloads`` an input of nothing but workloads is enough.

    Raises:
        InputError: a text is not YAML or JSON, has an object without a name or a duplicate one;
            a named file has nothing that is read; or there is nothing to read.
    """
    found = Manifests()
    forms = (*_FORMS, _JOB) if jobs else _FORMS
    members = _Members(forms, found, progress, keeps_workloads=workloads)
    shared = _SharedParts()
    for text in texts:
        empty, members.understood, members.typo = True, False, None
        for document in documents(text):
            empty = False
            for member, kind in members.of(document, ""):
                members.understood = True
                _add(found, member, kind, shared)
        if text.named and not members.understood and members.typo is not None:
            raise members.typo
        if empty and text.named:
            raise InputError(text.name, "contains no manifest")
    owners: dict[str, str] = {}
    for name, (pod, place) in found.pods.items():
        uid = pod.metadata.uid
        if uid and owners.setdefault(uid, name) != name:
            raise InputError(place, f"Pod {name} has the uid of Pod {owners[uid]}")
    read = (found.nodes, found.devices, found.pods, found.config_maps, found.slices)
    if not any((*read, found.resource_quotas, found.groups, workloads and found.workloads)):
        if found.workloads:
            problem = "makes pods, which this command does not; pass the Pods that it has"
            raise found.workloads[0].error(problem)
        raise members.unknown or InputError("the input", "contains no manifest")
    return found


@dataclass(slots=True)
class _Members:
    """The objects of documents, and those that are skipped.

    Attributes:
        forms: the kinds that are read.
        found: gets the workloads, and counts what is skipped.
        progress: is called for the items of lists.
        unknown: the error of the first object that was skipped.
        typo: the same of the file that is read, where its kind may be a slip.
        understood: whether that file has anything else.
        keeps_workloads: whether more than the first workload is kept.
        read: items of lists so far.
        known: items of the lists that have begun.
    """

    forms: Collection[str]
    found: Manifests
    progress: Progress | None
    unknown: InputError | None = None
    typo: InputError | None = None
    understood: bool = False
    keeps_workloads: bool = False
    read: int = 0
    known: int = 0

    def of(
        self, document: Document, default: str, version: object = None
    ) -> Iterator[tuple[Document, str]]:
        """Yield the objects of a document, with their kinds.

        ``default`` and ``version`` are those of the list in which it is, where it has none.
        """
        head = document.head()
        kind = head.kind or default
        version = version if head.api_version is None else head.api_version
        is_dra = str(version).partition("/")[0] in _DRA
        if kind == "":
            raise InputError(document.location, "kind is missing")
        if not isinstance(kind, str):
            raise InputError(document.location, f"kind must be text, but is {kind!r}")
        item = kind.removesuffix("List")
        count, members = (0, iter(())) if kind == item else document.items()
        if count or (kind != item and (is_dra or self._known(item, version))):
            self.known += count
            for member in members:
                yield from self.of(member, item, version if item else None)
                self.read += 1
                if self.progress is not None:
                    self.progress(self.read, self.known)
        elif kind in self.forms and self._known(kind, version):
            yield document, kind
        else:
            workload = None if kind in _FORMS else Workload.of(document, kind, str(version))
            if workload is None:
                self._skip(document, kind, version, may_be_a_slip=not is_dra)
                return
            self.understood = True
            if self.keeps_workloads or not self.found.workloads:
                self.found.workloads.append(workload)

    def _skip(self, document: Document, kind: str, version: object, *, may_be_a_slip: bool) -> None:
        of = "" if version is None else f" of {version}"
        right = f"supported kinds are {', '.join(self.forms)}, List and what makes pods"
        if kind == "PodGroup":
            right = f"its apiVersion must be of {', '.join(GANG_APIS)}"
        unknown = InputError(document.location, f"unknown kind {kind}{of}; {right}")
        self.unknown = self.unknown or unknown
        if may_be_a_slip:
            self.typo = self.typo or unknown
        # A kind that is read, of another group, has its group beside it.
        self.found.skipped[f"{kind} of {version}" if kind in self.forms else kind] += 1

    def _known(self, kind: str, version: object) -> bool:
        if kind == "PodGroup":
            return str(version).partition("/")[0] in GANG_APIS
        if kind not in {"", *self.forms}:
            return False
        group = _KINDS[kind].group if kind else ""
        if group:
            return version is None or str(version).startswith(f"{group}/")
        return version in (None, "v1")


def _add(found: Manifests, document: Document, kind: str, shared: "_SharedParts") -> None:
    how, place = _KINDS[kind], document.location
    thing, known = document.read(how.form), getattr(found, how.keep)
    if isinstance(known, list):
        known.append((thing, place))
        return
    name = _named(thing.metadata, place)
    key: Hashable = name if how.namespaced else thing.metadata.name
    title = kind
    match kind:
        case "Pod":
            thing = shared.pod(thing)
            check_containers(thing, partial(InputError, place))
        case "Device":
            thing = shared.device(thing)
        case "ResourceClaim":
            thing = thing.claim()
        case "NodeLedger" | "ShareQuota":
            parts = {"spec": thing.spec, "status": thing.status}
            raw = {
                k: msgspec.Raw(msgspec.json.encode(v)) for k, v in parts.items() if v is not None
            }
            thing = (LedgerObject if kind == "NodeLedger" else ShareQuotaObject)(
                thing.metadata, **raw
            )
            if kind == "ShareQuota":
                key, title = name.partition("/")[0], "ShareQuota of"
        case "PodGroup":
            namespace = name.partition("/")[0]
            api = GANG_APIS[str(document.head().api_version).partition("/")[0]]
            key = GangRef(api, namespace, thing.metadata.name)
            metadata = msgspec.structs.replace(thing.metadata, namespace=namespace)
            thing = msgspec.structs.replace(thing, metadata=metadata)
        case _:
            pass
    if key in known:
        raise InputError(
            place, f"{title} {key} is a duplicate; the first one is at {known[key][1]}"
        )
    known[key] = (thing, place)


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

"""Objects whose controllers make pods: where in them pods are described, and how many of each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from adapters.cli.input.document import Document, validation_error
from adapters.cli.input.source import InputError, InputLocation
from adapters.dialects import registry
from adapters.wire.kube import Metadata, Pod, Wire, WorkloadRef

MOST = 10_000
"""Pods that one object makes, at most."""

_TEMPLATED = {
    "": frozenset({"ReplicationController"}),
    "apps": frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    "batch": frozenset({"CronJob", "Job"}),
    "batch.volcano.sh": frozenset({"Job"}),
    "jobset.x-k8s.io": frozenset({"JobSet"}),
    "leaderworkerset.x-k8s.io": frozenset({"LeaderWorkerSet"}),
}
"""Kinds that have a pod template, by group; of others pods with devices are of interest only."""

_RANDOM = frozenset(
    {"ReplicationController", "DaemonSet", "Deployment", "ReplicaSet", "CronJob", "Job"}
)
"""Kinds of Kubernetes that end the names of pods at random."""

_DESCRIBES = frozenset(
    {"ControllerRevision", "PodTemplate", "JobTemplate", "Workload", "ServingRuntime"}
    | {"ClusterServingRuntime", "TrainingRuntime", "ClusterTrainingRuntime"}
    | {"WorkflowTemplate", "ClusterWorkflowTemplate"}
)
"""Kinds that describe pods for other objects."""

_ENDED = frozenset({"Complete", "Completed", "Succeeded", "Failed", "Aborted", "Terminated"})
"""Conditions of what makes no pods any more, in the words of Job, JobSet and Kubeflow's jobs, and
phases of Volcano's Job (volcano.sh/apis pkg/apis/batch/v1alpha1/job.go)."""

_OF_SPEC = frozenset({"nodeSelector", "affinity", "tolerations", "schedulerName"})
"""Fields of a pod's spec that stand beside its containers, or above them, in other kinds."""

_INT32 = 2**31 - 1

_NOTHING: tuple[str, Mapping[str, Any]] = ("", {})

_WRAPPERS = frozenset({"spec", "template", "jobTemplate", "model", "resources"})
"""Keys above a pod that say nothing of its role."""

Above = tuple[tuple[str, dict[str, Any]], ...]
"""Mappings with their paths, from a document to a place in it."""


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A place of a document where a pod's containers are.

    Attributes:
        path: in the document; empty for the document itself.
        pod: with ``spec.containers``; what is written into it is written into the document.
        has_metadata: whether its annotations are those of the pod. They are unknown of containers
            or resources that stand elsewhere, such as those of KServe's InferenceService.
        above: the mappings in which it is, from the document on.
    """

    path: str
    pod: dict[str, Any]
    has_metadata: bool
    above: Above


def pods_in(content: Any, path: str = "", above: Above = ()) -> Iterator[PodPlace]:
    """Yield every pod, template, list of containers, and the resources of a single container."""
    if isinstance(content, list):
        for index, value in enumerate(content):
            yield from pods_in(value, f"{path}[{index}]", above)
    if not isinstance(content, dict):
        return
    above = (*above, (path, content))
    spec = content.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        # the metadata of another kind, such as a ServingRuntime, is not that of its pods
        own = content.get("kind") in (None, "Pod", "PodTemplate")
        inner = (*above, (f"{path}.spec".lstrip("."), spec))
        yield PodPlace(path, content if own else {"spec": spec}, own, inner)
        return
    containers = content.get("containers")
    if isinstance(containers, list) and all(isinstance(each, dict) for each in containers):
        yield PodPlace(path, {"spec": content}, has_metadata=False, above=above)
        return
    for key, value in content.items():
        below = f"{path}.{key}" if path else str(key)
        sections = value if key == "resources" and isinstance(value, dict) else {}
        amounts = [sections.get(section) for section in ("limits", "requests")]
        if any(isinstance(each, dict) and registry.resources() & each.keys() for each in amounts):
            pod = {"spec": {"containers": [{"resources": value}]}}
            yield PodPlace(below, pod, has_metadata=False, above=above)
        else:
            yield from pods_in(value, below, above)


@dataclass(frozen=True, slots=True)
class PodRole:
    """The pods of a workload that are made of one template.

    Attributes:
        name: such as ``worker``; what has one role has no name for it.
        template: what each pod is, but for its name.
        count: how many pods there are.
        first: the number of the first one.
        in_group: how many of them are in each group of a LeaderWorkerSet; 0 for other kinds.
        least: how many of them Volcano's Job needs.
    """

    name: str
    template: Pod
    count: int
    first: int
    in_group: int
    least: int


class _Metadata(Metadata, frozen=True, gc=False):
    generate_name: str | None = None


class _Named(Wire, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()
    status: Any = None


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that makes pods.

    Attributes:
        ref: its name.
        metadata: of the object.
        location: its first line.
        group: of its API.
        ended: whether it makes no pods any more: it has finished, or is being deleted.
        spec: of the object, of any shape.
        places: of the pods in it.
    """

    ref: WorkloadRef
    metadata: Metadata
    location: InputLocation
    group: str
    ended: bool
    spec: Mapping[str, Any]
    places: tuple[PodPlace, ...]

    @classmethod
    def of(cls, document: Document, kind: str, version: str) -> "Workload | None":
        """Return the workload that an object of a kind and version is; None where it is none.

        Raises:
            InputError: its metadata is not that of an object, or it has no name.
        """
        if kind in _DESCRIBES:
            return None
        content = document.read(dict[Any, Any])
        places = tuple(each for each in pods_in(content) if not each.path.startswith("status"))
        group = version.rpartition("/")[0]
        known = kind in _TEMPLATED.get(group, ())
        if not known and not any(_names_devices(each.pod) for each in places):
            return None
        head = document.read(_Named)
        meta = head.metadata
        name = meta.name or (head.metadata.generate_name or "").rstrip("-")
        if not name:
            raise InputError(document.location, "metadata.name is missing")
        ref = WorkloadRef(kind, meta.namespace or "default", name)
        ended = meta.deletion_timestamp is not None or _has_ended(head.status)
        spec = content.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        return cls(ref, meta, document.location, group, ended, spec, places)

    @property
    def is_volcanos(self) -> bool:
        """Whether it is Volcano's Job."""
        return self.group == "batch.volcano.sh"

    @property
    def names_pods(self) -> bool:
        """Whether its pods have names of its own; others get random ones."""
        return self.is_volcanos or self.ref.kind not in _RANDOM

    @property
    def owner(self) -> WorkloadRef | None:
        """The object that made it."""
        owners = self.metadata.owner_references or ()
        return next(
            (WorkloadRef(o.kind, self.ref.namespace, o.name) for o in owners if o.controller), None
        )

    @property
    def is_suspended(self) -> bool:
        """Whether it is one of a cluster that makes no pods until its suspension ends.

        A manifest, without a ``uid``, is a question: what Kueue will start has ``suspend`` in it.
        """
        policy = self.spec.get("runPolicy")
        return bool(self.metadata.uid) and True in (
            self.spec.get("suspend"),
            isinstance(policy, dict) and policy.get("suspend"),
        )

    def error(self, problem: str) -> InputError:
        """Return the error of a problem that it has."""
        kind, namespace, name = self.ref
        return InputError(self.location, f"{kind} {namespace}/{name}: {problem}")

    def number(
        self,
        place: tuple[str, Mapping[str, Any]],
        key: str,
        default: int = 1,
        *,
        least: int = 0,
        most: int = MOST,
    ) -> int:
        """Return a number that a mapping of the object states; the default where it has none.

        Raises:
            InputError: it is no number, or out of range.
        """
        path, mapping = place
        value = mapping.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            field, shown = f"{path}.{key}".lstrip("."), repr(value)[:40]
            right = f"must be a whole number from {least} to {most:,}"
            raise self.error(f"{field}: {shown}: {right}")
        return value

    def roles(self) -> tuple[PodRole, ...]:
        """Return its pods, by the template of which they are made.

        Raises:
            InputError: a number or a template cannot be used, or it makes too many pods.
        """
        if not self.places:
            raise self.error("has no pod template with containers")
        names = [_role(each) for each in self.places]
        several = len(set(names)) > 1
        roles: list[PodRole] = []
        next_of: dict[str, int] = {}
        for place, role in zip(self.places, names, strict=True):
            name = role if several else ""
            groups, in_group = self._groups(place)
            count, parent = groups * in_group, _parent(place)
            least = self.number(parent, "minAvailable", count) if self.is_volcanos else 0
            first = next_of.get(name, 0)
            next_of[name] = first + count
            grouped = in_group if self.ref.kind == "LeaderWorkerSet" else 0
            roles.append(PodRole(name, self._template(place), count, first, grouped, least))
        total = sum(role.count for role in roles)
        if total > MOST:
            problem = f"makes {total:,} pods; at most {MOST:,} of one object are placed"
            raise self.error(problem)
        return tuple(roles)

    def _groups(self, place: PodPlace) -> tuple[int, int]:
        """Return how often the pods of a place are made, and how many at once."""
        groups, parent = 1, _parent(place)
        for each in reversed(place.above):
            if "replicas" in each[1] or "minReplicas" in each[1]:
                least = self.number(each, "minReplicas", 0)
                groups = max(least, self.number(each, "replicas", max(1, least)))
                groups *= self.number(each, "numOfHosts", least=1)
                break
        if self.ref.kind == "LeaderWorkerSet":
            group = next((each for each in place.above if "workerTemplate" in each[1]), parent)
            size = self.number(group, "size", least=1)
            if "leaderTemplate" in group[1]:
                size = 1 if place.path.endswith("leaderTemplate") else size - 1
            return groups, size
        at_once = self.number(parent, "parallelism")
        return groups, min(at_once, self.number(parent, "completions", at_once, most=_INT32))

    def _template(self, place: PodPlace) -> Pod:
        """Return the pod that a place describes.

        Raises:
            InputError: a field has another type than in Kubernetes, or a container no name.
        """
        spec = dict(place.pod["spec"])
        content = {"metadata": place.pod.get("metadata"), "spec": spec}
        of_spec = "" if place.has_metadata or not place.path else "spec."
        if self.group not in _TEMPLATED:  # such as Knative, which names containers itself
            spec["containers"] = [
                {"name": f"container-{number}", **each} if isinstance(each, dict) else each
                for number, each in enumerate(spec["containers"])
            ]
        if not place.has_metadata:
            for _, mapping in reversed(place.above):
                for key in _OF_SPEC & mapping.keys():
                    spec.setdefault(key, mapping[key])
            if place.path.endswith("resources"):
                of_spec = "spec.containers[0].resources."
            if self.ref.kind == "InferenceService":
                content["metadata"] = {"annotations": self.metadata.annotations}

        def error(problem: str) -> InputError:
            field = f"{place.path}.{problem.removeprefix(of_spec)}".lstrip(".")
            return self.error(field)

        try:
            pod = msgspec.convert({k: v for k, v in content.items() if v is not None}, Pod)
        except msgspec.ValidationError as found:
            raise error(validation_error(found, self.location, None).problem) from found
        check_containers(pod, error)
        return pod


def _has_ended(status: Any) -> bool:
    """Whether the status of an object, of any shape, says that it makes no pods any more."""
    if not isinstance(status, dict):
        return False
    conditions, state = status.get("conditions"), status.get("state")
    words = [
        each.get("type")
        for each in (conditions if isinstance(conditions, list) else ())
        if isinstance(each, dict) and str(each.get("status")) == "True"
    ]
    if isinstance(state, dict):
        words.append(state.get("phase"))
    return not _ENDED.isdisjoint(map(str, words))


def check_containers(pod: Pod, error: Callable[[str], InputError]) -> None:
    """Check that a pod has containers, each of which has a name of its own.

    Raises:
        InputError: what ``error`` makes of the problem.
    """
    if not pod.spec.containers:
        raise error("spec.containers is missing or empty")
    names: set[str] = set()
    for field_name, containers in (
        ("initContainers", pod.spec.init_containers or ()),
        ("containers", pod.spec.containers),
    ):
        for index, container in enumerate(containers):
            where = f"spec.{field_name}[{index}].name"
            if not container.name:
                raise error(f"{where} is missing")
            if container.name in names:
                raise error(f"{where}: {container.name!r} is a duplicate")
            names.add(container.name)


def _parent(place: PodPlace) -> tuple[str, Mapping[str, Any]]:
    """Return the mapping that has a pod as its template."""
    return next(
        (each for each in reversed(place.above) if each[1].get("template") is place.pod), _NOTHING
    )


def _role(place: PodPlace) -> str:
    """Return the name of what has a pod: of a list's item, else the nearest key that has one."""
    for path, mapping in reversed(place.above):
        key = path.rpartition(".")[2]
        if path.endswith("]"):
            return str(mapping.get("name") or mapping.get("groupName") or key).lower()
        if key and key not in _WRAPPERS:
            for suffix in ("GroupSpec", "Template", "Spec"):
                key = key.removesuffix(suffix)
            return key.lower()
    return ""


def _names_devices(pod: Mapping[str, Any]) -> bool:
    """Whether a container has an extended resource, as devices are."""
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") if isinstance(container, dict) else None
        for section in ("limits", "requests"):
            amounts = resources.get(section) if isinstance(resources, dict) else None
            if isinstance(amounts, dict) and any("/" in str(name) for name in amounts):
                return True
    return False

"""The pods that workloads of the input would get from their controllers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, repeat

import msgspec

from adapters.answer.node_rules import node_rule
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.source import InputError
from adapters.cli.input.workload import PodRole, Workload
from adapters.dialects.gangs import PLUGINS, TASK
from adapters.dialects.volcano.keys import GROUP_NAMES
from adapters.wire import kube
from adapters.wire.kube_policy import PodGroupObject, PodGroupSpec
from core.requests.gang import GangApi, GangRef

_MADE_BY = {"Deployment": "ReplicaSet", "CronJob": "Job", "JobSet": "Job"}
"""Kinds that make what makes pods."""

_OWNER_LABELS = {
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
    "serving.kserve.io/inferenceservice": "InferenceService",
    "ray.io/cluster": "RayCluster",
}
"""Labels with the name of a workload whose pods other objects own."""

_TOLERATED = tuple(
    kube.Toleration(f"node.kubernetes.io/{key}", "Exists", "", effect)
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""Source: kubernetes pkg/controller/daemon/util/daemonset_util.go, AddOrUpdateDaemonPodTolerations.
"""

_MINUTE = 8
"""Digits of the minutes since 1970 that end the name of a CronJob's Job, at least.
Source: kubernetes pkg/controller/cronjob/utils.go, getJobName."""

VOLCANO = "volcano"
"""The name of vc-scheduler, which is also the default of Volcano's Job."""


def add_replicas(
    found: Manifests, nodes: Sequence[kube.KubeNode], running: Mapping[str, kube.Pod] | None = None
) -> dict[kube.WorkloadRef, str]:
    """Add the pods of workloads to the pods of the input, after these, and the gangs of the pods.

    A workload makes none where one of its pods exists, or what owns it makes them; nor does one of
    a cluster beside pods of that cluster.

    Args:
        found: the input.
        nodes: for the pods of DaemonSets.
        running: pods that exist elsewhere, by ``namespace/name``.

    Returns:
        for each workload that has pods one of them, by ``namespace/name``: one that waits, if any.

    Raises:
        InputError: a workload cannot be read, or has pods that exist elsewhere.
    """
    known: dict[kube.WorkloadRef, Workload] = {}
    for workload in found.workloads:
        first = known.setdefault(workload.ref, workload)
        if first is not workload and first.group == workload.group:
            raise workload.error(f"is a duplicate; the first one is at {first.location}")
    own = {name: pod for name, (pod, _) in found.pods.items()}
    is_dump = any(pod.metadata.uid for pod in own.values())
    pod_of, elsewhere = _owners(own, known), _owners(running or {}, known)
    busy = frozenset(pod_of)
    for workload in found.workloads:
        if workload.ended or workload.is_suspended:
            continue
        if workload.ref in busy or workload.owner in known:
            continue
        if is_dump and workload.metadata.uid:
            continue
        pods, groups = _made(workload, workload.ref.name, nodes)
        if workload.names_pods and not own.keys().isdisjoint(pods):
            continue
        others = _prefixes(workload.ref)
        while not found.pods.keys().isdisjoint(pods):
            pods, groups = _made(workload, next(others), nodes)
        exists = elsewhere.get(workload.ref)
        if exists is not None:
            problem = f"has pods in the cluster already, such as {exists}; give it another name"
            raise InputError(str(workload.ref), problem)
        found.groups.update({ref: (group, workload.location) for ref, group in groups.items()})
        for full, pod in pods.items():
            found.pods[full] = pod, workload.location
            found.made[full] = workload.ref
            pod_of.setdefault(workload.ref, full)
    return pod_of


def _prefixes(ref: kube.WorkloadRef) -> Iterator[str]:
    """Yield what the names of its pods begin with, where other pods have those of its own."""
    name = f"{ref.name}-{ref.kind.lower()}"
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def _owners(
    pods: Mapping[str, kube.Pod], known: Mapping[kube.WorkloadRef, Workload]
) -> dict[kube.WorkloadRef, str]:
    """Return what has pods, each with one of them: one that waits, if any."""
    found: dict[kube.WorkloadRef, str] = {}
    for full, pod in sorted(pods.items(), key=lambda each: bool(each[1].spec.node_name)):
        namespace, marked = full.partition("/")[0], pod.metadata.labels or {}
        owners = [
            kube.WorkloadRef(kind, namespace, marked[label])
            for label, kind in _OWNER_LABELS.items()
            if label in marked
        ]
        for owner in pod.metadata.owner_references or ():
            above = kube.WorkloadRef(owner.kind, namespace, owner.name)
            owners.append(above)
            # the names that the controllers of Deployments and CronJobs give
            name, _, end = owner.name.rpartition("-")
            is_hash = owner.kind == "ReplicaSet" and end == marked.get("pod-template-hash")
            is_minute = owner.kind == "Job" and end.isdigit() and len(end) >= _MINUTE
            if above not in known and (is_hash or is_minute):
                kind = "Deployment" if is_hash else "CronJob"
                owners.append(kube.WorkloadRef(kind, namespace, name))
        for each in owners:
            ref: kube.WorkloadRef | None = each
            while ref is not None and ref not in found:
                found[ref] = full
                ref = known[ref].owner if ref in known else None
    return found


def _gang(workload: Workload, roles: Sequence[PodRole]) -> tuple[GangApi, PodGroupSpec] | None:
    """Return the gang of a workload's pods, or of each group of them; None for none."""
    scheduler, spec = roles[0].template.spec.scheduler_name, workload.spec
    api = GangApi.VOLCANO if scheduler == VOLCANO else GangApi.SCHEDULER_PLUGINS
    if workload.is_volcanos:
        tasks = {role.name: role.least for role in roles}
        least = workload.number(("spec", spec), "minAvailable", sum(tasks.values()))
        return GangApi.VOLCANO, PodGroupSpec(min_member=least, min_task_member=tasks)
    if workload.ref.kind == "LeaderWorkerSet":
        size = sum(role.in_group for role in roles)
        return None if scheduler != VOLCANO else (api, PodGroupSpec(min_member=size))
    run_policy = spec.get("runPolicy")
    policy = run_policy.get("schedulingPolicy") if isinstance(run_policy, dict) else None
    if not isinstance(policy, dict):
        return None
    place, total = ("spec.runPolicy.schedulingPolicy", policy), sum(role.count for role in roles)
    return api, PodGroupSpec(min_member=workload.number(place, "minAvailable", total))


def _marked(meta: kube.Metadata, api: GangApi, group: str, task: str) -> kube.Metadata:
    """Return the metadata of a pod that is in a gang."""
    if api is GangApi.SCHEDULER_PLUGINS:
        return msgspec.structs.replace(meta, labels={**(meta.labels or {}), PLUGINS: group})
    texts = {**(meta.annotations or {}), GROUP_NAMES[0]: group, TASK: task}
    return msgspec.structs.replace(meta, annotations=texts)


def _made(
    workload: Workload, prefix: str, nodes: Sequence[kube.KubeNode]
) -> tuple[dict[str, kube.Pod], dict[GangRef, PodGroupObject]]:
    """Return the pods of a workload by ``namespace/name``, and the objects of their gangs."""
    kind, namespace, name = workload.ref
    roles = workload.roles()
    gang = _gang(workload, roles)
    owner = kube.OwnerReference(
        _MADE_BY.get(kind, kind), name, workload.metadata.uid, controller=True
    )
    pods: dict[str, kube.Pod] = {}
    groups: dict[GangRef, PodGroupObject] = {}
    for role in roles:
        meta = msgspec.structs.replace(
            role.template.metadata, namespace=namespace, uid="", owner_references=(owner,)
        )
        spec = role.template.spec
        if workload.is_volcanos and not spec.scheduler_name:
            chosen = str(workload.spec.get("schedulerName") or VOLCANO)
            spec = msgspec.structs.replace(spec, scheduler_name=chosen)
        specs: Iterable[kube.PodSpec] = repeat(spec, role.count)
        if kind == "DaemonSet":
            specs = _of_nodes(role.template, nodes)
        for number, each in enumerate(specs):
            own = f"{prefix}-{role.name}".rstrip("-")
            one = msgspec.structs.replace(meta, name=f"{own}-{role.first + number}")
            if gang is not None:
                group = f"{name}-{number // role.in_group}" if role.in_group else name
                groups[GangRef(gang[0], namespace, group)] = PodGroupObject(
                    kube.Metadata(name=group, namespace=namespace), gang[1]
                )
                one = _marked(one, gang[0], group, role.name)
            pods[f"{namespace}/{one.name}"] = msgspec.structs.replace(
                role.template, metadata=one, spec=each
            )
    return pods, groups


def _of_nodes(template: kube.Pod, nodes: Sequence[kube.KubeNode]) -> Iterator[kube.PodSpec]:
    """Yield the spec of a DaemonSet's pod for each node on which it runs one.

    Source: kubernetes pkg/controller/daemon/daemon_controller.go, NodeShouldRunDaemonPod, and
    util/daemonset_util.go, ReplaceDaemonSetPodNodeNameNodeAffinity.
    """
    tolerations = (*(template.spec.tolerations or ()), *_TOLERATED)
    spec = msgspec.structs.replace(template.spec, tolerations=tolerations)
    pod = msgspec.structs.replace(template, spec=spec)
    for node in nodes:
        if node_rule(pod, node) is None:
            named = kube.SelectorRequirement("metadata.name", "In", (node.metadata.name,))
            required = kube.RequiredNodeSelector((kube.NodeSelectorTerm(match_fields=(named,)),))
            affinity = kube.Affinity(kube.NodeAffinity(required))
            yield msgspec.structs.replace(spec, affinity=affinity)

"""JobSets and LeaderWorkerSets whose pods are gangs: ``configs/examples``, and variants."""

from collections.abc import Callable
from functools import partial
from itertools import count

from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import KOORD, KUBE, VOLCANO
from e2e.harness.schedulers.gangs import PLUGINS, add_plugins_group
from e2e.harness.schedulers.native import GANG
from e2e.harness.schedulers.service import Service, example
from e2e.harness.schedulers.volcano import MEMORY, NUMBER

JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
WORKER_SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
CHILDREN = (
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/apps/v1/namespaces/default/statefulsets",
)

_LWS = "leaderworkerset.sigs.k8s.io"
_NUMBERS = count()

Workload = Callable[[Service, int], str]
"""Creates a workload of an even number of pods that are one gang; a selector of the pods."""


def job_set(service: Service, size: int) -> str:
    """The example of a JobSet: koord-scheduler, and Koordinator's annotations."""
    return _job_set(service, size, KOORD, _annotated)


def job_set_of_kube(service: Service, size: int) -> str:
    """The example of a JobSet under kube-scheduler."""
    return _job_set(service, size, KUBE, _annotated)


def job_set_of_plugins(service: Service, size: int) -> str:
    """A JobSet with scheduler-plugins' label and group, under kube-scheduler."""
    return _job_set(service, size, KUBE, partial(_labelled, service.plane.api))


def worker_set_of_plugins(service: Service, size: int) -> str:
    """A LeaderWorkerSet of one group with scheduler-plugins' label and group."""
    made = _worker_set(1, size)
    template = made["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    _labelled(service.plane.api, template, made["metadata"]["name"], size)
    return _create_worker_set(service, made)


def worker_sets(service: Service, groups: int, size: int) -> str:
    """The example of a LeaderWorkerSet under kube-scheduler, for the policy beside it."""
    return _create_worker_set(service, _worker_set(groups, size))


def worker_sets_of_volcano(service: Service, groups: int, size: int) -> str:
    """A LeaderWorkerSet under vc-scheduler, for each of whose groups its controller makes one."""
    made = _worker_set(groups, size)
    spec = made["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    spec["schedulerName"] = service.plane.scheduler(VOLCANO)
    (container,) = spec["containers"]
    container["resources"] = {"limits": {NUMBER: "1", MEMORY: "50000"}}
    return _create_worker_set(service, made)


def pods_of(api: Api, selector: str) -> list[Object]:
    """The pods of a workload."""
    found: list[Object] = api.get(f"{PODS}?labelSelector={selector}")["items"]
    return found


def bound_by_group(api: Api, selector: str) -> list[int]:
    """How many pods of each group of a LeaderWorkerSet are bound, in the order of the groups."""
    bound: dict[str, int] = {}
    for each in pods_of(api, selector):
        group = each["metadata"]["labels"][f"{_LWS}/group-index"]
        bound[group] = bound.get(group, 0) + bool(each["spec"].get("nodeName"))
    return [amount for _, amount in sorted(bound.items())]


def add_policy(api: Api) -> None:
    """Create the policy of the example, and wait until the API server follows it."""
    policy, binding, _ = example("gang-lws")
    api.create(POLICIES, policy)
    api.create(BINDINGS, binding)
    labels = {f"{_LWS}/name": "probe", f"{_LWS}/worker-index": "0"}
    metadata = {"name": "probe-0", "labels": labels, "annotations": {f"{_LWS}/size": "2"}}
    container = {"name": "main", "image": "localhost/none"}
    probe = {"metadata": metadata, "spec": {"containers": [container]}}

    def follows() -> bool:
        made = api.call("POST", f"{PODS}?dryRun=All", probe)
        return f"{GANG}/name" in made["metadata"]["annotations"]

    within(30, follows)


def remove(api: Api, *collections: str) -> None:
    """Delete all workloads, and wait until nothing makes a pod again."""
    for path in (JOB_SETS, WORKER_SETS, *collections):
        api.delete(f"{path}?propagationPolicy=Background")
    within(30, lambda: not any(api.get(path)["items"] for path in CHILDREN))


def _job_set(
    service: Service, size: int, scheduler: str, mark: Callable[[Object, str, int], None]
) -> str:
    """A JobSet of two Jobs; ``mark`` makes its pods a gang."""
    (made,) = example("gang-jobset")
    name = f"train-{next(_NUMBERS)}"
    made["metadata"]["name"] = name
    (worker,) = made["spec"]["replicatedJobs"]
    job = worker["template"]["spec"]
    job["parallelism"] = job["completions"] = size // worker["replicas"]
    template = job["template"]
    template["spec"]["schedulerName"] = service.plane.scheduler(scheduler)
    template["metadata"]["annotations"].clear()
    mark(template, name, size)
    service.plane.api.create(JOB_SETS, made)
    return f"jobset.sigs.k8s.io/jobset-name={name}"


def _worker_set(groups: int, size: int) -> Object:
    *_, made = example("gang-lws")
    made["metadata"]["name"] = f"serve-{next(_NUMBERS)}"
    made["spec"]["replicas"] = groups
    made["spec"]["leaderWorkerTemplate"]["size"] = size
    return made


def _create_worker_set(service: Service, made: Object) -> str:
    service.plane.api.create(WORKER_SETS, made)
    return f"{_LWS}/name={made['metadata']['name']}"


def _annotated(template: Object, name: str, size: int) -> None:
    (example_of,) = example("gang-jobset")
    (worker,) = example_of["spec"]["replicatedJobs"]
    words = worker["template"]["spec"]["template"]["metadata"]["annotations"]
    values = dict(zip(words, (name, str(size)), strict=True))
    template["metadata"]["annotations"] |= values


def _labelled(api: Api, template: Object, name: str, size: int) -> None:
    add_plugins_group(api, name, size)
    template.setdefault("metadata", {})["labels"] = {PLUGINS: name}

"""The pods that the command makes of workloads are those that the real controllers make."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from adapters.cli.main import app
from e2e.harness.cluster.api import Api, Object
from e2e.harness.cluster.ready_cluster import PODS
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import add_ready_nodes, prepare
from e2e.harness.schedulers.gang_workloads import JOB_SETS, WORKER_SETS
from e2e.harness.schedulers.gangs import start_gang_plane
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.schedulers.volcano import GROUPS
from e2e.harness.schedulers.workload_controllers import start_jobset, start_lws
from e2e.harness.workloads.inventory import described, gpus, volcano

pytestmark = [pytest.mark.local, pytest.mark.timeout(300)]

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODES = ("left", "right", "cordoned")
LIMITS = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}


def template(labels: Object | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "localhost/none", "resources": {"limits": LIMITS}}
    return {"metadata": {"labels": labels or {}}, "spec": {"containers": [container], **spec}}


def of_apps(kind: str, name: str, **spec: Any) -> Object:
    labels = {"app": name}
    spec |= {"selector": {"matchLabels": labels}, "template": template(labels)}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def thing(version: str, kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


ONCE = template(restartPolicy="Never")
WORKLOADS: tuple[tuple[str, Object], ...] = (
    (f"{APPS}/deployments", of_apps("Deployment", "deployment", replicas=3)),
    (f"{APPS}/deployments", of_apps("Deployment", "one")),
    (f"{APPS}/statefulsets", of_apps("StatefulSet", "parallel", podManagementPolicy="Parallel")),
    (f"{APPS}/daemonsets", of_apps("DaemonSet", "daemons")),
    (JOBS, thing("batch/v1", "Job", "once", template=ONCE)),
    (JOBS, thing("batch/v1", "Job", "wide", parallelism=2, completions=9, template=ONCE)),
    (
        JOBS,
        thing(
            "batch/v1", "Job", "indexed",
            parallelism=9, completions=3, completionMode="Indexed", template=ONCE,
        ),
    ),
    (
        JOB_SETS,
        thing(
            "jobset.x-k8s.io/v1alpha2", "JobSet", "set",
            replicatedJobs=[
                {
                    "name": "worker", "replicas": 2,
                    "template": {"spec": {"parallelism": 2, "completions": 2, "template": ONCE}},
                },
                {"name": "driver", "template": {"spec": {"template": ONCE}}},
            ],
        ),
    ),
    (
        WORKER_SETS,
        thing(
            "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", replicas=2,
            leaderWorkerTemplate={
                "size": 3, "workerTemplate": template(schedulerName="volcano"),
            },
        ),
    ),
)  # fmt: skip

SUSPENDED = thing("batch/v1", "Job", "later", suspend=True, template=ONCE)
"""It makes no pods, and as a manifest asks for them."""


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A cluster with the controllers and no scheduler, in which the workloads have their pods."""
    with run() as this:
        plane = start_gang_plane(this)
        prepare(plane)
        add_ready_nodes(plane, [described(name, volcano(gpus(name, 2))) for name in NODES])
        plane.api.merge("/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}})
        start_volcano_controllers(plane)
        start_jobset(plane)
        start_lws(plane)
        for path, made in (*WORKLOADS, (JOBS, SUSPENDED)):
            plane.api.create(path, made)
        nodes = listed(plane.api, "/api/v1/nodes", "v1", "Node")
        made = schedule(*nodes, *WORKLOADS_ALONE)["workloads"]
        expected = sum(each["replicas"] for each in made)
        within(60, lambda: len(pods(plane.api)) >= expected)
        yield plane.api


WORKLOADS_ALONE = [made for _, made in WORKLOADS]


def pods(api: Api) -> list[Object]:
    found: list[Object] = api.get(PODS)["items"]
    return found


def listed(api: Api, path: str, version: str, kind: str) -> list[Object]:
    return [{"apiVersion": version, "kind": kind, **each} for each in api.get(path)["items"]]


def schedule(*things: Object) -> Object:
    done = CliRunner().invoke(
        app, ["schedule", "-f", "-", "-o", "json"], input="\n".join(map(json.dumps, things))
    )
    assert done.exit_code in (0, 1), done.output
    found: Object = json.loads(done.stdout)
    return found


def workload_of(name: str) -> str:
    return name.partition("-")[0]


def test_each_workload_has_as_many_pods(api: Api) -> None:
    nodes = listed(api, "/api/v1/nodes", "v1", "Node")

    real = Counter(workload_of(each["metadata"]["name"]) for each in pods(api))
    ours = {
        each["name"]: each["replicas"] for each in schedule(*nodes, *WORKLOADS_ALONE)["workloads"]
    }

    assert ours == real


def test_pods_have_the_gangs_that_the_controllers_make(api: Api) -> None:
    nodes = listed(api, "/api/v1/nodes", "v1", "Node")
    groups = listed(api, GROUPS, "scheduling.volcano.sh/v1beta1", "PodGroup")
    copies = listed(api, PODS, "v1", "Pod")

    def gangs(found: Object) -> Counter[tuple[str, int]]:
        return Counter(
            (workload_of(each["name"]), each["gang"]["minimum"])
            for each in found["pods"]
            if each["gang"]
        )

    assert gangs(schedule(*nodes, *groups, *copies)) == gangs(schedule(*nodes, *WORKLOADS_ALONE))


def test_a_dump_of_the_cluster_has_no_pod_twice(api: Api) -> None:
    nodes = listed(api, "/api/v1/nodes", "v1", "Node")
    copies = listed(api, PODS, "v1", "Pod")
    dump = [
        each
        for path, version, kind in (
            (f"{APPS}/deployments", "apps/v1", "Deployment"),
            (f"{APPS}/replicasets", "apps/v1", "ReplicaSet"),
            (f"{APPS}/statefulsets", "apps/v1", "StatefulSet"),
            (f"{APPS}/daemonsets", "apps/v1", "DaemonSet"),
            (f"{APPS}/controllerrevisions", "apps/v1", "ControllerRevision"),
            (JOBS, "batch/v1", "Job"),
            (JOB_SETS, "jobset.x-k8s.io/v1alpha2", "JobSet"),
            (WORKER_SETS, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        )
        for each in listed(api, path, version, kind)
    ]
    assert len(dump) > len(WORKLOADS)

    names = {each["metadata"]["name"] for each in copies}
    assert {each["name"] for each in schedule(*nodes, *dump, *copies)["pods"]} == names
    for each in dump:  # nor by its owners alone, as in manifests
        if not each.get("spec", {}).get("suspend"):
            del each["metadata"]["uid"]
    assert {each["name"] for each in schedule(*nodes, *dump, *copies)["pods"]} == names

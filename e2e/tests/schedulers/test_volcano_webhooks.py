"""What Volcano's webhooks and controller make of a pod and a job that ask for cards."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from adapters.dialects.dialect import Defaults
from adapters.dialects.volcano.dialect import Volcano
from adapters.wire.kube import Pod
from core.requests.request import Request
from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.ready_cluster import PODS, cluster
from e2e.harness.processes.usage import processor_seconds
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.ecosystem_webhooks import start_volcano_webhooks
from e2e.harness.schedulers.schedulers import start_volcano_controllers, start_volcano_scheduler
from e2e.harness.schedulers.volcano import QUEUES

pytestmark = pytest.mark.local

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
LIMITS = {
    "volcano.sh/vgpu-number": "1",
    "volcano.sh/vgpu-memory": "4000",
    "volcano.sh/vgpu-cores": "50",
}
IDLE = 'actions: "enqueue"\ntiers:\n- plugins:\n  - name: priority\n'


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([]) as plane:
        start_volcano_controllers(plane)
        start_volcano_webhooks(plane)
        # Makes the queue "default", which the webhook for jobs looks up; then places nothing.
        start_volcano_scheduler(plane, IDLE)
        within(30, lambda: is_open(plane.api, "default"))
        yield plane


def is_open(api: Api, queue: str) -> bool:
    rows = [row for row in api.get(QUEUES)["items"] if row["metadata"]["name"] == queue]
    return any(row.get("status", {}).get("state") == "Open" for row in rows)


def template(**annotations: str) -> Object:
    container = {"name": "main", "image": "localhost/none", "resources": {"limits": LIMITS}}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}


def read(pod: Object) -> Request:
    request = Volcano.configured({}, Defaults()).read_request(msgspec.convert(pod, Pod))
    return replace(
        request, uid="", pod="", terms=replace(request.terms, group=None, member_of=None)
    )


def test_the_webhook_for_pods_changes_nothing_of_what_a_pod_asks_for(plane: ControlPlane) -> None:
    authors = template(**{"volcano.sh/vgpu-mode": "hami-core"})
    authors["metadata"]["name"] = "guide"
    authors["spec"]["schedulerName"] = "volcano"

    stored = plane.api.create(PODS, authors)

    assert stored["metadata"]["annotations"] == authors["metadata"]["annotations"]
    print(f"\nstored {stored['spec']['containers'][0]['resources']['limits']}")
    assert read(stored) == read(authors)


def test_a_jobs_pod_asks_for_what_its_template_asks_for(plane: ControlPlane) -> None:
    authors = template(**{"volcano.sh/vgpu-mode": "hami-core"})
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "guide"},
        "spec": {"tasks": [{"name": "worker", "replicas": 1, "template": authors}]},
    }

    stored = plane.api.create(JOBS, job)
    within(30, lambda: bool(pods_of(plane, "guide")))

    (pod,) = pods_of(plane, "guide")
    added = {key: stored["spec"][key] for key in stored["spec"].keys() - {"tasks"}}
    print(f"\nthe job got {added}")
    print(f"its pod has {pod['metadata']['annotations']}, {pod['metadata']['labels']}")
    print("processor seconds", processor_seconds(plane.run))
    assert stored["spec"]["schedulerName"] == pod["spec"]["schedulerName"] == "volcano"
    assert read(pod) == read(authors)


def test_a_job_without_replicas_is_refused_by_the_webhook(plane: ControlPlane) -> None:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "empty"},
        "spec": {"minAvailable": 2, "tasks": [{"replicas": 1, "template": template()}]},
    }

    with pytest.raises(ApiError, match="minAvailable") as refusal:
        plane.api.create(JOBS, job)

    print(f"\n{refusal.value}")


def pods_of(plane: ControlPlane, job: str) -> list[Object]:
    path = f"{PODS}?labelSelector=volcano.sh/job-name={job}"
    found: list[Object] = plane.api.get(path)["items"]
    return found

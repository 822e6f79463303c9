"""Kueue's controller before kube-scheduler: it admits sums, and the service allocates cards."""

import copy
import time
from collections.abc import Iterator

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import start_control_plane
from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, clear, node_of, pod, turn
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import KUBE, add_ready_nodes, starter, wait_for_cards
from e2e.harness.schedulers.gang_workloads import pods_of
from e2e.harness.schedulers.native import GANG
from e2e.harness.schedulers.service import Service, example, install, start_service, webhooks
from e2e.harness.schedulers.workload_controllers import start_kueue
from e2e.harness.workloads.inventory import described, gpus, hami

pytestmark = [pytest.mark.local, pytest.mark.timeout(300)]

CARD, MEMORY, NODE = "nvidia.com/gpu", "nvidia.com/gpumem", "left"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
GROUP = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES = (
    f"{GROUP}/resourceflavors",
    f"{GROUP}/clusterqueues",
    f"{GROUP}/namespaces/default/localqueues",
)
COUNTED = {"input": MEMORY, "strategy": "Retain", "multiplyBy": CARD}
"""What the recipe adds to the configuration of Kueue."""
GATES = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
GIB = 2**30


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A node with two cards of 80 GiB, kube-scheduler with the extender, and Kueue."""
    with run() as this:
        plane = start_control_plane(this)
        install(plane)
        add_ready_nodes(plane, [described(NODE, hami(gpus(NODE, 2)))])
        made = start_service(plane)
        start_kueue(plane, transformations=[COUNTED])
        with webhooks(made), turn(starter(made, KUBE), plane):
            wait_for_cards(plane, [NODE])
            yield made


@pytest.fixture
def job(service: Service) -> Iterator[Object]:
    """The Job of the recipe, which fills the recipe's queue; the queue is there."""
    api = service.plane.api
    *queue, made = example("recipes/kueue")
    for each, path in zip(queue, QUEUES, strict=True):
        api.create(path, each)
    yield made
    for path in reversed(QUEUES):  # the LocalQueue first: no Job is admitted any more
        api.delete(path)
    api.delete(f"{JOBS}?propagationPolicy=Foreground")
    clear(api)
    within(30, lambda: not any(api.get(path)["items"] for path in (JOBS, *QUEUES)))
    wait_until_free(service.plane, NODE)


def of_kueue(service: Service, name: str) -> Object:
    """What Kueue says of a Job or pod: its conditions by type, and what it counts."""
    for each in service.plane.api.get(f"{GROUP}/namespaces/default/workloads")["items"]:
        status = each.get("status", {})
        if each["metadata"]["ownerReferences"][0]["name"] == name and "conditions" in status:
            sets = status.get("admission", {}).get("podSetAssignments", ())
            said = {row["type"]: row["message"] for row in status["conditions"]}
            return {**said, "counts": [row["resourceUsage"] for row in sets]}
    return {}


def pods_of_job(service: Service, name: str) -> list[str]:
    found = pods_of(service.plane.api, f"batch.kubernetes.io/job-name={name}")
    return [each["metadata"]["name"] for each in found]


def bound(service: Service, names: list[str]) -> int:
    return sum(bool(node_of(service.plane.api, name)) for name in names)


def explained(service: Service, name: str) -> str:
    return str(service.get(f"/api/explain?pod=default/{name}")["summary"])


def one_pod(job: Object, name: str, *containers: dict[str, int]) -> Object:
    """A Job like this one, of one pod with these limits."""
    made = copy.deepcopy(job)
    made["metadata"]["name"] = name
    made["spec"] |= {"parallelism": 1, "completions": 1}
    spec = made["spec"]["template"]["spec"]
    spec["containers"] = [
        {**spec["containers"][0], "name": f"c{at}", "resources": {"limits": limits}}
        for at, limits in enumerate(containers)
    ]
    return made


def test_a_job_waits_without_a_pod_for_quota_and_then_gets_cards(
    service: Service, job: Object
) -> None:
    """Kueue counts 80 GiB for each of the Jobs that wait; one of them will have half of that."""
    api = service.plane.api
    api.create(JOBS, job)
    within(60, lambda: bound(service, pods_of_job(service, "evaluate")) == 2)

    api.create(JOBS, one_pod(job, "wide", {CARD: 2, MEMORY: 40960}))
    within(30, lambda: bool(of_kueue(service, "wide")))
    time.sleep(1)  # of two that are created in one second, the lower uid is the first
    api.create(JOBS, one_pod(job, "pair", *[{CARD: 1, MEMORY: 20480}] * 2))
    within(30, lambda: bool(of_kueue(service, "pair")))

    assert of_kueue(service, "evaluate")["counts"] == [{CARD: "2", MEMORY: "81920"}]
    first = pods_of_job(service, "evaluate")
    assert held(service.plane, NODE).keys() == {*first}
    for name in ("wide", "pair"):
        assert f"quota for {MEMORY} in flavor cards, 81920 more" in str(of_kueue(service, name))
        assert not pods_of_job(service, name)

    for name in first:
        ended = {"status": {"phase": "Succeeded"}}
        api.call("PATCH", f"{PODS}/{name}/status", ended, "application/merge-patch+json")
    within(60, lambda: bound(service, pods_of_job(service, "wide")) == 1)

    (row,) = held(service.plane, NODE).values()
    assert [grant["memory"] for grant in row["grants"]] == [40 * GIB, 40 * GIB]
    assert not pods_of_job(service, "pair")


def test_a_job_that_kueue_admits_waits_for_a_card(service: Service, job: Object) -> None:
    """Kueue counts neither what a card has left nor pods without a queue."""
    api = service.plane.api
    names = ["first", "second"]
    create_all(api, PODS, [pod(name, KUBE, {CARD: "1", MEMORY: "50000"}) for name in names])
    within(30, lambda: bound(service, names) == 2)

    api.create(JOBS, job)

    within(30, lambda: len(pods_of_job(service, "evaluate")) == 2)
    waits = pods_of_job(service, "evaluate")
    assert explained(service, waits[0]).endswith("2 of 2 cards: memory 9040 MiB short")
    assert "Admitted" in of_kueue(service, "evaluate")
    api.delete(f"{PODS}/first?gracePeriodSeconds=0")
    within(60, lambda: bound(service, waits) == 2)


def test_a_gang_waits_for_the_last_pod_that_kueue_admits(service: Service, job: Object) -> None:
    api = service.plane.api
    texts = {f"{GANG}/name": "queued", f"{GANG}/min-available": "3"}
    names = [f"queued-{number}" for number in range(3)]
    for name in names:
        made = pod(name, KUBE, {CARD: "1", MEMORY: "40960"})
        made["metadata"] |= {"annotations": texts, "labels": job["metadata"]["labels"]}
        api.create(PODS, made)

    def gated() -> list[str]:
        return [name for name in names if "schedulingGates" in api.get(f"{PODS}/{name}")["spec"]]

    within(30, lambda: len(gated()) == 1)
    (last,) = gated()
    assert explained(service, last).endswith(f"hold it back: {', '.join(GATES)}")
    assert bound(service, names) == 0
    assert not held(service.plane, NODE)

    path = f"{QUEUES[1]}/cards"
    queue = api.get(path)
    (group,) = queue["spec"]["resourceGroups"]
    group["flavors"][0]["resources"][1]["nominalQuota"] = 122880
    api.merge(path, {"spec": {"resourceGroups": [group]}})

    within(60, lambda: bound(service, names) == 3)

"""Gangs under stock schedulers with the extender: all pods are bound, or none."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest

from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import (
    PODS,
    add_priorities,
    clear,
    events,
    node_of,
    pod,
    turn,
)
from e2e.harness.processes.run import run
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import (
    KOORD,
    KUBE,
    VOLCANO,
    add_ready_nodes,
    prepare,
    starter,
    wait_for_cards,
)
from e2e.harness.schedulers.gang_workloads import (
    BINDINGS,
    JOB_SETS,
    POLICIES,
    WORKER_SETS,
    Workload,
    add_policy,
    bound_by_group,
    job_set,
    job_set_of_kube,
    job_set_of_plugins,
    pods_of,
    remove,
    worker_set_of_plugins,
    worker_sets,
    worker_sets_of_volcano,
)
from e2e.harness.schedulers.gangs import (
    PLUGINS_GROUPS,
    POD_GROUPS,
    RESIZE_GATE,
    by_koordinator,
    by_kubernetes,
    by_volcano,
    gang_scheduler,
    start_gang_plane,
)
from e2e.harness.schedulers.native import GANG, outcomes
from e2e.harness.schedulers.schedulers import start_kube_scheduler, start_volcano_controllers
from e2e.harness.schedulers.service import Service, example, kube_like, start_service, webhooks
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.schedulers.workload_controllers import start_jobset, start_lws
from e2e.harness.workloads.inventory import described, gpus, hami, koordinator, volcano

pytestmark = [pytest.mark.local, pytest.mark.timeout(400)]

NODES = ("left", "right")
LARGE = {NUMBER: "1", MEMORY: "50000"}
"""More than half of a card of 81920 MiB: of these a card takes one."""
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "50000"}
GANGS = 18
"""Gangs of the three schedulers together, a third of each."""
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LATE = 20
"""Seconds in which the pods of a gang are bound after the first one."""
LONG = 20
"""Seconds in which a gang that fits nowhere is tried again."""
WORKLOADS = (job_set, job_set_of_kube, job_set_of_plugins, worker_set_of_plugins)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A cluster of two nodes with two cards each, and all three schedulers."""
    with run() as this:
        plane = start_gang_plane(this)
        prepare(plane)
        cards = {name: gpus(name, 2) for name in NODES}
        add_ready_nodes(
            plane,
            [described(n, volcano(cards[n]), hami(cards[n]), koordinator(cards[n])) for n in NODES],
        )
        made = start_service(plane)
        start_volcano_controllers(plane, plane.scheduler(VOLCANO))
        start_jobset(plane)
        start_lws(plane)
        koord, volcano_scheduler = starter(made, KOORD), starter(made, VOLCANO)
        with (
            webhooks(made),
            turn(gang_scheduler(made), plane),
            turn(koord, plane),
            turn(volcano_scheduler, plane),
        ):
            wait_for_cards(plane, NODES)
            yield made


@pytest.fixture(autouse=True)
def _cleared(service: Service) -> Iterator[None]:
    yield
    remove(service.plane.api, DEPLOYMENTS)
    clear(service.plane.api, PLUGINS_GROUPS)
    wait_until_free(service.plane, *NODES)


Gang = Callable[..., list[str]]
BOTH = pytest.mark.parametrize("gang", [by_kubernetes, by_koordinator])


def bound(service: Service, names: list[str]) -> int:
    return sum(bool(node_of(service.plane.api, name)) for name in names)


@BOTH
def test_of_a_gang_that_does_not_fit_no_pod_is_bound(service: Service, gang: Gang) -> None:
    names = gang(service, 5, *[LARGE] * 5)

    time.sleep(LONG)

    assert bound(service, names) == 0
    assert not any(held(service.plane, node) for node in NODES)
    single = pod("single", KUBE, LARGE)
    service.plane.api.create(PODS, single)
    within(30, lambda: bool(node_of(service.plane.api, "single")))


@BOTH
def test_a_gang_that_fits_is_bound_as_a_whole(service: Service, gang: Gang) -> None:
    names = gang(service, 4, LARGE, HAMI, LARGE, HAMI)

    within(60, lambda: bound(service, names) == 4)

    cards = [
        grant["card"]
        for node in NODES
        for row in held(service.plane, node).values()
        for grant in row["grants"]
    ]
    assert len({*cards}) == 4


@BOTH
def test_a_gang_that_waits_is_bound_when_all_of_it_has_room(service: Service, gang: Gang) -> None:
    service.plane.api.create(PODS, pod("before", KUBE, LARGE))
    within(30, lambda: bool(node_of(service.plane.api, "before")))
    names = gang(service, 4, *[LARGE] * 4)
    time.sleep(LONG / 4)
    assert bound(service, names) == 0

    service.plane.api.delete(f"{PODS}/before?gracePeriodSeconds=0")

    within(90, lambda: bound(service, names) == 4)


def bound_pods(service: Service, selector: str) -> int:
    return sum(bool(each["spec"].get("nodeName")) for each in pods_of(service.plane.api, selector))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_that_fits_is_bound_as_a_whole(service: Service, workload: Workload) -> None:
    selector = workload(service, 4)

    within(60, lambda: bound_pods(service, selector) == 4)


@pytest.mark.parametrize(
    ("recipe", "path", "selector", "size"),
    [
        ("jobset", JOB_SETS, "jobset.sigs.k8s.io/jobset-name=pretrain", 4),
        ("vllm", DEPLOYMENTS, "app=vllm", 3),
    ],
)
def test_a_recipe_is_bound_as_it_stands(
    service: Service, recipe: str, path: str, selector: str, size: int
) -> None:
    (made,) = example(f"recipes/{recipe}")

    service.plane.api.create(path, made)

    within(60, lambda: bound_pods(service, selector) == size)
    assert sum(len(held(service.plane, node)) for node in NODES) == size


def test_the_workers_of_the_ray_recipe_are_bound_together_and_its_head_at_once(
    service: Service,
) -> None:
    """Pods as KubeRay makes them of its templates; the head requests no share."""
    api = service.plane.api
    (cluster,) = example("recipes/ray-cluster")
    head, (group,) = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    create_all(api, PODS, [pod(name, KUBE, LARGE) for name in ("first", "second")])
    within(30, lambda: bound(service, ["first", "second"]) == 2)
    workers = [f"ray-{number}" for number in range(group["replicas"])]
    for name, each in [("ray-head", head), *((name, group) for name in workers)]:
        metadata = {**each["template"]["metadata"], "name": name}
        api.create(PODS, {**each["template"], "metadata": metadata})
    time.sleep(LONG / 4)
    assert [bound(service, ["ray-head"]), bound(service, workers)] == [1, 0]

    api.delete(f"{PODS}/first?gracePeriodSeconds=0")

    within(60, lambda: bound(service, workers) == len(workers))


def test_of_workloads_that_do_not_fit_no_pod_is_bound(service: Service) -> None:
    api = service.plane.api
    selectors = [workload(service, 6) for workload in WORKLOADS]
    within(30, lambda: all(len(pods_of(api, each)) == 6 for each in selectors))

    time.sleep(LONG)

    assert [bound_pods(service, each) for each in selectors] == [0] * len(WORKLOADS)
    assert not any(held(service.plane, node) for node in NODES)


def test_each_group_of_a_leader_worker_set_is_a_gang_by_a_policy(service: Service) -> None:
    """Room for four pods, and two groups of three: one is bound, and nothing of the other."""
    add_policy(service.plane.api)
    try:
        selector = worker_sets(service, 2, 3)
        one_of_two_groups_is_bound(service, selector)
    finally:
        service.plane.api.delete(BINDINGS)
        service.plane.api.delete(POLICIES)


def test_each_group_of_a_leader_worker_set_is_a_gang_of_volcano(service: Service) -> None:
    one_of_two_groups_is_bound(service, worker_sets_of_volcano(service, 2, 3))


def one_of_two_groups_is_bound(service: Service, selector: str) -> None:
    api = service.plane.api
    within(60, lambda: 3 in bound_by_group(api, selector))
    time.sleep(LONG / 2)

    assert len(pods_of(api, selector)) == 6
    assert sorted(bound_by_group(api, selector)) == [0, 3]


def test_the_example_of_a_gang_of_kubernetes_is_accepted(service: Service) -> None:
    collections = {"PodGroup": POD_GROUPS, "Pod": PODS}
    found = [each for each in example("gang-kubernetes") if each["kind"] in collections]

    for each in found:
        path = f"{collections[each['kind']]}?dryRun=All&fieldValidation=Strict"
        service.plane.api.call("POST", path, each)

    assert {each["kind"] for each in found} == collections.keys()


@pytest.mark.parametrize("path", [JOB_SETS, WORKER_SETS])
def test_their_definitions_do_not_know_the_groups_of_kubernetes(
    service: Service, path: str
) -> None:
    """The API server drops the field without a word, unless asked to be strict."""
    api = service.plane.api
    file = "gang-jobset" if path == JOB_SETS else "gang-lws"
    *_, made = example(file)
    found = made["spec"]
    template = (
        found["replicatedJobs"][0]["template"]["spec"]["template"]
        if path == JOB_SETS
        else found["leaderWorkerTemplate"]["workerTemplate"]
    )
    template["spec"]["schedulingGroup"] = {"podGroupName": "train"}

    with pytest.raises(ApiError, match=r'unknown field "spec\..*\.schedulingGroup"'):
        api.create(f"{path}?dryRun=All&fieldValidation=Strict", made)


def test_a_resize_that_waits_evicts_for_processors_and_changes_no_card(service: Service) -> None:
    """Also where the pod's gang has lost another one since.

    kwok's pods have no kubelet: the test states what it says of resources and of the resize.
    """
    plane = service.plane
    api = plane.api
    add_priorities(api)
    file = kube_like(service, "kube-scheduler-config.yaml", "resizing")
    with turn(partial(start_kube_scheduler, plane, file, gates=RESIZE_GATE), plane):
        on_left = {"nodeSelector": {"kubernetes.io/hostname": "left"}}
        few = {**LARGE, "cpu": "4"}
        gang = [
            pod(name, "resizing", few, priority="high", **on_left) for name in ("grows", "goes")
        ]
        for each in gang:
            each["metadata"]["annotations"] = {f"{GANG}/name": "two", f"{GANG}/min-available": "2"}
        busy = pod("busy", "resizing", {"cpu": "20"}, priority="low", **on_left)
        create_all(api, PODS, [*gang, busy])
        within(30, lambda: all(phase(api, name) == "Running" for name in ("grows", "goes", "busy")))
        api.delete(f"{PODS}/goes?gracePeriodSeconds=0")
        within(30, lambda: held(plane, "left").keys() == {"grows"})
        before, asked = held(plane, "left"), len(outcomes(service, "grows", "filter"))

        state = {"name": "main", "resources": {"limits": few, "requests": few}}
        patch(api, "grows/status", {"status": {"containerStatuses": [state]}})
        more = {"limits": {"cpu": "20"}, "requests": {"cpu": "20"}}
        patch(api, "grows/resize", {"spec": {"containers": [{"name": "main", "resources": more}]}})
        waits = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
        patch(api, "grows/status", {"status": {"conditions": [waits]}})

        within(30, lambda: phase(api, "busy") == "gone")
        within(30, lambda: len(outcomes(service, "grows", "filter")) > asked)
        assert {*outcomes(service, "grows", "filter")[:-asked]} == {"fits"}
        assert held(plane, "left") == before
        assert node_of(api, "grows") == "left"


def patch(api: Api, place: str, body: Object) -> None:
    """Patch a part of a pod of the default namespace."""
    api.call("PATCH", f"{PODS}/{place}", body, "application/strategic-merge-patch+json")


def phase(api: Api, name: str) -> str:
    there = {row["metadata"]["name"]: row for row in api.get(PODS)["items"]}
    return str(there[name]["status"]["phase"]) if name in there else "gone"


def test_gangs_of_three_schedulers_at_once_are_bound_as_a_whole(service: Service) -> None:
    """A gang that is bound makes room for the others.

    The service stays up: koord-scheduler 1.8.0 panics where an extender does not answer about a
    gang's pod (``runPreEnqueuePlugin``, assignment to entry in nil map).
    """
    random = Random(7)  # noqa: S311
    kinds = (by_kubernetes, by_koordinator, by_volcano)
    gangs: list[list[str]] = []
    for number in range(GANGS):
        size = random.choice((2, 2, 3, 4))
        shares = [random.choice((LARGE, HAMI)) for _ in range(size)]
        make = kinds[number % len(kinds)]
        gangs.append(make(service, size, *(shares if make is not by_volcano else [LARGE] * size)))
    first: dict[str, float] = {}

    def waiting() -> str:
        return str({each: events(service.plane.api, each) for names in gangs for each in names})

    def left() -> bool:
        there = {row["metadata"]["name"]: row for row in service.plane.api.get(PODS)["items"]}
        for names in [*gangs]:
            placed = sum(bool(there[name]["spec"].get("nodeName")) for name in names)
            if placed == len(names):
                gangs.remove(names)
                for name in names:
                    service.plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
            elif placed:
                since = first.setdefault(names[0], time.monotonic())
                assert time.monotonic() - since < LATE, waiting()
        return not gangs

    within(200, left, waiting)

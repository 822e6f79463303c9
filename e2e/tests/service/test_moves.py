"""Plans of moves under stock schedulers: what is planned is what happens, or nothing more.

The plan is made and carried out by the command, its pods are made again by kube-controller-manager.
Pods that would fit the holes come all the time.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from time import sleep

import pytest

from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.node_ledgers import held, ledger, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, clear, events, node_of, pod, turn
from e2e.harness.names import CORE, RATIO
from e2e.harness.processes.repeating import repeating
from e2e.harness.processes.run import REPOSITORY, run
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
from e2e.harness.schedulers.mover import PLANS, MoverProcess, start_mover
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.inventory import described, gpus, volcano
from e2e.harness.workloads.storm import described_by_all

pytestmark = [pytest.mark.local, pytest.mark.timeout(420)]

NODES = ("node-0", "node-1", "node-2")
MIXED = ("mixed-0", "mixed-1")
PLAIN, ALL = {"pool": "plain"}, {"pool": "all-dialects"}
CARD = 81920
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
ENDED = ("Finished", "Stopped")
SPREAD = {"node": "spread", "card": "spread"}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with run() as this:
        plane = start_control_plane(this)
        prepare(plane)
        nodes = [described(name, volcano(gpus(name, 2))) for name in NODES]
        mixed = [described_by_all(name, gpus(name, 2)) for name in MIXED]
        for pool, rows in ((PLAIN, nodes), (ALL, mixed)):
            for row in rows:
                row.node["metadata"]["labels"] |= pool
        add_ready_nodes(plane, [*nodes, *mixed])
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    made = start_service(plane, publish=["volcano"], moves={"enabled": True}, policy=SPREAD)
    wait_for_cards(plane, (*NODES, *MIXED))
    with webhooks(made):
        yield made


@pytest.fixture(scope="module")
def mover(plane: ControlPlane, service: Service) -> MoverProcess:  # noqa: ARG001 (its rights)
    return start_mover(plane)


@pytest.fixture(autouse=True)
def _cleared(plane: ControlPlane, service: Service) -> Iterator[None]:
    yield
    clear(plane.api, PLANS, DEPLOYMENTS, BUDGETS)
    wait_until_free(plane, *NODES, *MIXED)
    within(30, lambda: not any(ledger(plane, node).get("holds") for node in (*NODES, *MIXED)))
    within(60, partial(has_no_reservation, service))


def has_no_reservation(service: Service) -> bool:
    """Whether no plan of vc-scheduler takes room for a pod that is gone; it does for 30 s."""
    service.ask("/extender/filter", {"Pod": waiting("asked", KUBE, 1000), "NodeNames": []})
    return "dragoman_holds 0.0" in service.metrics()


def share(memory: int) -> dict[str, str]:
    return {NUMBER: "1", MEMORY: str(memory)}


def waiting(name: str, scheduler: str, memory: int) -> Object:
    """A pod for a card of Volcano's dialect alone."""
    return pod(name, scheduler, share(memory), nodeSelector=PLAIN)


def deploy(
    plane: ControlPlane,
    name: str,
    asked: dict[str, str],
    scheduler: str = KUBE,
    replicas: int = 1,
    pool: dict[str, str] = PLAIN,
) -> None:
    """Run a Deployment whose pods request this, on the nodes of a pool."""
    made = pod(name, scheduler, asked, nodeSelector=pool)
    labels = {"app": name}
    plane.api.create(
        DEPLOYMENTS,
        {
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": made["spec"]},
            },
        },
    )
    within(60, partial(is_bound, plane, name, replicas))


def pods_of(plane: ControlPlane, name: str) -> list[Object]:
    """The pods of a Deployment that are not being deleted."""
    rows: list[Object] = plane.api.get(f"{PODS}?labelSelector=app%3D{name}")["items"]
    return [row for row in rows if "deletionTimestamp" not in row["metadata"]]


def is_bound(plane: ControlPlane, name: str, replicas: int = 1) -> bool:
    found = [row["spec"].get("nodeName") for row in pods_of(plane, name)]
    return len(found) == replicas and all(found)


def fill(plane: ControlPlane, scheduler: str, memory: int = 30000) -> list[str]:
    """A pod on each card, of a Deployment each, with less than half of it; their names."""
    names = [f"web-{number}" for number in range(2 * len(NODES))]
    for name in names:
        deploy(plane, name, share(memory), scheduler)
    return names


def dragoman(*words: str | Path, input_: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dragoman", *words]
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}
    return subprocess.run(
        command, input=input_, env=environment, capture_output=True, text=True, check=False
    )


def planned(plane: ControlPlane, *words: str) -> Object:
    """The plan that the command makes of the cluster."""
    admin = plane.kubeconfig("admin", "system:masters")
    done = dragoman("defrag", *words, "-o", "json", "--kubeconfig", admin)
    assert done.returncode in (0, 1), done.stderr
    plan: Object = json.loads(done.stdout)
    return plan


def carried_out(plane: ControlPlane, plan: Object) -> subprocess.CompletedProcess[str]:
    admin = plane.kubeconfig("admin", "system:masters")
    text = json.dumps(plan)
    return dragoman("defrag", "--execute", "-", "--kubeconfig", admin, input_=text)


def create(plane: ControlPlane, plan: Object) -> str:
    """Create the object of a plan; its path."""
    plane.api.create(PLANS, plan)
    return f"{PLANS}/{plan['metadata']['name']}"


def status(plane: ControlPlane, path: str) -> Object:
    found: Object = plane.api.get(path).get("status", {})
    return found


def wait_for_end(plane: ControlPlane, path: str, seconds: float = 180) -> Object:
    within(seconds, lambda: status(plane, path).get("phase") in ENDED)
    return status(plane, path)


@contextmanager
def storm(
    plane: ControlPlane, scheduler: str, memory: int = 45000, failing: int = 5
) -> Iterator[None]:
    """Pods that fit each hole are created all the time; those that wait are deleted again.

    Args:
        plane: the cluster.
        scheduler: of the pods.
        memory: MiB of each.
        failing: how many pods the API server may refuse, while the service is away.
    """
    failures: list[Exception] = []
    numbers = count()
    there: list[str] = []

    def blow() -> None:
        try:
            name = f"storm-{next(numbers)}"
            plane.api.create(PODS, waiting(name, scheduler, memory))
            there.append(name)
            if len(there) > 8:
                plane.api.delete(f"{PODS}/{there.pop(0)}?gracePeriodSeconds=0")
        except (ApiError, OSError) as error:
            failures.append(error)

    with repeating(blow, 0.3):
        yield
    assert len(failures) < failing, failures


def check_moved(plane: ControlPlane, plan: Object) -> None:
    """Each moved pod has just the cards of the plan, and each target its own."""
    for move in plan["spec"]["moves"]:
        name = move["controller"]["name"].rpartition("-")[0]  # of its Deployment
        (again,) = pods_of(plane, name)
        node = move["to"]["node"]
        assert again["spec"]["nodeName"] == node, move
        has = held(plane, node)[again["metadata"]["name"]]
        assert [grant["card"] for grant in has["grants"]] == [
            grant["card"] for grant in move["to"]["grants"]
        ]
    for target in plan["spec"]["targets"]:
        if target["kind"] == "Pod":
            node = target["place"]["node"]
            has = held(plane, node)[target["name"]]
            assert has["grants"][0]["card"] == target["place"]["grants"][0]["card"]


@pytest.mark.parametrize("scheduler", [KUBE, KOORD, VOLCANO])
@pytest.mark.usefixtures("mover")
def test_a_plan_is_carried_out_in_a_storm(
    plane: ControlPlane, service: Service, scheduler: str
) -> None:
    if scheduler == VOLCANO:
        start_volcano_controllers(plane, VOLCANO)  # they make the groups of plain pods
    with turn(starter(service, scheduler), plane):
        fill(plane, scheduler)
        plane.api.create(PODS, waiting("wanted", scheduler, 70000))
        plan = planned(plane, "--for", "pod/wanted")
        assert len(plan["spec"]["moves"]) == 1
        path = f"{PLANS}/{plan['metadata']['name']}"
        admin = plane.kubeconfig("admin", "system:masters")
        text = json.dumps(plan)
        dry = dragoman("defrag", "--execute", "-", "--dry-run", "--kubeconfig", admin, input_=text)
        begun = create(plane, plan)
        within(30, lambda: status(plane, begun).get("phase", "") not in ("", "Waiting"))

        with storm(plane, scheduler):
            done = carried_out(plane, plan)

        print(dry.stdout, done.stdout, done.stderr)
        why = status(plane, path), events(plane.api, "wanted") if done.returncode else ""
        assert done.returncode == 0, why
        within(10, lambda: node_of(plane.api, "wanted"))
        check_moved(plane, plan)
        said = done.stdout.splitlines()
        for line in dry.stdout.splitlines():
            assert any(each.startswith(line) for each in said), (line, said)


@pytest.mark.usefixtures("mover")
def test_a_node_is_emptied_and_stays_empty_until_then(
    plane: ControlPlane, service: Service
) -> None:
    with turn(starter(service, KUBE), plane):
        fill(plane, KUBE)
        plan = planned(plane, "--free-nodes", "1", "--pool", "pool=plain")
        (target,) = plan["spec"]["targets"]
        assert len(plan["spec"]["moves"]) == len(held(plane, target["name"])) > 0
        path = create(plane, plan)
        within(30, lambda: status(plane, path).get("phase", "") not in ("", "Waiting"))

        with storm(plane, KUBE):
            end = wait_for_end(plane, path)
            assert end["phase"] == "Finished", end
            # What comes from now on may go there: the place is kept no longer.

        check_moved(plane, plan)
        names = {*held(plane, target["name"])}
        assert not [name for name in names if name.startswith("web")]


def largest_free(plane: ControlPlane, nodes: Sequence[str]) -> int:
    """MiB that are free on the card with the most."""
    free: dict[str, int] = {}
    for node in nodes:
        found = ledger(plane, node)
        free |= {card["uuid"]: card["memory"] for card in found["cards"]}
        for row in found.get("allocations", ()):
            for grant in row["grants"]:
                free[grant["card"]] -= grant["memory"]
    return max(free.values()) >> 20


@pytest.mark.usefixtures("mover")
def test_the_largest_free_share_is_the_promised_one(plane: ControlPlane, service: Service) -> None:
    with turn(starter(service, KUBE), plane):
        deploy(plane, "shared", {CORE: "10", RATIO: "10"}, replicas=4, pool=ALL)
        fill(plane, KUBE)
        plan = planned(plane, "--largest-share", "80000Mi", "--pool", "pool=plain")
        assert largest_free(plane, NODES) < 80000

        end = wait_for_end(plane, create(plane, plan))

        assert end["phase"] == "Finished", end
        within(30, lambda: largest_free(plane, NODES) >= 80000)
        (promised,) = plan["report"]["freeShares"]
        assert largest_free(plane, [*NODES, *MIXED]) == promised["largestMiB"]["after"]
        check_moved(plane, plan)


@pytest.mark.usefixtures("mover")
def test_pods_of_all_dialects_move(plane: ControlPlane, service: Service) -> None:
    """Each has just the part of a card that the plan says, in the words of its own dialect."""
    asked = {
        "volcano": {**share(20000), "volcano.sh/vgpu-cores": "20"},
        "koordinator": {CORE: "25", RATIO: "25"},
        "metax": {
            "metax-tech.com/sgpu": "1",
            "metax-tech.com/vcore": "20",
            "metax-tech.com/vmemory": "20",
        },
    }
    with turn(starter(service, KUBE), plane):
        for name, resources in asked.items():
            deploy(plane, name, resources, replicas=2, pool=ALL)
        plan = planned(plane, "--free-nodes", "1", "--pool", "pool=all-dialects")
        assert {move["dialect"] for move in plan["spec"]["moves"]} == {*asked}

        end = wait_for_end(plane, create(plane, plan))

        assert end["phase"] == "Finished", end
        (target,) = plan["spec"]["targets"]
        (other,) = {*MIXED} - {target["name"]}
        assert held(plane, target["name"]) == {}
        rows = held(plane, other)
        for move, step in zip(plan["spec"]["moves"], end["steps"], strict=True):
            assert rows[step["replacement"]]["grants"] == move["to"]["grants"]
            assert rows[step["replacement"]]["dialect"] == move["dialect"]


def test_every_process_may_be_killed_at_every_step(
    plane: ControlPlane, service: Service, mover: MoverProcess
) -> None:
    """Whenever the plan goes on, the service, the mover or both are killed and started again."""
    with turn(starter(service, KUBE), plane):
        fill(plane, KUBE)
        for name in ("wanted-0", "wanted-1"):
            plane.api.create(PODS, waiting(name, KUBE, 70000))
        plan = planned(plane)
        assert len(plan["spec"]["moves"]) >= 2
        path = create(plane, plan)
        service.kill()
        service.start()
        within(90, lambda: status(plane, path).get("phase", "") not in ("", "Waiting"))
        seen: list[tuple[str, int]] = []
        with storm(plane, KUBE, failing=1000):
            for turn_ in count():
                now = status(plane, path)
                point = now.get("phase", ""), now.get("step", 0)
                if point[0] in ENDED:
                    break
                assert turn_ < 1000, now
                if point not in seen:
                    seen.append(point)
                    number = len(seen) % 3
                    if number != 1:
                        mover.kill()
                    if number != 0:
                        service.kill()
                        service.start()
                    if number != 1:
                        mover.start()
                else:
                    sleep(0.2)

        print("killed at", seen)
        assert status(plane, path)["phase"] == "Finished", status(plane, path)
        assert len(seen) >= 6
        check_moved(plane, plan)
        within(30, lambda: all(node_of(plane.api, f"wanted-{n}") for n in (0, 1)))


@pytest.mark.usefixtures("mover")
def test_a_budget_is_never_broken(plane: ControlPlane, service: Service) -> None:
    """Two pods of one budget move, the second when the first is ready; a closed budget stops it."""
    with turn(starter(service, KUBE), plane):
        deploy(plane, "pair", share(30000), replicas=2)
        for number in range(4):
            deploy(plane, f"web-{number}", share(30000))
        plane.api.create(BUDGETS, budget(1))
        within(30, lambda: allowed(plane) == 1)
        node = pods_of(plane, "pair")[0]["spec"]["nodeName"]
        low: list[int] = []
        with watched(plane, low):
            plan = planned(plane, "--free-nodes", "1", "--pool", "pool=plain")
            end = wait_for_end(plane, create(plane, plan))
        assert end["phase"] == "Finished", end
        assert min(low) >= 1, node
        check_moved_names(plane, "pair", 2)

        plan = planned(plane, "--largest-share", "70000Mi", "--pool", "pool=plain")
        plane.api.merge(f"{BUDGETS}/pair", {"spec": {"maxUnavailable": 0}})
        closed(plane, plan)


def closed(plane: ControlPlane, plan: Object) -> None:
    """Carry out a plan of which a budget allows no move; nothing is evicted or held."""
    moved = {move["pod"] for move in plan["spec"]["moves"]}
    if not moved & {row["metadata"]["name"] for row in pods_of(plane, "pair")}:
        return
    within(30, lambda: allowed(plane) == 0)
    before = {row["metadata"]["uid"] for row in plane.api.get(PODS)["items"]}
    end = wait_for_end(plane, create(plane, plan))
    assert (end["phase"], "budget" in end["reason"]) == ("Stopped", True), end
    assert {row["metadata"]["uid"] for row in plane.api.get(PODS)["items"]} == before


def budget(unavailable: int) -> Object:
    return {
        "metadata": {"name": "pair"},
        "spec": {"maxUnavailable": unavailable, "selector": {"matchLabels": {"app": "pair"}}},
    }


def allowed(plane: ControlPlane) -> int:
    found = plane.api.get(f"{BUDGETS}/pair")
    if found.get("status", {}).get("observedGeneration") != found["metadata"]["generation"]:
        return -1
    return int(found["status"]["disruptionsAllowed"])


def check_moved_names(plane: ControlPlane, name: str, replicas: int) -> None:
    within(30, lambda: is_bound(plane, name, replicas))


@contextmanager
def watched(plane: ControlPlane, low: list[int]) -> Iterator[None]:
    """Note how many pods of the pair are ready, all the time."""

    def look() -> None:
        low.append(sum(map(is_ready, pods_of(plane, "pair"))))

    with repeating(look, 0.1):
        yield


def is_ready(row: Object) -> bool:
    conditions: Sequence[Object] = row["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_a_plan_that_is_deleted_holds_nothing_and_evicts_no_pod(
    plane: ControlPlane, service: Service, mover: MoverProcess
) -> None:
    mover.kill()
    try:
        with turn(starter(service, KUBE), plane):
            names = fill(plane, KUBE)
            plan = planned(plane, "--largest-share", "70000Mi", "--pool", "pool=plain")
            path = create(plane, plan)
            within(30, lambda: status(plane, path).get("phase") == "Held")
            assert any(ledger(plane, node).get("holds") for node in NODES)
            plane.api.create(PODS, waiting("other", KUBE, 45000))

            plane.api.delete(path)

            within(30, lambda: not any(ledger(plane, node).get("holds") for node in NODES))
            within(60, lambda: node_of(plane.api, "other"))
            assert all(is_bound(plane, name) for name in names)
    finally:
        mover.start()

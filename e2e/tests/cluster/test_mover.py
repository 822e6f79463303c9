"""The mover on a real API server: its rights, disruption budgets, and kill -9 in every step.

The test writes what the service writes into the status of plans.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from signal import SIGKILL

import pytest

from e2e.harness.cluster import chart
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.credentials import connect
from e2e.harness.cluster.ready_cluster import PODS, pod
from e2e.harness.doubles.faults import Act, Fault, Request, answered, cut
from e2e.harness.doubles.proxy import Proxy, proxy
from e2e.harness.names import NAMESPACE
from e2e.harness.processes.process import Process
from e2e.harness.processes.run import REPOSITORY, run
from e2e.harness.processes.waiting import within
from e2e.testbed import cache

pytestmark = pytest.mark.local

PLANS = "/apis/dragoman.dev/v1alpha1/moveplans"
NODES = "/api/v1/nodes"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CONTROLLER = "dragoman.dev/mover"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"

QUICK = """
import sys
from pathlib import Path
from adapters.mover.plans import MoverBounds, MoverSettings
from adapters.mover.main import process_name, serve
settings = MoverSettings(process_name(), MoverBounds(), every=0.1, takeover=1.0)
serve(settings, Path(sys.argv[1]))
"""
"""A mover that ends the steps of another after a second, not after a minute."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with the chart's kinds and rights."""
    with run() as this:
        plane = start_control_plane(this)
        objects = chart.render({"defrag": {"enabled": True}})
        kinds = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        chart.apply(plane, [space, *kinds])
        chart.apply(plane, [each for each in objects if each["kind"] in chart.RIGHTS])
        within(30, lambda: answers(plane.api, PLANS))
        yield plane


def answers(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError:
        return False
    return True


@pytest.fixture
def world(plane: ControlPlane) -> Iterator["World"]:
    made = World(plane)
    yield made
    made.end()


@dataclass(slots=True)
class World:
    """A plan and its pods."""

    plane: ControlPlane
    process: Process | None = None

    def start(self, *words: object) -> Process:
        self.process = self.plane.run.start(
            "mover",
            [sys.executable, *map(str, words)],
            environment={"PYTHONPATH": str(REPOSITORY)},
        )
        return self.process

    def as_account(self) -> Process:
        """The command, with the account of the chart."""
        config = account(self.plane, NAMESPACE, "dragoman-mover")
        return self.start("-m", "dragoman", "mover", "--kubeconfig", config)

    def quick(self, between: Proxy) -> Process:
        return self.start("-c", QUICK, between.config)

    def plan(self, *names: str, **spec: object) -> None:
        """A plan that moves these pods, which are created."""
        moves = [a_move(name, self.create(name)["metadata"]["uid"]) for name in names]
        self.plane.api.create(PLANS, a_plan(moves=moves, **spec))

    def create(self, name: str) -> Object:
        made = pod(name, "none", {"cpu": "1"})
        made["metadata"]["labels"] = {"app": "web"}
        return self.plane.api.create(PODS, made)

    def order(self, phase: str, step: int = 0) -> None:
        """Write what the service writes."""
        status = {"phase": phase, "step": step}
        self.plane.api.merge(f"{PLANS}/defrag-1/status", {"status": status})

    @property
    def status(self) -> Object:
        status: Object = self.plane.api.get(f"{PLANS}/defrag-1").get("status", {})
        return status

    def wait_for(self, phase: str, seconds: float = 30) -> None:
        within(seconds, lambda: self.status.get("phase") == phase, lambda: str(self.status))

    def pods(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.plane.api.get(PODS)["items"]}

    def end(self) -> None:
        if self.process is not None:
            self.process.stop()
        for path in (PODS, PLANS, BUDGETS, EVENTS):
            self.plane.api.delete(path)


def a_plan(**spec: object) -> Object:
    made = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "MovePlan"}
    return {**made, "metadata": {"name": "defrag-1"}, "spec": spec}


def a_move(name: str, uid: str) -> Object:
    grant = {"container": "main", "card": "GPU-1", "memory": 1 << 30, "compute": 50}
    return {
        "namespace": "default",
        "pod": name,
        "uid": uid,
        "dialect": "volcano",
        "controller": {"kind": "ReplicaSet", "name": "app", "uid": "r"},
        "from": {"node": "n1", "grants": [grant]},
        "to": {"node": "n2", "grants": [grant]},
    }


def reasons(api: Api) -> list[str]:
    """The reasons of the mover's Events."""
    events = api.get(EVENTS)["items"]
    return [each["reason"] for each in events if each["reportingController"] == CONTROLLER]


def test_pods_are_evicted_with_the_account_of_the_chart_as_ordered(world: World) -> None:
    world.plan("a", "b")
    mover = world.as_account()
    world.order("Held")
    world.wait_for("Ready")
    assert world.pods() == {"a", "b"}

    for step, left in ((1, {"b"}), (2, set[str]())):
        world.order("Evict", step)
        world.wait_for("Evicted")
        assert world.pods() == left
        assert [each["step"] for each in world.status["steps"]] == [*range(1, step + 1)]

    assert world.status["moves"] == 2
    within(10, lambda: reasons(world.plane.api) == ["Moved", "Moved"])
    mover.stop()
    assert mover.popen.returncode == 0, mover.output()
    assert mover.output().count('"pod.evicted"') == 2


def test_a_budget_that_forbids_it_stops_a_plan(world: World) -> None:
    world.plan("guarded")
    running(world.plane.api, "guarded")
    guard(world.plane.api)
    world.as_account()

    world.order("Held")
    world.wait_for("Stopped")
    said = world.status["reason"]
    world.order("Evict", 1)
    world.wait_for("Stopped")

    reason = "pod default/guarded cannot be evicted: Cannot evict pod as it would violate"
    assert said.startswith(f"step 1: {reason}")
    assert world.status["reason"].startswith(f"step 1: {reason}")
    assert world.pods() == {"guarded"}
    assert world.status["steps"] == [{"step": 1}]
    within(10, lambda: {*reasons(world.plane.api)} == {"NotMoved"})


def running(api: Api, name: str) -> None:
    """Write what a kubelet writes."""
    api.create(NODES, {"metadata": {"name": "n1"}})
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    api.create(f"{PODS}/{name}/binding", body)
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "conditions": [ready]}
    api.merge(f"{PODS}/{name}/status", {"status": status})


def guard(api: Api) -> None:
    """A budget that allows no disruption of the pod, and is in force."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    api.create(BUDGETS, {"metadata": {"name": "guard"}, "spec": spec})
    within(30, lambda: api.get(f"{BUDGETS}/guard").get("status", {}).get("currentHealthy") == 1)


@pytest.mark.refusals
def test_the_account_may_evict_and_do_nothing_else_to_workloads(world: World) -> None:
    world.plan("a")
    own = connect(account(world.plane, NAMESPACE, "dragoman-mover"))
    within(20, lambda: answers(own, PLANS))
    spec = {"spec": {"podSeconds": 60}}

    def refused(verb: str, path: str, body: Object | None = None) -> bool:
        kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        try:
            own.call(verb, path, body, kind)
        except ApiError as error:
            return error.status == 403
        return False

    assert refused("GET", PODS)
    assert refused("GET", f"{PODS}/a")
    assert refused("DELETE", f"{PODS}/a")
    assert refused("PATCH", f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}})
    assert refused("PATCH", f"{PLANS}/defrag-1", spec)
    assert refused("POST", PLANS, a_plan(moves=[]))
    assert refused("DELETE", f"{PLANS}/defrag-1")
    assert refused("GET", "/apis/dragoman.dev/v1alpha1/nodeledgers")
    own.merge(f"{PLANS}/defrag-1/status", {"status": {"phase": "Held"}})
    assert world.status["phase"] == "Held"
    assert "podSeconds" in world.plane.api.get(f"{PLANS}/defrag-1")["spec"]


def test_a_plan_never_changes(world: World) -> None:
    world.plan("a", podSeconds=60)
    api = world.plane.api

    changes: list[Object] = [{"podSeconds": 70}, {"moves": []}, {"targets": []}]
    for change in changes:
        with pytest.raises(ApiError, match="a plan never changes"):
            api.merge(f"{PLANS}/defrag-1", {"spec": change})

    api.merge(f"{PLANS}/defrag-1", {"report": {"read": {"by": ["us"]}}})
    assert api.get(f"{PLANS}/defrag-1")["report"] == {"read": {"by": ["us"]}}


def test_kubectl_lists_how_far_a_plan_is(world: World) -> None:
    world.plan("a", "b")
    reason = "pod default/a cannot be evicted"
    status = {"phase": "Stopped", "step": 1, "moves": 2, "reason": reason}
    world.plane.api.merge(f"{PLANS}/defrag-1/status", {"status": status})
    config = world.plane.kubeconfig("admin", "system:masters")
    kubectl = cache.binary("kubernetes", "kubectl")

    listed = subprocess.run(
        [kubectl, "--kubeconfig", config, "get", "mp"], capture_output=True, text=True, check=True
    ).stdout.splitlines()

    assert listed[0].split() == ["NAME", "PHASE", "STEP", "MOVES", "REASON", "AGE"]
    assert listed[1].split()[:-1] == ["defrag-1", "Stopped", "1", "2", *reason.split()]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"moves": None}, "spec.moves"),
        ({"podSeconds": 9}, "spec.podSeconds"),
        ({"podSeconds": 86401}, "spec.podSeconds"),
        ({"moves": [{**a_move("a", "u"), "pod": "a/b"}]}, r"spec.moves\[0\].pod"),
        ({"moves": [{**a_move("a", "u"), "uid": ""}]}, r"spec.moves\[0\].uid"),
        ({"moves": [a_move("a", "u")] * 513}, "spec.moves"),
        ({"targets": [{"kind": "Job", "name": "a", "afterStep": 1}]}, r"spec.targets\[0\].kind"),
    ],
)
def test_the_api_server_rejects_a_plan_that_is_not_valid(
    world: World, change: Object, field: str
) -> None:
    spec = {"moves": [a_move("a", "u")], **change}

    with pytest.raises(ApiError, match=field):
        world.plane.api.create(PLANS, a_plan(**spec))


def test_the_largest_plan_can_be_stored_and_read(world: World) -> None:
    moves = [a_move(f"pod-{number}", f"u{number}") for number in range(512)]
    place = moves[0]["to"]
    targets = [
        {"kind": "Pod", "namespace": "ml", "name": f"t{n}", "afterStep": 1, "place": place}
        for n in range(1024)
    ]

    world.plane.api.create(PLANS, a_plan(moves=moves, targets=targets))
    world.order("Stopped")

    assert len(world.plane.api.get(f"{PLANS}/defrag-1")["spec"]["targets"]) == 1024


def is_taken(request: Request) -> bool:
    return request.path.endswith("defrag-1/status") and b'"phase":"Evict"' in request.body


def is_evicted(request: Request) -> bool:
    return request.path.endswith("/pods/a/eviction")


def is_reported(request: Request) -> bool:
    return request.path.endswith("defrag-1/status") and b'"phase":"Evicted"' in request.body


Kill = Callable[[], None]
MOMENTS: dict[str, Callable[[Kill], Act]] = {
    "before": lambda kill: cut(done=False, first=kill),
    "as it is done": lambda kill: cut(done=True, first=kill),
    "after": answered,
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("write", [is_taken, is_evicted, is_reported])
def test_a_step_whose_mover_is_killed_is_ended_by_the_next_one(
    world: World, write: Callable[[Request], bool], moment: str
) -> None:
    world.plan("a", "b")
    with proxy(world.plane, "mover") as between:
        first = world.quick(between)

        def kill() -> None:
            first.identity.signal_group(SIGKILL)

        fault = Fault(write, MOMENTS[moment](kill))
        between.faults.append(fault)
        world.order("Evict", 1)
        assert fault.done.wait(30)
        first.wait()
        second = world.quick(between)
        world.wait_for("Evicted")
        done = [request for request in between.writes if is_evicted(request)]
        second.stop()

    assert world.pods() == {"b"}
    (entry,) = world.status["steps"]
    assert entry["step"] == 1
    assert entry["evictedAt"]
    assert len(done) <= 2

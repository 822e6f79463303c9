"""Faults around the service, and what happens to cards and pods."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from e2e.harness.cluster import audit
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import FREED, held, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, clear, cluster, events, node_of, pod
from e2e.harness.doubles.faults import (
    Act,
    Fault,
    Request,
    answered,
    cut,
    failing_after,
    refusing,
    silent,
    slow,
)
from e2e.harness.doubles.proxy import Proxy, proxy
from e2e.harness.names import LEASES
from e2e.harness.processes.clock import Clock
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.schedulers.service import Service, install, kube_like, start_service
from e2e.tests.service.driving import asleep, started
from e2e.tests.service.eight_gpu_node import FIT, METAX, VOLCANO, bound, eight_gpu_node, violations

pytestmark = [pytest.mark.local, pytest.mark.timeout(300)]

NODE = "eight"
HOURS = 3600
LEASE = f"{LEASES}/dragoman-reconciler"
WATCHED = ("pods", "nodes", "nodeledgers")


@dataclass
class World:
    """A cluster with a scheduler, the service that it asks through a proxy, and two more of these.

    Attributes:
        service: asked by the scheduler; what it asks the API server goes through the proxy.
        other: no scheduler asks it; it has the Lease.
        deaf: no scheduler asks it; its watches are open and silent since the tests began.
        ears: the proxy of the deaf one.
        clocks: of service and other.
    """

    plane: ControlPlane
    proxy: Proxy
    service: Service
    other: Service
    deaf: Service
    ears: Proxy
    clocks: tuple[Clock, Clock]

    def is_bound(self, *names: str, patience: float = 60) -> float:
        """Wait until pods are bound; check cards and ledger. The seconds that took."""

        def missing() -> list[str]:
            return [name for name in names if not node_of(self.plane.api, name)]

        try:
            seconds = within(patience, lambda: not missing())
        except TimeoutError as late:
            seen = {name: events(self.plane.api, name) for name in missing()}
            said = self.service.get("/api/decisions")
            raise AssertionError(f"{late}: {seen}\n{json.dumps(said, indent=1)}") from late
        self.is_settled()
        return seconds

    def is_settled(self, patience: float = FREED) -> None:
        """No card is allocated twice now, and after a while only bound pods hold one."""
        assert violations(self.plane, NODE) == []
        within(patience, lambda: held(self.plane, NODE).keys() == bound(self.plane.api).keys())
        assert violations(self.plane, NODE) == []

    def kill(self) -> None:
        """Kill -9 the service, from wherever this is called; ``Service.kill`` must follow."""
        assert self.service.process is not None
        self.service.process.identity.signal_group(signal.SIGKILL)

    def lease(self) -> Object:
        """The Lease of the leader."""
        found: Object = self.plane.api.get(LEASE)["spec"]
        return found

    def said(self) -> str:
        """All that the service has logged so far."""
        assert self.service.process is not None
        return self.service.process.log.read_text()


@pytest.fixture(scope="module")
def built() -> Iterator[World]:
    with ExitStack() as stack:
        plane = stack.enter_context(cluster([eight_gpu_node(NODE).node]))
        install(plane)
        folder = plane.run.folder
        mine, others = Clock.create(folder, "mine"), Clock.create(folder, "others")
        other = start_service(plane, "other", environment=others.environment)
        within(60, lambda: "dragoman_reconciler_leader 1.0" in other.metrics())
        ears = stack.enter_context(proxy(plane, "deaf"))
        deaf = start_service(plane, "deaf", kubeconfig=str(ears.config))
        for each in ears.watches.copy():
            each.silent = True
        between = stack.enter_context(proxy(plane, "proxied"))
        service = start_service(
            plane, "dragoman", kubeconfig=str(between.config), environment=mine.environment
        )
        start_kube_scheduler(plane, kube_like(service, "kube-scheduler-config.yaml", "kube"))
        yield World(plane, between, service, other, deaf, ears, (mine, others))


@pytest.fixture
def world(built: World) -> Iterator[World]:
    yield built
    built.proxy.faults.clear()
    built.proxy.held.clear()
    for clock in built.clocks:
        clock.jump(0)
    clear(built.plane.api)
    wait_until_free(built.plane, NODE)


def add(world: World, *names: str, scheduler: str = "kube") -> None:
    """Pods of both dialects in turn."""
    bodies = [pod(name, scheduler, (VOLCANO, METAX)[i % 2]) for i, name in enumerate(names)]
    create_all(world.plane.api, PODS, bodies)


def asked_to_bind(service: Service, found: Object) -> str:
    """What a service answers to a scheduler that binds a pod: an error, or nothing."""
    meta = found["metadata"]
    body = {
        "PodName": meta["name"],
        "PodNamespace": "default",
        "PodUID": meta["uid"],
        "Node": NODE,
    }
    return str(service.ask("/extender/bind", body)["Error"])


Where = Callable[[str], Callable[[Request], bool]]


def ledger(name: str) -> Callable[[Request], bool]:
    return lambda request: request.is_ledger(name)


def binding(name: str) -> Callable[[Request], bool]:
    return lambda request: request.is_binding(name)


@contextmanager
def killed_with(world: World, fault: Fault) -> Iterator[None]:
    """For the length of a block the service is dead: killed by a fault, as it bound ``one``."""
    world.proxy.faults.append(fault)
    add(world, "one")
    try:
        assert fault.done.wait(30)
    finally:
        world.service.kill()
    try:
        yield
    finally:
        world.service.start()


KILLS: dict[str, tuple[Where, Callable[[Callable[[], None]], Act]]] = {
    "before the ledger is written": (ledger, lambda kill: cut(done=False, first=kill)),
    "after the ledger is written": (ledger, lambda kill: cut(done=True, first=kill)),
    "as it learns that": (ledger, answered),
    "before the Binding": (binding, lambda kill: cut(done=False, first=kill)),
    "after the Binding": (binding, lambda kill: cut(done=True, first=kill)),
    "as it learns that it is bound": (binding, answered),
}


@pytest.mark.parametrize("point", KILLS)
def test_a_pod_whose_binder_is_killed_is_bound_by_the_next_attempt(
    world: World, point: str
) -> None:
    where, act = KILLS[point]

    with killed_with(world, Fault(where("one"), act(world.kill))):
        assert violations(world.plane, NODE) == []
        left = sorted(held(world.plane, NODE))

    seconds = world.is_bound("one")
    print(f"killed {point}: the ledger had {left}; bound {seconds:.1f} s after the start")


def test_the_cards_of_a_pod_that_goes_before_its_binder_is_back_are_free_again(
    world: World,
) -> None:
    with killed_with(world, Fault(ledger("one"), cut(done=True, first=world.kill))):
        assert held(world.plane, NODE).keys() == {"one"}

        world.plane.api.delete(f"{PODS}/one?gracePeriodSeconds=0")

        seconds = within(60, lambda: not held(world.plane, NODE))
        print(f"its cards were free again after {seconds:.1f} s")


ANSWERS: dict[str, tuple[Where, Act]] = {
    "ledger-409": (ledger, refusing(409)),
    "ledger-429": (ledger, refusing(429, after_seconds=1)),
    "ledger-500": (ledger, refusing(500)),
    "ledger-503": (ledger, refusing(503, after_seconds=1)),
    "ledger-500-done": (ledger, failing_after(500)),
    "ledger-504-done": (ledger, failing_after(504)),
    "ledger-cut": (ledger, cut(done=False)),
    "ledger-cut-done": (ledger, cut(done=True)),
    "ledger-slow": (ledger, slow(3)),
    "ledger-silent": (ledger, silent(done=False)),
    "ledger-silent-done": (ledger, silent(done=True)),
    "binding-409": (binding, refusing(409)),
    "binding-429": (binding, refusing(429, after_seconds=1)),
    "binding-500": (binding, refusing(500)),
    "binding-503": (binding, refusing(503, after_seconds=1)),
    "binding-500-done": (binding, failing_after(500)),
    "binding-504-done": (binding, failing_after(504)),
    "binding-cut": (binding, cut(done=False)),
    "binding-cut-done": (binding, cut(done=True)),
    "binding-slow": (binding, slow(3)),
    "binding-silent": (binding, silent(done=False)),
    "binding-silent-done": (binding, silent(done=True)),
}


def test_the_pod_is_bound_in_the_end_for_each_answer_of_the_api_server(world: World) -> None:
    faults = {name: Fault(where(name), act) for name, (where, act) in ANSWERS.items()}
    world.proxy.faults += faults.values()

    add(world, *faults)

    seconds = world.is_bound(*faults, patience=120)
    assert [name for name, fault in faults.items() if fault.times] == []
    print(f"{len(faults)} pods bound after {seconds:.1f} s")
    said = world.said()
    assert "the proxy says so" in said
    assert "did not confirm the Binding" in said


def test_after_an_outage_of_the_api_server_all_pods_are_bound(world: World) -> None:
    before = [f"before-{number}" for number in range(10)]
    add(world, *before)
    within(60, lambda: len(bound(world.plane.api)) >= 3)
    processes = world.plane.run.processes
    (server,) = [each for each in processes if each.name == "kube-apiserver"]

    server.identity.signal_group(signal.SIGKILL)
    server.popen.wait()
    processes.remove(server)
    time.sleep(1)
    assert isinstance(server.popen.args, list)
    command = [str(word) for word in server.popen.args]
    world.plane.run.start("kube-apiserver", command, ready=world.plane.api.is_ready)
    # Until it is ready it may not know any roles yet, and then it forbids what they allow.
    print("refused by a server that was not ready:", audit.refused(world.plane.run.folder))

    after = [f"after-{number}" for number in range(10)]
    add(world, *after)
    seconds = world.is_bound(*before, *after, patience=120)
    print(f"all pods bound {seconds:.1f} s after the API server was back")
    assert "watch.failed" in world.said()


def test_watches_that_have_expired_begin_again(world: World) -> None:
    add(world, "first")
    world.is_bound("first")
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    line = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    within(60, lambda: all(world.proxy.of(plural) for plural in WATCHED))
    earlier = [each for plural in WATCHED for each in world.proxy.of(plural)]

    for each in earlier:
        each.last = line

    within(30, lambda: all(set(world.proxy.of(plural)) - {*earlier} for plural in WATCHED))
    add(world, "second")
    world.is_bound("second")
    world.plane.api.delete(f"{PODS}/first?gracePeriodSeconds=0")
    within(30, lambda: [row["name"] for row in world.service.get("/api/pods")] == ["second"])
    assert "410 Expired: too old" in world.said()


def test_a_service_with_a_stale_cache_allocates_no_card_twice(world: World) -> None:
    api = world.plane.api
    world.proxy.held |= {"pods", "nodeledgers"}
    by_other = [f"other-{number}" for number in range(FIT - 4)]
    add(world, *by_other, scheduler="no-scheduler")
    there = {row["metadata"]["name"]: row for row in api.get(PODS)["items"]}
    assert [asked_to_bind(world.other, there[name]) for name in by_other] == [""] * len(by_other)

    add(world, *(f"mine-{number}" for number in range(8)))
    within(60, lambda: len(bound(api)) == FIT)
    within(60, lambda: sum("short" in str(events(api, f"mine-{n}")) for n in range(8)) >= 4)
    assert violations(world.plane, NODE) == []
    for name in by_other[:10]:
        api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    add(world, by_other[0], scheduler="no-scheduler")
    again = api.get(f"{PODS}/{by_other[0]}")
    within(60, lambda: len(held(world.plane, NODE)) == FIT - 10)
    assert asked_to_bind(world.service, again) == ""
    assert violations(world.plane, NODE) == []

    world.proxy.held.clear()

    seconds = world.is_bound(*(f"mine-{number}" for number in range(8)))
    print(f"those that waited were bound {seconds:.1f} s after the watches went on")
    assert len(bound(api)) == FIT - 10 + 1 + 4
    within(30, lambda: len(world.service.get("/api/pods")) == len(bound(api)))


def test_clocks_that_jump_move_neither_the_lease_nor_a_binding_that_is_under_way(
    world: World,
) -> None:
    before = world.lease()
    world.proxy.faults.append(Fault(binding("one"), slow(6)))
    add(world, "one")
    within(30, lambda: "one" in held(world.plane, NODE))

    for mine, others in ((6, -6), (-30, 30), (0, -2)):
        world.clocks[0].jump(mine * HOURS)
        world.clocks[1].jump(others * HOURS)
        written = world.lease()["renewTime"]
        within(30, lambda since=written: world.lease()["renewTime"] != since)  # type: ignore[misc]
        assert "one" in held(world.plane, NODE), "its Binding is on its way"

    world.is_bound("one")
    began = time.monotonic()
    within(60, lambda: world.lease()["renewTime"] != written and time.monotonic() - began > 17)
    assert world.lease()["holderIdentity"] == before["holderIdentity"]
    assert world.lease().get("leaseTransitions") == before.get("leaseTransitions")


def test_a_leader_that_is_killed_and_starts_again_leads_where_no_other_can(world: World) -> None:
    before, plane = world.lease(), world.plane
    # However long its start takes, the others wait.
    with asleep(started(plane, "dragoman")), asleep(started(plane, "deaf")):
        world.other.kill()
        written = world.lease()["renewTime"]
        world.other.start()
        within(60, lambda: world.lease()["renewTime"] != written)
        after = world.lease()

    same = ("holderIdentity", "acquireTime", "leaseTransitions")
    assert [after.get(each) for each in same] == [before.get(each) for each in same]


def test_watches_that_go_dead_without_a_word_are_noticed_and_begin_again(world: World) -> None:
    seconds = within(200, lambda: all(world.ears.of(plural) for plural in WATCHED))
    print(f"it heard again after another {seconds:.1f} s")

    add(world, "one")

    world.is_bound("one")
    within(30, lambda: [row["name"] for row in world.deaf.get("/api/pods")] == ["one"])

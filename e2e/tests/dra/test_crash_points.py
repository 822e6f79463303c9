"""The arbiter is killed as it commits a claim, and writes of claims fail after it has committed.

The ledger is written first and the claim second. Whatever happens between them, both have the same
in the end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from signal import SIGKILL

import pytest

from adapters.repairs.repairs import RELEASED
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held
from e2e.harness.cluster.ready_cluster import PODS, events, node_of
from e2e.harness.doubles.faults import Act, Fault, Request, answered, cut
from e2e.harness.doubles.proxy import Proxy, proxy
from e2e.harness.doubles.recorder import Answer, Recorder, recorder
from e2e.harness.doubles.webhook import allow, refuse, webhook
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import CARDS, CLAIMS, GIB, NODE, SCHEDULERS
from e2e.tests.dra.arbiter import add, end, is_asked, wait_for_ledger

pytestmark = pytest.mark.local("the API server admits no claims of other modules")

LABEL = "dragoman.dev/crash-points"
VERB = "zzz"
"""The verb of a webhook that the API server asks after ours."""


@dataclass(frozen=True, slots=True)
class World:
    """The arbiter, and the proxy between it and the API server; another replica is the leader."""

    plane: ControlPlane
    service: Service
    proxy: Proxy

    def kill(self) -> None:
        """Kill -9 the service, from wherever this is called; ``Service.kill`` must follow."""
        assert self.service.process is not None
        self.service.process.identity.signal_group(SIGKILL)

    def wait_until_bound(self, *names: str) -> None:
        """Wait until pods are bound; then the ledger has what their claims have."""
        api = self.plane.api
        within(60, lambda: all(node_of(api, name) == NODE for name in names))
        within(60, self.agrees)

    def agrees(self) -> bool:
        """Whether the ledger has just what the claims have."""
        rows = held(self.plane, NODE).items()
        ledger = {
            (name, each["card"], each["memory"]) for name, row in rows for each in row["grants"]
        }
        return ledger == self._allocated()

    def _allocated(self) -> set[tuple[str, str, int]]:
        found = set()
        for claim in self.plane.api.get(CLAIMS)["items"]:
            allocation = claim.get("status", {}).get("allocation") or {}
            for result in allocation.get("devices", {}).get("results", ()):
                card = CARDS[int(result["device"].removeprefix("gpu-"))]
                memory = int(result["consumedCapacity"]["memory"].removesuffix("Gi")) * GIB
                found.add((claim["metadata"]["name"], card, memory))
        return found


@pytest.fixture(scope="module")
def built(plane: ControlPlane) -> Iterator[World]:
    dra = {"claims": True, "arbiter": True}
    leader = start_service(plane, "leader", dra=dra)  # a killed one keeps the Lease for a while
    within(60, lambda: "dragoman_reconciler_leader 1.0" in leader.metrics())
    with proxy(plane, "claims") as between:
        service = start_service(plane, kubeconfig=str(between.config), dra=dra)
        wait_for_ledger(plane)
        with webhooks(service):
            within(60, lambda: is_asked(service))
            yield World(plane, service, between)
        service.stop()
    leader.stop()


@pytest.fixture
def world(built: World) -> Iterator[World]:
    end(built.plane)
    yield built
    built.proxy.faults.clear()
    end(built.plane)


def commit(request: Request) -> bool:
    return request.is_ledger("one")


Kill = Callable[[], None]
POINTS: dict[str, Callable[[Kill], Act]] = {
    "before the ledger is written": lambda kill: cut(done=False, first=kill),
    "between ledger and claim": lambda kill: cut(done=True, first=kill),
    "as it learns that the ledger is written": answered,
}


@pytest.mark.parametrize("point", POINTS)
def test_a_claim_whose_arbiter_is_killed_is_allocated_by_the_next_attempt(
    world: World, point: str
) -> None:
    fault = Fault(commit, POINTS[point](world.kill))
    world.proxy.faults.append(fault)

    add(world.plane.api, "one", SCHEDULERS[0], 20 * GIB)
    assert fault.done.wait(30)
    world.service.kill()
    was_written = "one" in held(world.plane, NODE)
    world.service.start()

    world.wait_until_bound("one")
    assert was_written == ("before" not in point)


def test_an_arbiter_that_is_killed_after_the_claim_was_written_finds_it_again(
    world: World,
) -> None:
    api = world.plane.api
    add(api, "one", SCHEDULERS[0], 20 * GIB)
    within(60, lambda: "allocation" in api.get(f"{CLAIMS}/one").get("status", {}))

    world.service.kill()
    world.service.start()

    world.wait_until_bound("one")


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_claim_that_no_scheduler_tries_again_after_its_arbiter_was_killed_holds_nothing(
    world: World, is_deleted: bool
) -> None:
    """The ledger was written. One that stays is changed, so that no late write allocates it."""
    api = world.plane.api
    fault = Fault(commit, cut(done=True, first=world.kill))
    world.proxy.faults.append(fault)
    add(api, "one", SCHEDULERS[0], 60 * GIB)
    assert fault.done.wait(30)
    world.service.kill()
    assert "one" in held(world.plane, NODE)

    api.delete(f"{PODS}/one?gracePeriodSeconds=0")
    if is_deleted:
        api.delete(f"{CLAIMS}/one")
    world.service.start()

    within(60, world.agrees)
    if not is_deleted:
        assert RELEASED in api.get(f"{CLAIMS}/one")["metadata"]["annotations"]
    for name in ("two", "three"):
        add(api, name, SCHEDULERS[0], 60 * GIB)
    world.wait_until_bound("two", "three")


@pytest.fixture
def after(world: World) -> Iterator[Recorder]:
    """A webhook that the API server asks about claims after ours."""
    plane = world.plane
    plane.api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {LABEL: ""}}})
    pair = plane.authority.server("after")
    with recorder(pair) as made:
        made.answers[VERB] = allow
        resources = ["resourceclaims/status"]
        with webhook(
            plane, made, VERB, resources, LABEL, group="resource.k8s.io", operation="UPDATE"
        ):
            within(60, lambda: is_asked(world.service) and bool(made.calls))
            within(60, world.agrees)
            made.calls.clear()
            yield made
    plane.api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {LABEL: None}}})


def first(count: int, answer: Answer) -> Answer:
    """An answer to the first calls; the others are allowed."""
    calls = 0

    def given(call: object) -> object:
        nonlocal calls
        calls += 1
        return answer(call) if calls <= count else allow(call)  # type: ignore[arg-type]

    return given


def test_a_claim_that_another_webhook_rejects_after_ours_is_allocated_later(
    world: World, after: Recorder
) -> None:
    api = world.plane.api
    after.answers[VERB] = first(2, lambda call: refuse(call, "not on Mondays", 403))

    add(api, "one", SCHEDULERS[0], 20 * GIB)
    within(60, lambda: any("not on Mondays" in row for row in events(api, "one")))

    world.wait_until_bound("one")
    assert len(after.of(VERB)) >= 3


def test_a_claim_that_changes_while_it_is_committed_is_written_again(
    world: World, after: Recorder
) -> None:
    """The API server answers the scheduler with 409, who reads the claim and writes once more."""
    api = world.plane.api

    def changed(call: object) -> object:
        api.merge(f"{CLAIMS}/one", {"metadata": {"annotations": {"example.com/edited": "yes"}}})
        return allow(call)  # type: ignore[arg-type]

    after.answers[VERB] = first(1, changed)

    add(api, "one", SCHEDULERS[0], 20 * GIB)

    world.wait_until_bound("one")
    annotations = api.get(f"{CLAIMS}/one")["metadata"]["annotations"]
    assert annotations["example.com/edited"] == "yes"
    assert len(after.of(VERB)) >= 2


def test_a_claim_that_another_webhook_never_lets_through_is_free_when_it_is_deleted(
    world: World, after: Recorder
) -> None:
    """What is committed and not allocated keeps its card until the claim is deleted."""
    api = world.plane.api
    after.answers[VERB] = first(1000, lambda call: refuse(call, "never", 403))
    add(api, "one", SCHEDULERS[0], 60 * GIB)
    within(60, lambda: any("never" in row for row in events(api, "one")))
    assert "one" in held(world.plane, NODE)

    end(world.plane)

    after.answers[VERB] = allow
    for name in ("two", "three"):
        add(api, name, SCHEDULERS[1], 60 * GIB)
    world.wait_until_bound("two", "three")

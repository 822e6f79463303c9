"""Shadow claims: a stock kube-scheduler, asked by no webhook, knows what others have of a card."""

from collections.abc import Callable, Iterator

import pytest

from e2e.harness.cluster.api import ApiError
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.ready_cluster import PODS, clear, node_of, pod, wait_for_nodes
from e2e.harness.names import NAMESPACE
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, start_service, with_decisions
from e2e.harness.workloads.claims import (
    CLAIMS,
    GIB,
    RESOURCES,
    a_card,
    a_slice,
    allocated,
    claim_share,
)
from e2e.harness.workloads.inventory import add_inventory, described, gpus, volcano
from e2e.tests.dra.shares import SHADOWS, bind_share, shadows

pytestmark = pytest.mark.local("the schedulers are of this control plane")

NODE = "shared-node"
CARDS = tuple(card.uuid for card in gpus(NODE, 2))


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    """A service that publishes shadow claims, and a node that Volcano and a driver describe."""
    add_inventory(plane.api, [described(NODE, volcano(gpus(NODE, 2)))])
    wait_for_nodes(plane.api)
    cards = [a_card(number, uuid) for number, uuid in enumerate(CARDS)]
    made_slice = plane.api.create(f"{RESOURCES}/resourceslices", a_slice(NODE, cards))
    made = start_service(plane, dra={"claims": True, "shadows": True})
    within(60, lambda: len(ledger(plane, NODE).get("cards", ())) == len(CARDS))
    yield made
    made.stop()
    plane.api.delete(f"{RESOURCES}/resourceslices/{made_slice['metadata']['name']}")
    plane.api.delete(f"/api/v1/nodes/{NODE}")


@pytest.fixture(autouse=True)
def idle(service: Service) -> Iterator[None]:
    """After each test remove its pods, claims and shadow claims."""
    yield
    api = service.plane.api
    clear(api)
    api.delete(CLAIMS)
    within(90, lambda: not held(service.plane, NODE))
    within(90, lambda: not shadows(api))


def test_a_scheduler_does_not_choose_a_card_that_a_volcano_pod_fills(service: Service) -> None:
    """Alone it takes the first card that its own records say is free."""
    api = service.plane.api
    bind_share(service, NODE, "full", 80 * 1024)
    (full,) = {grant["card"] for grant in held(service.plane, NODE)["full"]["grants"]}
    number = CARDS.index(full)
    within(90, lambda: set(shadows(api)) == {f"gpu-{number}"})

    claim_share(api, "claimant", 60 * GIB, NODE)

    with_decisions(service, lambda: within(90, lambda: node_of(api, "claimant") == NODE))
    assert allocated(api, CARDS) == {full: 0, CARDS[1 - number]: 60 * GIB}


def test_a_card_stays_taken_when_what_others_have_of_the_next_one_changes(
    service: Service,
) -> None:
    """kube-scheduler forgets a device when a claim for it is deleted, also where two have it."""
    api, both = service.plane.api, {"gpu-0", "gpu-1"}
    bind_share(service, NODE, "first", 80 * 1024)
    within(90, lambda: len(shadows(api)) == 1)
    bind_share(service, NODE, "second", 80 * 1024)
    within(90, lambda: shadows(api).keys() == both and results(service) == len(both))

    claim_share(api, "claimant", 60 * GIB, NODE)

    within(90, lambda: api.get(f"{PODS}/claimant")["status"].get("conditions"))
    assert max(allocated(api, CARDS).values()) == 0
    (card,) = {grant["card"] for grant in held(service.plane, NODE)["second"]["grants"]}
    api.delete(f"{PODS}/second")
    within(90, lambda: node_of(api, "claimant") == NODE)
    assert allocated(api, CARDS)[card] == 60 * GIB


def test_the_amounts_are_exact_and_follow_the_ledger(service: Service) -> None:
    """70 and 75 of 80 GiB are in use by pods: 8 GiB fit beside the first, 16 nowhere."""
    api = service.plane.api
    bind_share(service, NODE, "first", 75 * 1024)
    bind_share(service, NODE, "second", 70 * 1024)
    amounts = {f"gpu-{CARDS.index(card)}": gib * GIB for card, gib in on_cards(service).items()}
    within(90, lambda: {d: int(c["memory"]) for d, c in shadows(api).items()} == amounts)

    claim_share(api, "large", 16 * GIB, NODE)
    claim_share(api, "small", 8 * GIB, NODE)

    within(90, lambda: node_of(api, "small") == NODE)
    assert not node_of(api, "large")
    assert max(allocated(api, CARDS).values()) == 8 * GIB
    api.delete(f"{PODS}/first")
    within(90, lambda: node_of(api, "large") == NODE)
    assert sum(allocated(api, CARDS).values()) == 24 * GIB


STRANGERS = (
    ("editor", ""),
    (f"system:serviceaccount:{NAMESPACE}:dragoman-node", ""),
    (f"system:node:{NODE}", "system:nodes"),
)
RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"


EDITOR = {
    "metadata": {"name": "editor"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "editor"}],
}


def is_forbidden(call: Callable[[], object]) -> bool:
    try:
        call()
    except ApiError as error:
        return error.status == 403
    return False


@pytest.mark.refusals
def test_a_forged_shadow_claim_hides_frees_and_blocks_nothing(service: Service) -> None:
    """An editor makes one in the own namespace; a scheduler gives it devices, as it may any claim.

    Only who may write claims in the release's namespace can touch a genuine one.
    """
    api, plane = service.plane.api, service.plane
    bind_share(service, NODE, "full", 80 * 1024)
    within(90, lambda: len(shadows(api)) == 1)
    (genuine,) = api.get(SHADOWS)["items"]
    name, metadata = genuine["metadata"]["name"], genuine["metadata"]
    copied = {key: metadata[key] for key in ("name", "labels", "annotations")}
    forged = {"metadata": copied, "spec": genuine["spec"]}
    api.create(RIGHTS, EDITOR)
    editor, scheduler = api.impersonating("editor"), api.impersonating("system:kube-scheduler")
    before = held(plane, NODE)

    for stranger in (api.impersonating(*each) for each in STRANGERS):
        assert is_forbidden(lambda: stranger.create(SHADOWS, forged))  # noqa: B023
        assert is_forbidden(lambda: stranger.delete(f"{SHADOWS}/{name}"))  # noqa: B023
        assert is_forbidden(lambda: stranger.merge(f"{SHADOWS}/{name}", {"metadata": {}}))  # noqa: B023
    made = editor.create(CLAIMS, forged)
    made["status"] = genuine["status"]
    at = f"{CLAIMS}/{name}/status"
    assert is_forbidden(lambda: editor.replace(at, made))
    made = scheduler.replace(at, made)
    bind_share(service, NODE, "other", 1024)
    within(90, lambda: len(shadows(api)) == len(CARDS))
    assert held(plane, NODE).keys() == {*before, "other"}
    assert api.get(f"{CLAIMS}/{name}")["metadata"]["uid"] == made["metadata"]["uid"]

    # A controller removes a reservation for a pod that does not exist.
    uid = api.create(PODS, pod("user", "no-scheduler", {}))["metadata"]["uid"]
    made["status"]["reservedFor"] = [{"resource": "pods", "name": "user", "uid": uid}]
    scheduler.replace(at, made)

    within(90, lambda: name in held(plane, NODE))
    assert held(plane, NODE)["full"] == before["full"]


def test_a_shadow_claim_that_is_deleted_or_emptied_is_written_again(service: Service) -> None:
    api = service.plane.api
    bind_share(service, NODE, "full", 80 * 1024)
    within(90, lambda: len(shadows(api)) == 1)
    (genuine,) = api.get(SHADOWS)["items"]

    api.delete(f"{SHADOWS}/{genuine['metadata']['name']}")

    within(90, lambda: len(shadows(api)) == 1)
    (again,) = api.get(SHADOWS)["items"]
    assert again["metadata"]["uid"] != genuine["metadata"]["uid"]
    api.replace(f"{SHADOWS}/{again['metadata']['name']}/status", {**again, "status": {}})
    within(90, lambda: len(shadows(api)) == 1)


def results(service: Service) -> int:
    """How many devices all shadow claims have, each as often as it is in one."""
    rows = service.plane.api.get(SHADOWS)["items"]
    return sum(len(row["status"]["allocation"]["devices"]["results"]) for row in rows)


def on_cards(service: Service) -> dict[str, int]:
    """GiB in use by card, as the ledger says."""
    return {
        grant["card"]: grant["memory"] // GIB
        for row in held(service.plane, NODE).values()
        for grant in row["grants"]
    }

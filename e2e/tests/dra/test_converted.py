"""Pods of dialects that admission converts to claims of our driver, placed by stock kube-scheduler.

Admission writes nothing: the leader creates the claims that it has named.
"""

from collections.abc import Iterator

import pytest

from adapters.dialects.translation.conversion import KEY
from core.hardware.card import Card
from core.hardware.quantity import GIB, MIB
from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.ready_cluster import PODS, clear, events, node_of, wait_for_nodes
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import CLAIMS, SCHEDULERS, a_pod
from e2e.harness.workloads.inventory import add_inventory, described, gpus, volcano
from e2e.harness.workloads.published_cards import published

pytestmark = pytest.mark.local("the schedulers are of this control plane")

NODE = "converted-node"
VOLCANO = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "20480"}
EXACT = {
    "volcano": {**VOLCANO, "volcano.sh/vgpu-cores": "30"},
    "koordinator": {
        "koordinator.sh/gpu.shared": "1",
        "koordinator.sh/gpu-memory": "20Gi",
        "koordinator.sh/gpu-core": "30",
    },
    "hami": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20480", "nvidia.com/gpucores": "30"},
}
SWITCHES = {"claims": True, "arbiter": True, "convert": True, "convertSchedulers": [SCHEDULERS[0]]}


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    """A service that converts pods of one scheduler, and a node with two cards of our driver."""
    api = plane.api
    add_inventory(api, [described(NODE, volcano(gpus(NODE, 2)))])
    wait_for_nodes(api)
    cards = [
        Card(card.uuid, NODE, index, "nvidia", "NVIDIA A100 80GB PCIe", 80 * GIB, 10)
        for index, card in enumerate(gpus(NODE, 2))
    ]
    with published(api, NODE, cards):
        made = start_service(plane, dra=SWITCHES)
        within(60, lambda: len(ledger(plane, NODE).get("cards", ())) == len(cards))
        with webhooks(made):
            within(60, lambda: _asked(api))
            yield made
        made.stop()


@pytest.fixture(autouse=True)
def idle(service: Service) -> Iterator[None]:
    """After each test wait until no claim is left, though no test deletes one."""
    yield
    clear(service.plane.api)
    within(90, lambda: not held(service.plane, NODE))
    within(90, lambda: not service.plane.api.get(CLAIMS)["items"])


def stating(name: str, limits: Object, scheduler: str = SCHEDULERS[0]) -> Object:
    """A pod for the node with resources of a dialect."""
    pod = a_pod(name, scheduler)
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": NODE}
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    return pod


def _asked(api: Api) -> bool:
    """Whether the API server asks the service about pods: it learns of webhooks late."""
    made = api.create(f"{PODS}?dryRun=All", stating("probe", VOLCANO))
    return "resourceClaims" in made["spec"]


@pytest.mark.parametrize("dialect", EXACT)
def test_a_pod_of_a_dialect_gets_exactly_its_share_by_a_claim(
    service: Service, dialect: str
) -> None:
    api, plane = service.plane.api, service.plane

    made = api.create(PODS, stating("trainer", EXACT[dialect]))

    (container,) = made["spec"]["containers"]
    assert not container["resources"].get("limits")
    within(90, lambda: node_of(api, "trainer") == NODE)
    (claim,) = api.get(CLAIMS)["items"]
    (entry,) = made["spec"]["resourceClaims"]
    assert claim["metadata"]["name"] == entry["resourceClaimName"]
    (owner,) = claim["metadata"]["ownerReferences"]
    assert owner["uid"] == made["metadata"]["uid"]
    name = claim["metadata"]["name"]
    within(90, lambda: name in held(plane, NODE))
    (grant,) = held(plane, NODE)[name]["grants"]
    assert (grant["memory"] // MIB, grant["compute"]) == (20480, 30)

    api.delete(f"{PODS}/trainer")

    within(90, lambda: not api.get(CLAIMS)["items"])
    within(90, lambda: not held(plane, NODE))


def test_a_dry_run_leaves_no_claim(service: Service) -> None:
    api = service.plane.api

    made = api.create(f"{PODS}?dryRun=All", stating("dry", VOLCANO))
    api.create(PODS, stating("wet", VOLCANO))

    assert made["spec"]["resourceClaims"]
    within(90, lambda: node_of(api, "wet") == NODE)
    (claim,) = api.get(CLAIMS)["items"]
    assert claim["metadata"]["name"].startswith("wet-main-")


def test_what_a_claim_does_not_keep_stays_and_the_event_says_why(service: Service) -> None:
    api = service.plane.api
    half = {"koordinator.sh/gpu": "50"}

    made = api.create(PODS, stating("half", half))

    assert "resourceClaims" not in made["spec"]
    assert made["spec"]["containers"][0]["resources"]["limits"] == half
    within(60, lambda: any("50 % of the card's memory" in each for each in events(api, "half")))


def test_pods_of_other_schedulers_stay(service: Service) -> None:
    made = service.plane.api.create(PODS, stating("other", VOLCANO, SCHEDULERS[1]))

    assert "resourceClaims" not in made["spec"]


def test_a_forged_record_is_denied(service: Service) -> None:
    """The record is of another pod, with an amount that no pod can state."""
    api = service.plane.api
    made = api.create(f"{PODS}?dryRun=All", stating("model", VOLCANO))
    record = made["metadata"]["annotations"][KEY].replace("20480", "-1")
    forged = stating("forged", VOLCANO)
    forged["metadata"]["annotations"] = {KEY: record}

    with pytest.raises(ApiError, match="is no record of admission"):
        api.create(PODS, forged)

"""A pod with a claim, for which stock kube-scheduler evicts none: the service does."""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, ledger
from e2e.harness.cluster.ready_cluster import (
    PODS,
    add_priorities,
    clear,
    events,
    node_of,
    wait_for_nodes,
)
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import start_kube_scheduler
from e2e.harness.schedulers.service import Service, start_service, webhooks
from e2e.harness.workloads.claims import (
    CLAIMS,
    DRIVER,
    GIB,
    RESOURCES,
    a_card,
    a_claim,
    a_pod,
    a_slice,
)
from e2e.harness.workloads.inventory import add_inventory, described, gpus, volcano
from e2e.tests.dra.shares import a_share, rejection

pytestmark = pytest.mark.local("the schedulers are of this control plane")

NODE = "evicted-node"
CARDS = tuple(card.uuid for card in gpus(NODE, 2))
SCHEDULER = "default-scheduler"
EXTENDED = "nvidia.com/gpu"
USUAL = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'hami-gpu'"


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    """The arbiter, which may evict."""
    api = plane.api
    add_priorities(api)
    add_inventory(api, [described(NODE, volcano(gpus(NODE, 2)))])
    wait_for_nodes(api)
    cards = [a_card(number, uuid) for number, uuid in enumerate(CARDS)]
    made_slice = api.create(f"{RESOURCES}/resourceslices", a_slice(NODE, cards))
    selectors = [{"cel": {"expression": USUAL}}]
    spec = {"selectors": selectors, "extendedResourceName": EXTENDED}
    api.create(f"{RESOURCES}/deviceclasses", {"metadata": {"name": "usual"}, "spec": spec})
    start_kube_scheduler(plane, {"profiles": [{"schedulerName": SCHEDULER}]})
    made = start_service(plane, dra={"claims": True, "arbiter": True}, preemption={"enabled": True})
    within(60, lambda: len(ledger(plane, NODE).get("cards", ())) == len(CARDS))
    with webhooks(made):
        yield made
    made.stop()
    api.delete(f"{RESOURCES}/resourceslices/{made_slice['metadata']['name']}")
    api.delete(f"{RESOURCES}/deviceclasses/usual")
    api.delete(f"/api/v1/nodes/{NODE}")


@pytest.fixture(autouse=True)
def _free(service: Service) -> Iterator[None]:
    yield
    clear(service.plane.api)
    service.plane.api.delete(CLAIMS)
    within(90, lambda: not held(service.plane, NODE))


def claims_card(service: Service, name: str, priority: str, *others: str) -> None:
    """A pod of claims, each for 60 of 80 GiB of a card of the node."""
    for each in (name, *others):
        claim = a_claim(each, 60 * GIB)
        claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "usual"
        service.plane.api.create(CLAIMS, claim)
    waits(service, a_pod(name, SCHEDULER, name, *others), priority)


def waits(service: Service, pod: Object, priority: str) -> None:
    """A pod that may go to the node."""
    pod["spec"] |= {
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        "priorityClassName": priority,
    }
    service.plane.api.create(PODS, pod)


def is_on_node(service: Service, name: str) -> bool:
    return node_of(service.plane.api, name) == NODE


def names(service: Service) -> set[str]:
    return {each["metadata"]["name"] for each in service.plane.api.get(PODS)["items"]}


def is_helped(service: Service, *kept: str) -> None:
    """The urgent pod is bound, in the place of the low one alone."""
    api = service.plane.api
    within(90, lambda: is_on_node(service, "urgent"), lambda: events(api, "urgent"))
    assert names(service) == {"urgent", *kept}


def test_a_share_goes_whose_card_the_arbiter_denied_a_claim(service: Service) -> None:
    """The scheduler does not see the shares of pods: it chooses their cards, and is denied."""
    for name, priority in (("kept", "high"), ("low", "low")):
        pod = a_share(name, 50 * 1024)
        pod["spec"]["priorityClassName"] = priority
        assert not rejection(service, NODE, pod)

    claims_card(service, "urgent", "high")

    is_helped(service, "kept")


def test_a_pod_goes_whose_claim_has_the_card(service: Service) -> None:
    """The scheduler sees both claims, finds no device, and evicts no pod for one."""
    claims_card(service, "kept", "high")
    within(60, lambda: is_on_node(service, "kept"))
    claims_card(service, "low", "low")
    within(60, lambda: is_on_node(service, "low"))

    claims_card(service, "urgent", "high")

    is_helped(service, "kept")


def test_a_pod_of_several_claims_goes_as_one(service: Service) -> None:
    """The end of one pod frees both cards."""
    claims_card(service, "low", "low", "low-too")
    within(60, lambda: is_on_node(service, "low"))

    claims_card(service, "urgent", "high", "urgent-too")

    is_helped(service)


def test_a_pod_goes_for_a_resource_that_a_class_names(service: Service) -> None:
    """The scheduler makes the claim when it binds the pod; until then the card is reserved."""
    claims_card(service, "kept", "high")
    within(60, lambda: is_on_node(service, "kept"))
    claims_card(service, "low", "low")
    within(60, lambda: is_on_node(service, "low"))

    pod = a_pod("urgent", SCHEDULER)
    pod["spec"]["containers"][0]["resources"] = {"limits": {EXTENDED: "1"}}
    waits(service, pod, "high")

    is_helped(service, "kept")

"""koord-scheduler keeps its own device plugin, and Dragoman is the arbiter over its choice.

The configuration is ``configs/koord-scheduler-config-with-deviceshare.yaml``.
"""

import json
from collections.abc import Iterator

import pytest

from e2e.harness.cluster.api import ApiError
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, bind, clear, events, node_of, pod, turn
from e2e.harness.names import ALLOCATED, CORE, RATIO
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import (
    KOORD,
    KUBE,
    Planes,
    add_ready_nodes,
    prepare,
    starter,
    wait_for_cards,
)
from e2e.harness.schedulers.service import Service, start_service, webhooks, with_decisions
from e2e.harness.workloads.inventory import described, gpus, koordinator, volcano

NODE = "two-cards"
HALF = {CORE: "50", RATIO: "50"}
LARGE = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "60000"}
CARDS = gpus(NODE, 2)


@pytest.fixture(scope="module")
def service(planes: Planes) -> Iterator[Service]:
    """Two schedulers on one node: koord-scheduler does not know what the other allocates."""
    with planes() as plane:
        prepare(plane)
        add_ready_nodes(plane, [described(NODE, volcano(CARDS), koordinator(CARDS))])
        made = start_service(plane)
        wait_for_cards(plane, [NODE])
        koord = starter(made, KOORD, file="koord-scheduler-config-with-deviceshare.yaml")
        with webhooks(made), turn(starter(made, KUBE), plane), turn(koord, plane):
            yield made


@pytest.fixture(autouse=True)
def clean(service: Service) -> Iterator[None]:
    yield
    clear(service.plane.api)
    wait_until_free(service.plane, NODE)


def place(service: Service, name: str, scheduler: str, resources: dict[str, str]) -> str:
    """The card of a new pod, by the ledger."""
    api = service.plane.api
    api.create(PODS, pod(name, service.plane.scheduler(scheduler), resources))
    try:
        with_decisions(service, lambda: within(60, lambda: node_of(api, name) != ""))
    except AssertionError as late:
        raise AssertionError(f"{late}\n{events(api, name)}") from late
    (grant,) = held(service.plane, NODE)[name]["grants"]
    return str(grant["card"])


def minor(plane: ControlPlane, name: str) -> int:
    """The card of a pod, by what Koordinator's node components read."""
    written = plane.api.get(f"{PODS}/{name}")["metadata"]["annotations"]
    (row,) = json.loads(written[ALLOCATED])["gpu"]
    return int(row["minor"])


def outcomes(service: Service, name: str) -> list[str]:
    """How the bindings of a pod ended, the latest first."""
    rows = service.get("/api/decisions")
    return [r["outcome"] for r in rows if r["verb"] == "binding" and r["pod"].endswith(f"/{name}")]


def test_a_sound_choice_of_the_plugin_is_adopted(service: Service) -> None:
    card = place(service, "alone", KOORD, HALF)

    assert card == CARDS[minor(service.plane, "alone")].uuid
    assert outcomes(service, "alone") == ["adopted"]


def test_a_choice_that_takes_what_another_has_is_corrected_on_the_same_node(
    service: Service,
) -> None:
    liked = place(service, "probe", KOORD, HALF)
    clear(service.plane.api)
    wait_until_free(service.plane, NODE)
    large = {place(service, name, KUBE, LARGE): name for name in ("large-0", "large-1")}
    (other,) = [name for card, name in large.items() if card != liked]
    service.plane.api.delete(f"{PODS}/{other}?gracePeriodSeconds=0")
    within(30, lambda: other not in held(service.plane, NODE))

    cards = [place(service, f"half-{number}", KOORD, HALF) for number in range(2)]

    said = [outcomes(service, f"half-{number}") for number in range(2)]
    print(f"the plugin likes {liked}, which is taken; given {cards}, {said}")
    assert liked not in cards
    assert [CARDS[minor(service.plane, f"half-{number}")].uuid for number in range(2)] == cards
    assert said[0] == ["corrected"]


def test_what_does_not_fit_anywhere_is_refused_with_a_reason_and_placed_later(
    service: Service,
) -> None:
    plane = service.plane
    for number in range(2):
        place(service, f"large-{number}", KUBE, LARGE)
    plane.api.create(PODS, pod("waits", plane.scheduler(KOORD), HALF))

    within(60, lambda: any("short" in line for line in events(plane.api, "waits")))
    print(events(plane.api, "waits"))
    assert node_of(plane.api, "waits") == ""
    plane.api.delete(f"{PODS}/large-0?gracePeriodSeconds=0")
    with_decisions(service, lambda: within(60, lambda: node_of(plane.api, "waits") == NODE))
    assert CARDS[minor(plane, "waits")].uuid == held(plane, NODE)["waits"]["grants"][0]["card"]


def test_a_binding_with_a_choice_for_which_there_is_no_room_at_all_is_refused(
    service: Service,
) -> None:
    plane = service.plane
    for number in range(2):
        place(service, f"large-{number}", KUBE, LARGE)
    plane.api.create(PODS, pod("forced", "no-scheduler", HALF))
    resources = {CORE: "50", RATIO: "50", "koordinator.sh/gpu-memory": "40960Mi"}
    choice = json.dumps({"gpu": [{"minor": 0, "resources": resources}]})

    with pytest.raises(ApiError, match="short"):
        bind(plane.api, "forced", NODE, {ALLOCATED: choice})

    assert node_of(plane.api, "forced") == ""
    assert "forced" not in held(plane, NODE)

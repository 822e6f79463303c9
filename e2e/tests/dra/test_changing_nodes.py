"""docs/guides/transition.md: nodes go to claims and back, while pods of all kinds come and go."""

from collections.abc import Iterator

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import ledger
from e2e.harness.cluster.nodes import add_nodes, fake_node
from e2e.harness.cluster.ready_cluster import PODS, events, pod, turn, wait_for_nodes
from e2e.harness.oracles.shared_cards import SharedCards
from e2e.harness.processes.waiting import within
from e2e.harness.rounds.changing_nodes import CLAIMS_DRIVER, DRIVER, PLUGIN, ChangingNodes, gpus_of
from e2e.harness.rounds.transition import PART, Arrivals, add, add_class, kind_of, on, remove
from e2e.harness.schedulers.full_stack import KUBE, starter
from e2e.harness.schedulers.service import start_service, webhooks
from e2e.harness.workloads.claims import RESOURCES, SCHEDULERS
from e2e.tests.dra.arbiter import end, is_asked, wait_for_ledger
from e2e.tests.dra.world import BOTH, World

pytestmark = [
    pytest.mark.local("the API server admits no claims of other modules"),
    pytest.mark.timeout(400),
]

SHARED, WHOLE, RETURNS, *STAY = NODES = tuple(f"changing-{number}" for number in range(6))
"""The driver's devices of the first and third node are shared, of the second not."""

DIALECT, ALONE, BACK = (
    "1. `plugin` to `plugin and dialect`",
    "3. To `claims`",
    "The way back",
)
"""Sections of the guide."""

CHANGING = (SHARED, WHOLE, RETURNS)
ASKS = (
    ("plain", SCHEDULERS[0]),
    ("plain", KUBE),
    ("volcano", KUBE),
    *((kind, scheduler) for kind in ("whole", "part") for scheduler in SCHEDULERS),
)
KINDS = dict(ASKS).keys()
MOST = 10
"""Pods that run at a time."""

TAINTS = f"{RESOURCES}/devicetaintrules"


def share(name: str, mib: int) -> Object:
    return pod(name, KUBE, {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(mib)})


@pytest.fixture(scope="module")
def world(plane: ControlPlane) -> Iterator[World]:
    api = plane.api
    labels = {PLUGIN: "true", "nvidia.com/gpu.present": "true"}
    add_nodes(api, [fake_node(name, labels=labels) for name in NODES])
    wait_for_nodes(api, NODES)
    nodes = ChangingNodes(plane, (SHARED, RETURNS))
    for name in CHANGING:
        nodes.learn_cards(name)
    nodes.cards |= {name: tuple(f"GPU-{name}-{index}" for index in range(2)) for name in STAY}
    add_class(api)
    shared = SharedCards(gpus_of(nodes.cards), nodes.devices())
    service = start_service(plane, dra={"claims": True, "arbiter": True, "shadows": True})
    wait_for_ledger(plane)
    with webhooks(service), turn(starter(service, KUBE), plane):
        within(60, lambda: is_asked(service))
        with nodes.running(), shared.watching(api):
            yield World(service, nodes, Arrivals(api, ASKS, shared, MOST), shared, CHANGING)
            end(plane)
    service.stop()
    for name in NODES:
        api.delete(f"/api/v1/nodes/{name}")
    api.delete(f"{RESOURCES}/deviceclasses/{DRIVER}")


def test_nodes_go_through_all_states_while_pods_come_and_go(world: World) -> None:
    world.follow(DIALECT, *CHANGING, state="plugin and dialect")
    world.take_free(SHARED, "volcano")

    world.follow(BOTH, *CHANGING, state="dialect and claims")
    world.take_free(WHOLE, "whole")
    world.take_free(WHOLE, "plain")
    driver_is_away_and_comes_back(world, WHOLE)
    parts_are_on_one_card_where_the_driver_shares_it(world)
    a_tainted_card_is_closed(world, WHOLE)

    world.follow(ALONE, RETURNS, state="claims")
    world.take_free(RETURNS, "whole")

    world.follow(BACK, RETURNS, state="dialect and claims")
    world.take_free(RETURNS, "volcano")
    world.follow(BACK, RETURNS, state="plugin and dialect", part=1)
    world.drain(RETURNS, *KINDS)  # the kubelet, which would choose, does not know shares
    world.take_free(RETURNS, "plain")
    world.follow(ALONE, RETURNS, state="plugin")

    assert world.shared.problems() == []
    assert world.nodes.errors == []
    assert {kind_of(name) for name in world.shared.bound} >= KINDS
    assert {kind_of(name) for name in world.shared.claims()} >= {"whole", "part"}


def driver_is_away_and_comes_back(world: World, node: str) -> None:
    """What claims have stays theirs, and no share gets it."""
    world.drain(node, *KINDS)
    add(world.api, "whole", "stays", SCHEDULERS[0], node)
    world.wait_for("stays")
    world.check(node)
    before = world.ledger(node)
    world.label(node, **{CLAIMS_DRIVER: None})
    world.take_free(node, "volcano")
    assert world.ledger(node)["stays"] == before["stays"]
    world.label(node, **{CLAIMS_DRIVER: "true"})
    world.take_free(node, "whole")
    assert world.ledger(node)["stays"] == before["stays"]
    remove(world.api, "stays")


def parts_are_on_one_card_where_the_driver_shares_it(world: World) -> None:
    """Three quarters of each card are shares; a claim for a quarter fits there, a whole one not."""
    api = world.api
    for node, fits in ((SHARED, True), (WHOLE, False)):
        world.drain(node, *KINDS)
        names = [f"three-quarters-{number}" for number in range(2)]
        for name in names:
            body = share(name, 3 * PART)
            api.create(PODS, on(body, node))
        for name in names:
            world.wait_for(name)
        kind = "part" if fits else "whole"
        add(api, kind, "beside", SCHEDULERS[0], node)
        if fits:
            world.wait_for("beside")
            world.check(node)
            (card,) = world.ledger(node)["beside"]
            assert sum(card in cards for cards in world.ledger(node).values()) == 2
        else:
            within(30, lambda: any("FailedScheduling" in row for row in events(api, "beside")))
            remove(api, names[0])
            world.wait_for("beside")
            world.check(node)
        world.drain(node, *KINDS, "beside", "three")


def a_tainted_card_is_closed(world: World, node: str) -> None:
    """A taint of one device leaves the other card to shares and claims."""
    api = world.api
    spec = {
        "deviceSelector": {"driver": DRIVER, "pool": node, "device": "gpu-0"},
        "taint": {"key": "example.com/repair", "effect": "NoSchedule"},
    }
    api.create(TAINTS, {"metadata": {"name": "repair"}, "spec": spec})
    closed, is_open = world.nodes.cards[node]
    within(30, lambda: not card_of(world, node, closed).get("healthy", True))
    for kind in ("volcano", "whole"):
        name = f"tainted-{kind}"
        add(api, kind, name, world.scheduler(kind), node)
        world.wait_for(name)
        world.check(node)
        assert world.ledger(node)[name] == [is_open]
        remove(api, name)
        within(30, lambda: not world.ledger(node))
    api.delete(f"{TAINTS}/repair")
    within(30, lambda: card_of(world, node, closed).get("healthy", True))


def card_of(world: World, node: str, uuid: str) -> Object:
    """A card, as the ledger of its node describes it."""
    cards: list[Object] = ledger(world.service.plane, node)["cards"]
    return next(card for card in cards if card["uuid"] == uuid)

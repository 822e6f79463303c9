"""docs/guides/transition.md: nodes of Volcano, Koordinator and HAMi go to claims, side by side.

Their components describe the cards, and there is no agent of ours. Stock vc-scheduler and
koord-scheduler choose cards by their own plugins, first alone and then with the service as their
arbiter. HAMi's scheduler is not in the test bed: the test writes what it records, and then
kube-scheduler with the service comes in its place.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import sleep

import pytest

from e2e.harness.cluster.api import Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.nodes import add_nodes, fake_node
from e2e.harness.cluster.ready_cluster import PODS, bind, pod, turn, wait_for_nodes
from e2e.harness.names import CORE, DEVICES, RATIO
from e2e.harness.oracles.shared_cards import SharedCards
from e2e.harness.processes.waiting import within
from e2e.harness.rounds.changing_nodes import AGENT, DRIVER, GPU, ChangingNodes, gpus_of
from e2e.harness.rounds.transition import CLAIMED, PART, Arrivals, add, is_asked, kind_of, on
from e2e.harness.schedulers.full_stack import KUBE, starter
from e2e.harness.schedulers.native import changing
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.schedulers.service import start_service, webhooks
from e2e.harness.schedulers.stock_sharing import peers, runs
from e2e.harness.schedulers.volcano import MEMORY, NUMBER
from e2e.harness.workloads.claims import CLAIMS, RESOURCES, SCHEDULERS, a_class
from e2e.kind.documentation import blocks
from e2e.tests.dra.arbiter import end, wait_for_ledger
from e2e.tests.dra.world import BOTH, GUIDE, World

pytestmark = [
    pytest.mark.local("the API server admits no claims of other modules"),
    pytest.mark.timeout(400),
]

SECTION = "From HAMi, Volcano or Koordinator"
PROJECTS = {"volcano": "Volcano", "koordinator": "Koordinator", "hami": "HAMi"}
"""Dialects, and how the guide's commands name whose they are."""

NODES = {dialect: f"from-{dialect}" for dialect in PROJECTS}
ALL = (*NODES.values(),)
SHARED = (NODES["volcano"], NODES["hami"])
"""Nodes whose devices claims share."""

ASKS = (
    ("volcano", "volcano"),
    ("koordinator", "koord"),
    ("hami", KUBE),
    ("whole", SCHEDULERS[0]),
    ("part", SCHEDULERS[1]),
)
MOST = 8
"""Pods that run at a time."""

STEP = 4
"""Seconds in which pods come and go after a change."""


def share(dialect: str, name: str, quarters: int, scheduler: str = "") -> Object:
    """A pod with quarters of a card, for the node of a dialect."""
    memory, percent = str(quarters * PART), str(quarters * 25)
    limits: Mapping[str, Mapping[str, str]] = {
        "volcano": {NUMBER: "1", MEMORY: memory, "volcano.sh/vgpu-cores": percent},
        "koordinator": {CORE: percent, RATIO: percent},
        "hami": {GPU: "1", "nvidia.com/gpumem": memory, "nvidia.com/gpucores": percent},
    }
    made = pod(name, scheduler or dict(ASKS)[dialect], dict(limits[dialect]))
    return on(made, NODES[dialect])


def run_before(plane: ControlPlane, cards: Mapping[str, tuple[str, ...]]) -> dict[str, Object]:
    """Three quarters of a card of each node are in use before there is a service."""
    api = plane.api
    for dialect in PROJECTS:
        scheduler = "hami-scheduler" if dialect == "hami" else ""
        api.create(PODS, share(dialect, f"{dialect}-before", 3, scheduler))
    node = NODES["hami"]
    record = f"{cards[node][1]},NVIDIA,{3 * PART},75:;"
    keys = ("hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate")
    bind(api, "hami-before", node, dict.fromkeys(keys, record) | {"hami.io/vgpu-node": node})
    names = [f"{dialect}-before" for dialect in PROJECTS]
    within(60, lambda: all(runs(plane, name) for name in names))
    return {name: api.get(f"{PODS}/{name}") for name in names}


@pytest.fixture(scope="module")
def nodes(plane: ControlPlane) -> Iterator[ChangingNodes]:
    api, names = plane.api, [*NODES.values()]
    add_nodes(api, [fake_node(name, labels={AGENT: "on"}) for name in names])
    wait_for_nodes(api, names)
    words = {node: (dialect,) for dialect, node in NODES.items()}
    made = ChangingNodes(plane, SHARED, peers=words)
    for name in names:
        made.learn_cards(name)
    api.create(f"{RESOURCES}/deviceclasses", a_class(DRIVER, DRIVER))
    with turn(lambda: start_volcano_controllers(plane), plane), made.running():
        made.settle(*names)
        yield made
    for name in names:
        api.delete(f"/api/v1/nodes/{name}")
    api.delete(DEVICES)
    api.delete(f"{RESOURCES}/deviceclasses/{DRIVER}")


@contextmanager
def served(nodes: ChangingNodes, shared: SharedCards) -> Iterator[World]:
    """The service comes, with kube-scheduler, to the pods that run."""
    plane = nodes.plane
    service = start_service(plane, dra={"claims": True, "arbiter": True, "shadows": True})
    wait_for_ledger(plane)
    with webhooks(service), turn(starter(service, KUBE), plane):
        within(60, lambda: is_asked(plane.api))
        yield World(service, nodes, Arrivals(plane.api, ASKS, shared, MOST), shared, ALL)
        end(plane)
    service.stop()


def test_nodes_of_other_projects_go_to_claims_and_half_of_it_back(
    plane: ControlPlane, nodes: ChangingNodes
) -> None:
    of_volcano = NODES["volcano"]
    shared = SharedCards(gpus_of(nodes.cards), nodes.devices(), nodes.cards)
    with peers(plane, [of_volcano]), changing(plane.api, of_volcano), shared.watching(plane.api):
        before = run_before(plane, nodes.cards)
        with served(nodes, shared) as world:
            shares_are_adopted_as_they_are(world, before)
            the_driver_comes(world)
            claims_and_shares_get_what_the_others_leave(world)
            the_others_leave(world)
            the_others_return(world)

    assert shared.problems() == []
    assert (nodes.errors, nodes.rejected) == ([], [])


def shares_are_adopted_as_they_are(world: World, before: Mapping[str, Object]) -> None:
    world.settled("dialect", *ALL)
    for name, was in before.items():
        now = world.api.get(f"{PODS}/{name}")
        assert now["metadata"].get("annotations") == was["metadata"].get("annotations")
        assert len(world.ledger(now["spec"]["nodeName"])[name]) == 1


def the_driver_comes(world: World) -> None:
    """Step 2, without the lines about NVIDIA's plugin."""
    (block,) = blocks(GUIDE, BOTH)
    lines = [line for line in block.splitlines() if not re.search("device-plugin|alloca", line)]
    walk(world, dict.fromkeys(ALL, "\n".join(lines)), "dialect and claims")
    came = {kind_of(name) for name in world.shared.bound.keys() & {*world.arrivals.came}}
    assert came & PROJECTS.keys()
    assert came & CLAIMED


def claims_and_shares_get_what_the_others_leave(world: World) -> None:
    """On each node: a card has three quarters in use, the other one nothing."""
    empty(world, *(f"{dialect}-before" for dialect in NODES))
    used = {dialect: world.ledger(node)[f"{dialect}-before"] for dialect, node in NODES.items()}
    for dialect, node in NODES.items():
        add(world.api, "whole", f"whole-{dialect}", SCHEDULERS[0], node)
    cards = {dialect: card_of(world, f"whole-{dialect}", node) for dialect, node in NODES.items()}
    assert all(card not in used[dialect] for dialect, card in cards.items())

    beside = [f"{dialect}-beside" for dialect in NODES]
    for dialect, name in zip(NODES, beside, strict=True):
        world.api.create(PODS, share(dialect, name, 1))
    for dialect, name in zip(NODES, beside, strict=True):
        assert [card_of(world, name, NODES[dialect])] == used[dialect]
    world.end(beside)
    for node in SHARED:
        add(world.api, "part", f"part-{node}", SCHEDULERS[1], node)
    for node in SHARED:
        dialect = node.removeprefix("from-")
        assert [card_of(world, f"part-{node}", node)] == used[dialect]


def the_others_leave(world: World) -> None:
    (block,) = blocks(GUIDE, SECTION)
    scripts = {
        node: re.sub(f"^.*# (?!{PROJECTS[dialect]}$).*\n", "", block, flags=re.MULTILINE)
        for dialect, node in NODES.items()
    }
    walk(world, scripts, "claims")
    empty(world)
    for node in ALL:
        assert world.free(node) == [*world.nodes.cards[node]]
    together(world.take_free, ALL, ["whole"] * len(ALL))


def the_others_return(world: World) -> None:
    for node in ALL:
        add(world.api, "whole", f"whole-{node}", SCHEDULERS[0], node)
    cards = {node: card_of(world, f"whole-{node}", node) for node in ALL}
    together(lambda node: world.label(node, **{AGENT: "on"}), ALL)
    for dialect in NODES:
        world.api.create(PODS, share(dialect, f"{dialect}-returned", 3))
    for dialect, node in NODES.items():
        assert card_of(world, f"{dialect}-returned", node) != cards[node]
    world.settled("dialect and claims", *ALL)


def walk(world: World, scripts: Mapping[str, str], state: str) -> None:
    """Run commands on each node, at once, while pods come and go."""
    with world.arrivals.coming():
        together(world.change, scripts.keys(), scripts.values())
        sleep(STEP)
    world.settled(state, *scripts)


def empty(world: World, *stay: str) -> None:
    """End all pods but some, and the claims."""
    rows = [row for path in (PODS, CLAIMS) for row in world.api.get(path)["items"]]
    world.end({row["metadata"]["name"] for row in rows} - {*stay})
    for node in ALL:
        within(60, lambda: world.ledger(node) == world.truth(node))  # noqa: B023


def card_of(world: World, name: str, node: str) -> str:
    """The only card of a pod or claim, as soon as it is bound."""
    world.wait_for(name)
    world.check(node)
    (card,) = world.ledger(node)[name]
    return card


def together(step: Callable[..., None], *rows: Iterable[object]) -> None:
    """Call a function for all rows at once."""
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(step, *rows):
            pass

"""Preemption through stock schedulers: the fewest pods go, and the preemptor gets the cards.

The schedulers have ``configs/*-scheduler-preemption-config.yaml``, and the nodes state nothing but
what the service publishes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pytest

from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import (
    PODS,
    add_priorities,
    clear,
    cluster,
    events,
    node_of,
    pod,
    turn,
    wait_for_nodes,
)
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.schedulers import (
    define,
    start_koord_scheduler_alone,
    start_kube_scheduler,
)
from e2e.harness.schedulers.service import (
    Service,
    install,
    kube_like,
    start_service,
    with_decisions,
)
from e2e.harness.workloads.inventory import (
    SLOTS,
    Described,
    DialectRecords,
    add_inventory,
    described,
    gpus,
    koordinator,
    metax,
    volcano,
)
from e2e.testbed import cache

pytestmark = pytest.mark.local

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MEMORY = 16384


@dataclass(frozen=True, slots=True)
class Words:
    """How one dialect requests.

    Attributes:
        node: that it describes, with two cards.
        half: of a card; four such pods fill the node.
        whole: a card.
    """

    node: str
    half: dict[str, str]
    whole: dict[str, str]


def volcano_words(memory: int) -> dict[str, str]:
    return {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory)}


def koordinator_words(percent: int) -> dict[str, str]:
    words = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
    return dict.fromkeys(words, str(percent))


def metax_words(percent: int, memory: int) -> dict[str, str]:
    words = ("metax-tech.com/sgpu", "metax-tech.com/vcore", "metax-tech.com/vmemory")
    return dict(zip(words, ("1", str(percent), str(memory)), strict=True))


VOLCANO = Words("volcano", volcano_words(MEMORY // 2), volcano_words(MEMORY))
KOORDINATOR = Words("koordinator", koordinator_words(50), koordinator_words(100))
METAX = Words("metax", metax_words(50, MEMORY // 2048), metax_words(100, MEMORY // 1024))


def bare(name: str, saying: DialectRecords) -> Described:
    """A node that describes its cards and states no resources."""
    return described(name, replace(saying, resources={}))


def of_two_sharers(saying: DialectRecords) -> DialectRecords:
    """MetaX's cards; sharers are all that its nodes state, so their sum has to be what is short."""
    (key, text), *_ = saying.annotations.items()
    return replace(saying, annotations={key: text.replace(f": {SLOTS},", ": 2,")})


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with cluster([]) as plane:
        add_priorities(plane.api)
        define(plane, cache.asset("koordinator", "crd"))
        install(plane)
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Service:
    add_inventory(
        plane.api,
        [
            bare("volcano", volcano(gpus("volcano", 2, MEMORY))),
            bare("koordinator", koordinator(gpus("koordinator", 2, MEMORY))),
            bare("metax", of_two_sharers(metax(gpus("metax", 2, MEMORY)))),
        ],
    )
    return start_service(plane, publish=["volcano", "koordinator", "metax"])


Start = Callable[[ControlPlane, Service], None]


def start_kube(plane: ControlPlane, service: Service) -> None:
    file = "kube-scheduler-preemption-config.yaml"
    start_kube_scheduler(plane, kube_like(service, file, "kube"))


def start_koord(plane: ControlPlane, service: Service) -> None:
    file = "koord-scheduler-preemption-config.yaml"
    start_koord_scheduler_alone(plane, kube_like(service, file, "koord"))


def card_of(plane: ControlPlane, node: str, name: str) -> str:
    (grant,) = held(plane, node)[name]["grants"]
    return str(grant["card"])


def guard(plane: ControlPlane, *names: str) -> None:
    """Protect these pods by a PodDisruptionBudget, and wait until it is in force."""
    for name in names:
        plane.api.merge(f"{PODS}/{name}", {"metadata": {"labels": {"guarded": "yes"}}})
    plane.api.create(
        BUDGETS,
        {
            "metadata": {"name": "guard"},
            "spec": {
                "minAvailable": len(names),
                "selector": {"matchLabels": {"guarded": "yes"}},
            },
        },
    )

    def in_force() -> bool:
        status = plane.api.get(f"{BUDGETS}/guard").get("status", {})
        return status.get("currentHealthy") == len(names) and not status["disruptionsAllowed"]

    within(30, in_force)


@pytest.mark.parametrize("scheduler", ["kube", "koord"])
def test_the_fewest_unprotected_pods_go_and_the_preemptor_gets_their_card(
    plane: ControlPlane, service: Service, scheduler: str
) -> None:
    starts: dict[str, Start] = {"kube": start_kube, "koord": start_koord}
    with turn(partial(starts[scheduler], plane, service), plane):
        wait_for_nodes(plane.api)
        for words in (VOLCANO, KOORDINATOR, METAX):
            one_goes_for_another(plane, service, scheduler, words)


def one_goes_for_another(
    plane: ControlPlane, service: Service, scheduler: str, words: Words
) -> None:
    names = [f"low-{number}" for number in range(4)]
    create_all(plane.api, PODS, [pod(n, scheduler, words.half, priority="low") for n in names])
    try:
        with_decisions(
            service, lambda: within(60, lambda: held(plane, words.node).keys() == {*names})
        )
    except AssertionError as late:
        raise AssertionError(f"{late} {[events(plane.api, name) for name in names]}") from late
    within(30, lambda: all(node_of(plane.api, name) for name in names))
    *_, youngest = held(plane, words.node)
    theirs = card_of(plane, words.node, youngest)
    guarded = {name for name in names if card_of(plane, words.node, name) == theirs}
    guard(plane, *guarded)

    plane.api.create(PODS, pod("wanted", scheduler, words.whole, priority="high"))
    try:
        seconds = with_decisions(
            service, lambda: within(60, lambda: node_of(plane.api, "wanted") == words.node)
        )
    except AssertionError as late:
        raise AssertionError(f"{late} {events(plane.api, 'wanted')}") from late

    print(f"{scheduler}, {words.node}: placed {seconds:.1f} s after it was created")
    assert len(guarded) == 2
    assert {row["metadata"]["name"] for row in plane.api.get(PODS)["items"]} == {*guarded, "wanted"}
    assert card_of(plane, words.node, "wanted") != theirs
    clear(plane.api, BUDGETS)
    wait_until_free(plane, words.node)

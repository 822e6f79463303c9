"""vc-scheduler and koord-scheduler in native mode, both at once on the same nodes.

Each chooses the cards of its own dialect by its own plugin, and the webhook is the arbiter. The
cards of the other dialects' pods are not in its records here, so that each meets what it cannot
see. The configurations are those of ``dragoman configure --new --mode native``.
"""

import json
import time
from collections.abc import Iterator

import pytest

from e2e.harness.cluster.node_ledgers import held, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, bind, clear, events, node_of, pod
from e2e.harness.names import ALLOCATED, CORE, RATIO
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import (
    KOORD,
    VOLCANO,
    Planes,
    add_ready_nodes,
    prepare,
    wait_for_cards,
)
from e2e.harness.schedulers.native import (
    add_gang,
    change,
    changing,
    known_to_peers,
    native,
    outcomes,
    results,
)
from e2e.harness.schedulers.schedulers import start_volcano_controllers
from e2e.harness.schedulers.service import Service, start_service, webhooks, with_decisions
from e2e.harness.schedulers.stock_sharing import on, shares
from e2e.harness.schedulers.volcano import GROUPS, MEMORY, NUMBER
from e2e.harness.workloads.inventory import gpus, koordinator, volcano

NODES = ("left", "right")
CARDS = {name: gpus(name, 2) for name in NODES}
LARGE = {NUMBER: "1", MEMORY: "60000"}
"""More than half of a card of 81920 MiB: of these a card takes one."""
MOST = {CORE: "60", RATIO: "60"}
"""More than half of a card in Koordinator's words."""
TRIED = 4
"""Pods that seek the node with room: a scheduler draws one of two nodes, and koord-scheduler tries
it twice before it draws again, after 5, 19 and 41 s, so that one pod of 16 has no room in 60 s."""
LONG = 15
"""Seconds in which a pod that fits nowhere is tried again and again."""


@pytest.fixture(scope="module")
def service(planes: Planes) -> Iterator[Service]:
    with planes() as plane:
        prepare(plane)
        add_ready_nodes(
            plane,
            [
                known_to_peers(name, volcano(cards), koordinator(cards))
                for name, cards in CARDS.items()
            ],
        )
        start_volcano_controllers(plane, plane.scheduler(VOLCANO))
        made = start_service(plane)
        wait_for_cards(plane, NODES)
        with webhooks(made), native(made, NODES):
            clear(plane.api)
            wait_until_free(plane, *NODES)
            yield made


@pytest.fixture(autouse=True)
def clean(service: Service) -> Iterator[None]:
    yield
    clear(service.plane.api, GROUPS)
    wait_until_free(service.plane, *NODES)
    change(service.plane.api, *NODES)


def add(service: Service, name: str, scheduler: str, share: dict[str, str], node: str = "") -> None:
    """Create a pod, for one node or for any."""
    called = service.plane.scheduler(scheduler)
    service.plane.api.create(
        PODS, on(node, name, called, share) if node else pod(name, called, share)
    )


def wait_for(service: Service, *names: str) -> None:
    """Wait until pods are bound."""
    api = service.plane.api
    try:
        with_decisions(service, lambda: within(60, lambda: all(node_of(api, n) for n in names)))
    except AssertionError as late:
        said = "\n".join(f"{name}: {events(api, name)}" for name in names)
        raise AssertionError(f"{late}\n{said}") from late


def card_of(service: Service, name: str) -> str:
    """The card of a pod, by the ledger of its node."""
    (grant,) = held(service.plane, node_of(service.plane.api, name))[name]["grants"]
    return str(grant["card"])


def recorded(service: Service, name: str) -> str:
    """The card of a pod, by the record that the node components of its dialect read."""
    found = service.plane.api.get(f"{PODS}/{name}")
    said = found["metadata"]["annotations"]
    if ALLOCATED in said:
        (row,) = json.loads(said[ALLOCATED])["gpu"]
        return CARDS[str(found["spec"]["nodeName"])][int(row["minor"])].uuid
    ((card, _, _),) = shares(found)
    return card


def take(service: Service, node: str, *cards: str) -> None:
    """Let pods of Koordinator's dialect hold cards, of which vc-scheduler's plugin sees nothing."""
    for card in cards:
        minor = [each.uuid for each in CARDS[node]].index(card)
        name = f"hidden-{card.lower()}"
        amounts = {**MOST, "koordinator.sh/gpu-memory": "49152Mi"}
        choice = json.dumps({"gpu": [{"minor": minor, "resources": amounts}]})
        service.plane.api.create(PODS, pod(name, "no-scheduler", MOST))
        bind(service.plane.api, name, node, {ALLOCATED: choice})
        assert card_of(service, name) == card


def conditions(service: Service, name: str) -> str:
    """What a pod's status and Events say about it."""
    api = service.plane.api
    rows = api.get(f"{PODS}/{name}")["status"].get("conditions", ())
    return f"{[row.get('message') for row in rows]} {events(api, name)}"


def a_gang(service: Service, scheduler: str, size: int, node: str) -> list[str]:
    """A gang of pods with more than half of a card each."""
    return add_gang(service, scheduler, size, node, LARGE if scheduler == VOLCANO else MOST)


@pytest.mark.parametrize(("scheduler", "share"), [(VOLCANO, LARGE), (KOORD, MOST)])
def test_the_choice_of_the_schedulers_own_plugin_is_adopted(
    service: Service, scheduler: str, share: dict[str, str]
) -> None:
    add(service, "own", scheduler, share)
    wait_for(service, "own")

    assert card_of(service, "own") == recorded(service, "own")
    assert outcomes(service, "own") == ["adopted"]
    asked = ("filter", "prioritize", "bind", "predicate", "allocate")
    assert not any(outcomes(service, "own", verb) for verb in asked)


@pytest.mark.parametrize(
    ("scheduler", "own", "other", "verb"),
    [(VOLCANO, LARGE, MOST, "allocate"), (KOORD, MOST, LARGE, "filter")],
)
def test_pods_of_another_dialect_are_bound_through_the_extender_at_the_same_time(
    service: Service, scheduler: str, own: dict[str, str], other: dict[str, str], verb: str
) -> None:
    names = [f"{kind}-{number}" for number in range(2) for kind in ("own", "other")]
    for name in names:
        add(service, name, scheduler, own if name.startswith("own") else other)
    wait_for(service, *names)

    said = {name: outcomes(service, name) for name in names}
    print(f"{scheduler}: {said}")
    cards = [card_of(service, name) for name in names]
    assert len({*cards}) == len(names)
    assert cards == [recorded(service, name) for name in names]
    for name in names:
        assert bool(outcomes(service, name, verb)) == name.startswith("other")
        assert said[name][0] in ({"adopted", "corrected"} if name[:3] == "own" else {"bound"})


def test_another_card_of_the_node_is_given_where_the_chosen_one_was_taken(service: Service) -> None:
    """For koord-scheduler: ``test_koordinator_arbiter.py``. It counts the first card for ever."""
    add(service, "probe", VOLCANO, LARGE, "left")
    wait_for(service, "probe")
    liked = card_of(service, "probe")
    clear(service.plane.api)
    wait_until_free(service.plane, "left")
    change(service.plane.api, "left")
    take(service, "left", liked)

    add(service, "late", VOLCANO, LARGE, "left")
    wait_for(service, "late")

    assert card_of(service, "late") == recorded(service, "late") != liked
    assert outcomes(service, "late") == ["corrected"]


def hide(service: Service, scheduler: str, node: str, *cards: str) -> None:
    """Let pods of the other dialect hold cards, of which the scheduler's plugin sees nothing."""
    if scheduler == VOLCANO:
        take(service, node, *cards)
        return
    for card in cards:
        name = f"hidden-{card.lower()}"
        service.plane.api.create(PODS, pod(name, "no-scheduler", LARGE))
        bind(service.plane.api, name, node, {"volcano.sh/vgpu-ids-new": f"{card},NVIDIA,60000,0:"})
        assert card_of(service, name) == card


@pytest.mark.parametrize(("scheduler", "share"), [(VOLCANO, LARGE), (KOORD, MOST)])
def test_a_node_without_a_free_card_rejects_with_the_reason_and_another_one_is_found(
    service: Service, scheduler: str, share: dict[str, str]
) -> None:
    hide(service, scheduler, "left", *(card.uuid for card in CARDS["left"]))
    before = results(service)["refused"]
    names = [f"late-{number}" for number in range(TRIED)]

    def bound() -> list[str]:
        return [name for name in names if node_of(service.plane.api, name)]

    started = time.monotonic()
    with changing(service.plane.api, *NODES):
        for name in names:
            add(service, name, scheduler, share)
        within(60, bound, lambda: str([conditions(service, name) for name in names]))

    seconds, tries = time.monotonic() - started, results(service)["refused"] - before
    print(f"{scheduler}: bound after {seconds:.1f} s and {tries} rejected Bindings")
    for name in bound():
        assert node_of(service.plane.api, name) == "right"
        assert outcomes(service, name)[0] == "adopted"


@pytest.mark.parametrize(("scheduler", "share"), [(VOLCANO, LARGE), (KOORD, MOST)])
def test_a_pod_that_fits_no_node_is_tried_about_once_a_second_at_most(
    service: Service, scheduler: str, share: dict[str, str]
) -> None:
    for node, cards in CARDS.items():
        hide(service, scheduler, node, *(card.uuid for card in cards))
    add(service, "late", scheduler, share)
    with changing(service.plane.api, *NODES):
        within(30, lambda: "short" in conditions(service, "late"))
        before = results(service)["refused"]
        time.sleep(LONG)
        tries = results(service)["refused"] - before
        print(f"{scheduler}: {tries} rejected Bindings in {LONG} s; {conditions(service, 'late')}")
        assert tries <= LONG + 2
        assert node_of(service.plane.api, "late") == ""
        if scheduler == KOORD:
            return  # it may choose the card that is not free, and count it for ever
        hidden = f"hidden-{CARDS['left'][0].uuid.lower()}"
        service.plane.api.delete(f"{PODS}/{hidden}?gracePeriodSeconds=0")
        wait_for(service, "late")
    assert card_of(service, "late") == recorded(service, "late") == CARDS["left"][0].uuid


@pytest.mark.parametrize("scheduler", [VOLCANO, KOORD])
def test_a_gang_is_bound_as_a_whole_or_not_at_all(service: Service, scheduler: str) -> None:
    before = results(service)["refused"]
    too_large = a_gang(service, scheduler, 3, "left")
    time.sleep(LONG)

    assert [node_of(service.plane.api, name) for name in too_large] == [""] * 3
    assert held(service.plane, "left") == {}
    assert results(service)["refused"] == before

    fitting = a_gang(service, scheduler, 2, "right")
    wait_for(service, *fitting)
    assert {card_of(service, name) for name in fitting} == {card.uuid for card in CARDS["right"]}
    assert {*outcomes(service, fitting[0]), *outcomes(service, fitting[1])} == {"adopted"}


def waiting_gang(service: Service, scheduler: str) -> list[str]:
    """A gang that has room now, and had not when its scheduler tried it first."""
    add(service, "before", scheduler, LARGE if scheduler == VOLCANO else MOST, "left")
    wait_for(service, "before")
    members = a_gang(service, scheduler, 2, "left")
    time.sleep(LONG / 3)
    assert [node_of(service.plane.api, name) for name in members] == [""] * 2
    service.plane.api.delete(f"{PODS}/before?gracePeriodSeconds=0")
    return members


def test_koord_scheduler_binds_a_gang_that_waited_as_a_whole_when_it_has_room(
    service: Service,
) -> None:
    members = waiting_gang(service, KOORD)

    wait_for(service, *members)

    assert {card_of(service, name) for name in members} == {card.uuid for card in CARDS["left"]}
    assert [card_of(service, each) for each in members] == [recorded(service, e) for e in members]


def test_vc_scheduler_binds_a_gang_that_it_tried_before_only_when_its_pods_are_made_again(
    service: Service,
) -> None:
    """Without Dragoman too, 1.14.1 counts what its plugin wrote on an unbound pod, and then again.

    Source: volcano v1.14.1 pkg/scheduler/api/node_info.go, AddTask (addResource of the record), and
    the event handler of plugins/predicates, which allocates.
    """
    with changing(service.plane.api, "left"):
        members = waiting_gang(service, VOLCANO)
        time.sleep(LONG)
        assert [node_of(service.plane.api, name) for name in members] == [""] * 2

        clear(service.plane.api, GROUPS)
        change(service.plane.api, "left")
        again = a_gang(service, VOLCANO, 2, "left")
        wait_for(service, *again)

    assert {card_of(service, name) for name in again} == {card.uuid for card in CARDS["left"]}


@pytest.fixture
def mirroring(service: Service) -> Iterator[Service]:
    """A service that writes mirrored records meanwhile."""
    more = service.more
    for each in ({**more, "mirrors": ["volcano", "koordinator"]}, more):
        service.stop()
        service.more = each
        service.start()
        wait_for_cards(service.plane, NODES)
        if each is not more:
            yield service


@pytest.mark.parametrize(("scheduler", "share"), [(VOLCANO, LARGE), (KOORD, MOST)])
def test_with_mirrored_records_the_plugin_chooses_what_is_free(
    mirroring: Service, scheduler: str, share: dict[str, str]
) -> None:
    before = results(mirroring)["refused"]
    hide(mirroring, scheduler, "left", *(card.uuid for card in CARDS["left"]))
    add(mirroring, "probe", scheduler, share)
    wait_for(mirroring, "probe")
    assert node_of(mirroring.plane.api, "probe") == "right"

    add(mirroring, "next", scheduler, share)
    wait_for(mirroring, "next")

    assert card_of(mirroring, "next") == recorded(mirroring, "next")
    assert outcomes(mirroring, "probe") == outcomes(mirroring, "next") == ["adopted"]
    assert results(mirroring)["refused"] == before

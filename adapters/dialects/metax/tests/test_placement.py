"""Which cards a pod gets, through the core: the rules that HAMi states for MetaX cards."""

import pytest

from adapters.dialects.formats import hami_policies
from adapters.dialects.metax import keys
from adapters.dialects.metax.tests.builders import (
    a_container,
    a_device,
    a_kube_node,
    a_pod,
    constant,
    golden_node,
    indexes,
    place,
    read,
    rejection,
    run,
    the_node,
    whole_node,
    zones,
)
from adapters.wire.kube import Pod
from core.hardware.card import Mode
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import node_value
from core.requests.grant import Grant, Placement
from core.requests.reason import Cause, Reason
from core.requests.request import NodeKey

SLICE = {"sgpu": 1, "vcore": 30, "vmemory": 4}


def one_card() -> NodeLedger:
    return NodeLedger.of(zones(1))


def a_task(app_class: str = "normal", *, vcore: int = 30, vmemory: int = 4, **texts: str) -> Pod:
    if app_class != "normal":
        texts["APP_CLASS"] = app_class
    return a_pod(
        {"sgpu": 1, "vcore": vcore, "vmemory": vmemory},
        annotations={constant(key): value for key, value in texts.items()},
    )


def cause(reason: Reason) -> Cause:
    """The only cause, common to all cards."""
    (tally,) = reason.counts
    return tally.cause


# --- online, offline, normal: HAMi v2.10.0 pkg/device/metax/sdevice.go:738-775 ----------------

ALL = {"normal", "offline", "online"}


@pytest.mark.parametrize(
    ("residents", "welcome"),
    [
        ((), ALL),
        (("normal",), {"normal"}),
        (("offline",), {"offline", "online"}),
        (("online",), {"online"}),
        (("offline", "online"), {"online"}),
    ],
    ids=["idle", "normal", "offline", "online", "both"],
)
@pytest.mark.parametrize("newcomer", sorted(ALL))
def test_a_card_takes_the_classes_of_the_matrix(
    residents: tuple[str, ...], welcome: set[str], newcomer: str
) -> None:
    ledger = run(one_card(), *(a_task(each) for each in residents))

    if newcomer in welcome:
        assert indexes(ledger, place(a_task(newcomer), ledger)) == [0]
    else:
        assert cause(rejection(a_task(newcomer), ledger)) is Cause.CLASS


def test_online_takes_the_compute_of_an_exclusive_offline_task_but_not_its_memory() -> None:
    ledger = run(one_card(), a_task("offline", vcore=100, vmemory=60))

    assert indexes(ledger, place(a_task("online", vmemory=4), ledger)) == [0]
    assert cause(rejection(a_task("online", vmemory=5), ledger)) is Cause.MEMORY


def test_online_without_vmemory_needs_an_idle_card() -> None:
    online = a_pod({"sgpu": 1}, annotations={keys.APP_CLASS: "online"})

    assert place(online, one_card()).grants[0].memory == 64 * GIB
    assert cause(rejection(online, run(one_card(), a_task("online")))) is Cause.MEMORY


def test_online_tasks_are_limited_by_slots() -> None:
    node = the_node(a_kube_node([a_device(0, totalDevCount=2)]))
    ledger = run(NodeLedger.of(node), a_task("online"), a_task("online"))

    assert cause(rejection(a_task("online"), ledger)) is Cause.SLOTS


def placed_on(ledger: NodeLedger, index: int, *pods: Pod) -> NodeLedger:
    """The ledger after the pods were placed on one card."""
    uuid = ledger.node.cards[index].uuid
    for pod in pods:
        (pod.metadata.annotations or {})[keys.USE_UUIDS] = uuid
    return run(ledger, *pods)


def test_online_prefers_idle_then_few_online_then_few_offline_then_offline_only_cards() -> None:
    ledger = NodeLedger.of(zones(1, 1, 1, 1))
    ledger = placed_on(ledger, 0, a_task("offline"))
    ledger = placed_on(ledger, 1, a_task("offline"), a_task("online"))
    ledger = placed_on(ledger, 2, a_task("online"))
    chosen: list[int] = []
    for _ in range(4):
        pod = a_task("online", CARD_POLICY="binpack")
        chosen += indexes(ledger, place(pod, ledger))
        ledger = run(ledger, pod)

    assert chosen == [3, 3, 2, 1]


@pytest.mark.parametrize(
    ("residents", "value"),
    [((), 0), (("online",) * 2, -40), (("offline",) * 2, -200), (("offline", "online") * 2, -44)],
)
def test_nodes_have_hamis_value_for_an_online_task(residents: tuple[str, ...], value: int) -> None:
    pods = [a_task(each, vcore=10) for each in sorted(residents)]
    ledger = run(one_card(), *pods)
    pod = a_task("online")

    assert node_value(NodeKey.ONLINE, read(pod), ledger, place(pod, ledger)) == value


# --- QoS: pkg/device/metax/sdevice.go:528-577 -------------------------------------------------


def test_a_card_has_one_qos_at_a_time() -> None:
    ledger = run(one_card(), a_task(QOS="fixed-share"))

    assert indexes(ledger, place(a_task(QOS="fixed-share"), ledger)) == [0]
    assert cause(rejection(a_task(), ledger)) is Cause.QOS
    assert cause(rejection(a_task(QOS="burst-share"), ledger)) is Cause.QOS


def test_an_idle_card_takes_any_qos_whatever_it_had_before() -> None:
    first = a_task(QOS="fixed-share")
    ledger = run(one_card(), first).release(first.metadata.uid)

    assert indexes(ledger, place(a_task(QOS="burst-share"), ledger)) == [0]


def test_the_qos_is_that_of_the_residents_not_what_the_node_last_published() -> None:
    node = the_node(a_kube_node([a_device(0, qosPolicy="best-effort")]))
    ledger = run(NodeLedger.of(node), a_task(QOS="fixed-share"))

    assert cause(rejection(a_task(QOS="best-effort"), ledger)) is Cause.QOS
    assert indexes(ledger, place(a_task(QOS="fixed-share"), ledger)) == [0]


def test_online_joins_offline_tasks_of_any_qos() -> None:
    ledger = run(one_card(), a_task("offline", QOS="fixed-share"))

    assert indexes(ledger, place(a_task("online"), ledger)) == [0]


def test_best_effort_is_billed_for_its_compute() -> None:
    ledger = run(one_card(), a_task(vcore=60))

    assert rejection(a_task(vcore=60), ledger).text() == "1 of 1 cards: compute 20% short"


# --- exclusive: pkg/device/metax/sdevice.go:399-450 -------------------------------------------


def test_full_compute_needs_an_idle_card_even_for_a_part_of_its_memory() -> None:
    ledger = run(one_card(), a_task())

    assert cause(rejection(a_pod({"sgpu": 1, "vmemory": 4}), ledger)) is Cause.IN_USE


def test_no_pod_joins_an_exclusive_card_that_still_has_memory() -> None:
    ledger = run(one_card(), a_pod({"sgpu": 1, "vmemory": 4}))

    assert cause(rejection(a_task(vcore=1), ledger)) is Cause.HELD_EXCLUSIVELY
    assert cause(rejection(a_task("online"), ledger)) is Cause.CLASS


def test_mutex_takes_an_idle_card_and_keeps_others_off_it() -> None:
    ledger = run(NodeLedger.of(zones(1, 1)), a_task())
    mutex = a_task(CARD_POLICY="mutex")

    allocated = run(ledger, mutex)

    assert indexes(ledger, place(mutex, ledger)) == [0]
    assert cause(rejection(a_task(CARD_POLICY="mutex"), allocated)) is Cause.IN_USE
    assert indexes(allocated, place(a_task(), allocated)) == [1]


# --- uuid lists: table 7.11 -------------------------------------------------------------------


def test_only_listed_cards_are_allocated_and_excluded_ones_never() -> None:
    ledger = NodeLedger.of(zones(4))

    assert indexes(ledger, place(a_task(USE_UUIDS="GPU-1,GPU-2"), ledger)) == [2]
    both = a_task(USE_UUIDS="GPU-1,GPU-2", NO_USE_UUIDS="GPU-2")
    assert indexes(ledger, place(both, ledger)) == [1]
    assert cause(rejection(a_task(USE_UUIDS="GPU-9"), ledger)) is Cause.UUID


# --- policies: table 7.8 ----------------------------------------------------------------------


def test_cards_are_spread_unless_the_pod_wants_them_packed() -> None:
    ledger = run(NodeLedger.of(zones(4)), a_task())

    assert indexes(ledger, place(a_task(), ledger)) == [2]
    assert indexes(ledger, place(a_task(CARD_POLICY="binpack"), ledger)) == [3]


def test_equal_cards_are_chosen_from_the_highest_numa_node_and_index_down() -> None:
    devices = [a_device(0, numa=1), a_device(1, numa=1), a_device(2), a_device(3)]
    ledger = NodeLedger.of(the_node(a_kube_node(devices)))

    pair = a_pod({"sgpu": 2, "vcore": 10, "vmemory": 1})

    assert indexes(ledger, place(pair, ledger)) == [1, 0]


def test_a_request_for_more_cards_than_the_node_has_is_reported() -> None:
    reason = rejection(a_pod({"sgpu": 3, "vcore": 1, "vmemory": 1}), NodeLedger.of(zones(2)))

    assert reason.text() == "3 cards asked for one container, node has 2"


def test_an_unhealthy_card_is_not_allocated() -> None:
    node = the_node(a_kube_node([a_device(0, healthy=False)]))

    assert cause(rejection(a_task(), NodeLedger.of(node))) is Cause.UNHEALTHY


# --- links: pkg/device/metax/sdevice.go:579-736 -----------------------------------------------


@pytest.mark.parametrize(
    ("cards", "allocated", "raw"),
    [
        ((4, 4), (0,), -30),
        ((4, 4), (0, 1), 60),
        ((4, 4), (0, 1, 2), 270),
        ((4, 4), (0, 1, 2, 3), 600),
        ((4, 4), (0, 1, 2, 3, 4), 570),
        ((4, 4), (0, 1, 2, 3, 4, 5), 660),
        ((4, 4), (0, 1, 2, 3, 4, 5, 6), 870),
        ((4, 4), tuple(range(8)), 1200),
        ((2, 4), (0, 1), 100),
        ((8,), (0, 1), -20),
        ((8,), (0, 1, 2, 3), 440),
        ((8,), tuple(range(8)), 2800),
        ((3, 2), (0, 1, 3, 4), 180),
        ((3, 2), (0, 1, 2, 3), 290),
        ((1, 2, 3), (0, 1, 2, 3), 80),
        ((1, 2, 3), (0, 3, 4, 5), 300),
    ],
)
def test_a_choice_of_linked_cards_has_hamis_value(
    cards: tuple[int, ...], allocated: tuple[int, ...], raw: int
) -> None:
    ledger = NodeLedger.of(zones(*cards))
    request = read(a_pod({"sgpu": len(allocated)}))
    grants = tuple(
        Grant("main", ledger.node.cards[index].uuid, 64 * GIB, 100, exclusive=True)
        for index in allocated
    )

    value = node_value(NodeKey.LINKS, request, ledger, Placement("node-a", grants))

    assert 10 * value == raw


@pytest.mark.parametrize(
    ("cards", "count", "zones_used"),
    [
        ((3, 2), 4, [3, 1]),
        ((1, 2, 3), 4, [3, 1]),
        ((2, 4), 2, [2]),
        ((4, 4), 4, [4]),
        ((4, 4), 6, [4, 2]),
        ((4, 3), 1, [1]),
    ],
)
def test_the_best_linked_group_is_chosen_not_the_greedy_one(
    cards: tuple[int, ...], count: int, zones_used: list[int]
) -> None:
    ledger = NodeLedger.of(zones(*cards))

    placement = place(a_pod({"sgpu": count}), ledger)

    of = {card.uuid: card.links[0].name for card in ledger.node.cards}
    chosen = [of[grant.card] for grant in placement.grants]
    assert sorted((chosen.count(name) for name in set(chosen)), reverse=True) == zones_used


def test_links_are_counted_with_all_containers_of_the_pod() -> None:
    ledger = NodeLedger.of(golden_node())
    pod = a_pod(
        a_container({"sgpu": 2}, "left"),
        a_container({"sgpu": 2}, "right"),
        annotations={keys.TOPOLOGY_AWARE: "true"},
    )

    placement = place(pod, ledger)

    assert sorted(indexes(ledger, placement)) == [4, 5, 6, 7]
    assert node_value(NodeKey.LINKS, read(pod), ledger, placement) == 60


# --- whole cards: pkg/device/metax/device.go:67-89 and 156-214 --------------------------------


def test_containers_of_one_pod_get_their_own_whole_cards() -> None:
    ledger = NodeLedger.of(whole_node(3))
    pod = a_pod(a_container({"gpu": 1}, "left"), a_container({"gpu": 2}, "right"))

    placement = place(pod, ledger)

    assert indexes(ledger, placement) == [2, 1, 0]
    assert [grant.container for grant in placement.grants] == ["left", "right", "right"]
    assert cause(rejection(a_pod({"gpu": 1}), run(ledger, pod))) is Cause.IN_USE


def test_whole_cards_that_the_kubelet_removed_are_not_allocated() -> None:
    kube = a_kube_node(capacity={"metax-tech.com/gpu": 2}, allocatable={"metax-tech.com/gpu": 1})
    ledger = NodeLedger.of(the_node(kube))

    assert indexes(ledger, place(a_pod({"gpu": 1}), ledger)) == [1]
    assert rejection(a_pod({"gpu": 2}), ledger).text() == "1 of 2 cards: unhealthy"


def test_shares_and_whole_cards_do_not_mix() -> None:
    assert cause(rejection(a_task(), NodeLedger.of(whole_node(1)))) is Cause.MODE
    assert cause(rejection(a_pod({"gpu": 1}), one_card())) is Cause.MODE
    assert whole_node(1).cards[0].mode is Mode.WHOLE


def table_value(policy: str, losses: str | None = None, scores: str | None = None) -> int:
    """The value of a node with these tables for a pod of two containers with a card each."""
    both = (a_container({"gpu": 1}, "left"), a_container({"gpu": 1}, "right"))
    pod = a_pod(*both, annotations={hami_policies.NODE_POLICY: policy})
    ledger = NodeLedger.of(whole_node(2, losses=losses, scores=scores))
    return node_value(read(pod).ranking.nodes[0], read(pod), ledger, place(pod, ledger))


def test_whole_cards_go_where_the_table_states_the_smallest_loss_or_the_largest_gain() -> None:
    assert table_value("binpack", losses='{"2":110}') > table_value("binpack", losses='{"2":120}')
    assert table_value("spread", scores='{"2":120}') > table_value("spread", scores='{"2":110}')


@pytest.mark.parametrize("table", [None, "{}", '{"1":0}', '{"1":999}', "broken"])
def test_a_node_that_states_nothing_for_so_many_cards_is_the_last_choice(table: str | None) -> None:
    assert table_value("binpack", losses='{"2":5000}') > table_value("binpack", losses=table)
    assert table_value("spread", scores='{"2":-5000}') > table_value("spread", scores=table)


# --- init containers and sidecars -------------------------------------------------------------


def test_a_sidecar_counts_beside_the_main_containers_and_an_init_container_does_not() -> None:
    large = {"sgpu": 1, "vcore": 60, "vmemory": 40}
    main = a_container(large)

    after = a_pod(main, init=[a_container(large, "prepare")])
    beside = a_pod(main, init=[a_container(large, "side", sidecar=True)])

    assert indexes(one_card(), place(after, one_card())) == [0, 0]
    assert rejection(beside, one_card()).cause is Cause.TOGETHER


def test_the_same_question_has_the_same_answer() -> None:
    ledger = run(NodeLedger.of(zones(4, 4)), a_task(), a_task())
    pod = a_pod({"sgpu": 3})

    assert len({place(pod, ledger) for _ in range(5)}) == 1

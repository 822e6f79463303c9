"""The annotations of a pod: MetaX sGPU manual, tables 7.8 to 7.14, and HAMi's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import Defaults, DialectError, SchedulingPolicy
from adapters.dialects.formats import hami_policies
from adapters.dialects.formats.hami_policies import DEVICE_CONFIG
from adapters.dialects.metax import keys
from adapters.dialects.metax.tests.builders import (
    a_container,
    a_metax,
    a_pod,
    constant,
    read,
    request_or_error,
)
from adapters.wire.kube import Pod
from core.requests.request import CardKey, NodeKey, Ranking, Request, TaskClass, Weights

SLICE = {"sgpu": 1, "vcore": 60, "vmemory": 4}


def annotated_pod(**annotations: str) -> Pod:
    """Annotations by the name of their constant."""
    return a_pod(SLICE, annotations={constant(key): value for key, value in annotations.items()})


def ranking(defaults: Defaults | None = None, **annotations: str) -> Ranking:
    return a_metax(defaults=defaults).read_request(annotated_pod(**annotations)).ranking


def rejection(**annotations: str) -> DialectError:
    with pytest.raises(DialectError) as rejected:
        read(annotated_pod(**annotations))
    return rejected.value


# --- table 7.8: policies ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "key"), [("binpack", NodeKey.FULLEST), ("spread", NodeKey.EMPTIEST)]
)
def test_a_node_policy_orders_nodes_by_use(policy: str, key: NodeKey) -> None:
    assert ranking(NODE_POLICY=policy).nodes == (key,)


@pytest.mark.parametrize(
    ("policy", "cards"),
    [
        ("binpack", (CardKey.FULLEST, CardKey.HIGH_NUMA, CardKey.HIGH_INDEX)),
        ("spread", (CardKey.EMPTIEST, CardKey.HIGH_NUMA, CardKey.HIGH_INDEX)),
        ("mutex", (CardKey.IDLE, CardKey.HIGH_NUMA, CardKey.HIGH_INDEX)),
        ("numa", (CardKey.HIGH_NUMA, CardKey.HIGH_INDEX)),
        ("topology-aware", (CardKey.EMPTIEST, CardKey.HIGH_NUMA, CardKey.HIGH_INDEX)),
        ("numa,binpack", (CardKey.HIGH_NUMA, CardKey.FULLEST, CardKey.HIGH_INDEX)),
        ("binpack, numa", (CardKey.FULLEST, CardKey.HIGH_NUMA, CardKey.HIGH_INDEX)),
        (
            "topology-aware,mutex,spread",
            (CardKey.IDLE, CardKey.EMPTIEST, CardKey.HIGH_INDEX),
        ),
    ],
)
def test_card_policies_order_cards_as_they_are_written(
    policy: str, cards: tuple[CardKey, ...]
) -> None:
    assert ranking(CARD_POLICY=policy).cards == cards


def test_without_a_policy_nodes_are_packed_and_cards_spread() -> None:
    assert ranking() == Ranking(
        (CardKey.EMPTIEST, CardKey.HIGH_NUMA, CardKey.HIGH_INDEX), (NodeKey.FULLEST,)
    )


def test_the_operator_replaces_the_defaults_and_the_pod_wins() -> None:
    defaults = Defaults(node_policy=SchedulingPolicy.SPREAD, card_policy=SchedulingPolicy.BINPACK)

    assert ranking(defaults).nodes == (NodeKey.EMPTIEST,)
    assert ranking(defaults).cards[0] is CardKey.FULLEST
    assert ranking(defaults, NODE_POLICY="binpack").nodes == (NodeKey.FULLEST,)
    assert ranking(defaults, CARD_POLICY="spread").cards[0] is CardKey.EMPTIEST


@pytest.mark.parametrize("value", ["", "Binpack", "pack", "binpack "])
def test_an_unknown_node_policy_is_rejected_not_replaced(value: str) -> None:
    error = rejection(NODE_POLICY=value)

    assert error.field == "metadata.annotations[hami.io/node-scheduler-policy]"
    assert error.problem == "must be binpack or spread"


@pytest.mark.parametrize("value", ["", "numa,", "Spread", "binpack;numa"])
def test_an_unknown_card_policy_is_rejected_not_replaced(value: str) -> None:
    assert "binpack or spread or mutex or numa" in rejection(CARD_POLICY=value).problem


def test_numa_binding_puts_the_numa_node_first() -> None:
    assert ranking(NUMA_BIND="true").cards[0] is CardKey.HIGH_NUMA
    assert ranking(NUMA_BIND="false") == ranking()
    assert rejection(NUMA_BIND="yes").problem == "must be true or false"


def test_weights_count_slots_compute_and_memory() -> None:
    assert ranking(WEIGHTS="slot=0, memory=5,core=2").weights == Weights(0, 2, 5)
    assert ranking().weights == Weights(1, 1, 1)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "slot=1",
        "slot=0,core=0,memory=0",
        "slot=1,core=1,memory=-1",
        "slot=1,core=1,memory=1,slot=1",
        "slot=1,core=1,core=1",
        "slot=1,core=1,power=1",
        "slot=1,core=1,memory=1.5",
    ],
)
def test_invalid_weights_are_rejected(value: str) -> None:
    assert rejection(WEIGHTS=value).problem.startswith("must be slot=1,core=1,memory=1")


# --- tables 7.9 and 7.10: QoS ----------------------------------------------------------------


@pytest.mark.parametrize("qos", ["best-effort", "fixed-share", "burst-share"])
def test_the_three_qos_policies_are_accepted(qos: str) -> None:
    assert read(annotated_pod(QOS=qos)).terms.qos == qos


def test_best_effort_is_the_default() -> None:
    assert read(annotated_pod()).terms.qos == "best-effort"
    assert read(annotated_pod(APP_CLASS="offline")).terms.qos == "best-effort"


@pytest.mark.parametrize("qos", ["", "Best-Effort", "guaranteed"])
def test_an_unknown_qos_is_rejected_for_online_tasks_too(qos: str) -> None:
    assert "best-effort or fixed-share or burst-share" in rejection(QOS=qos).problem
    assert "best-effort" in rejection(QOS=qos, APP_CLASS="online").problem


def test_full_compute_makes_no_claim_on_the_qos() -> None:
    texts = {keys.QOS: "fixed-share"}

    assert read(a_pod({"sgpu": 1}, annotations=texts)).terms.qos is None
    mixed = a_pod(a_container(SLICE, "left"), a_container({"sgpu": 1}, "right"), annotations=texts)
    assert read(mixed).terms.qos == "fixed-share"


# --- table 7.11: chosen cards ----------------------------------------------------------------


def test_uuid_lists_are_trimmed_and_blank_lists_say_nothing() -> None:
    request = read(annotated_pod(USE_UUIDS=" GPU-1, GPU-2 ,", NO_USE_UUIDS="GPU-2"))
    blank = read(annotated_pod(USE_UUIDS=" , ", NO_USE_UUIDS=""))

    assert request.allow_uuids == frozenset({"GPU-1", "GPU-2"})
    assert request.deny_uuids == {"GPU-2"}
    assert (blank.allow_uuids, blank.deny_uuids) == (None, frozenset())


# --- table 7.12: topology --------------------------------------------------------------------


def links_count(texts: dict[str, str], stated: object = None, default: object = None) -> bool:
    settings = {} if stated is None else {DEVICE_CONFIG: {"metax": {"sgpuTopologyAware": stated}}}
    defaults = Defaults(topology_aware=None if default is None else bool(default))
    request = a_metax(settings, defaults).read_request(a_pod({"sgpu": 4}, annotations=texts))
    return NodeKey.LINKS in request.ranking.nodes


@pytest.mark.parametrize("value", ["true", "1", "t", "T", "TRUE", "True"])
def test_links_count_in_the_choice_of_the_node_where_the_pod_requests_it(value: str) -> None:
    assert links_count({keys.TOPOLOGY_AWARE: value})


@pytest.mark.parametrize("value", ["false", "0", "f", "F", "FALSE", "False"])
def test_links_do_not_count_where_the_pod_disables_them(value: str) -> None:
    assert not links_count({keys.TOPOLOGY_AWARE: value}, stated=True, default=True)


def test_links_count_by_the_pod_then_the_operator_then_the_cluster() -> None:
    assert not links_count({})
    assert links_count({}, stated=True)
    assert links_count({}, default=True)
    assert not links_count({}, stated=True, default=False)
    assert links_count({}, stated=False, default=True)


def test_links_come_before_use_and_only_for_full_compute() -> None:
    texts = {keys.TOPOLOGY_AWARE: "true", hami_policies.NODE_POLICY: "spread"}

    full = read(a_pod({"sgpu": 4}, annotations=texts))
    part = read(a_pod(SLICE, annotations=texts))

    assert full.ranking.nodes == (NodeKey.LINKS, NodeKey.EMPTIEST)
    assert part.ranking.nodes == (NodeKey.EMPTIEST,)


def test_an_invalid_boolean_is_rejected() -> None:
    assert rejection(TOPOLOGY_AWARE="yes").problem == "must be true or false"


def test_whole_cards_are_ordered_by_stated_loss_or_gain() -> None:
    packed = read(a_pod({"gpu": 2}))
    spread = read(a_pod({"gpu": 2}, annotations={hami_policies.NODE_POLICY: "spread"}))

    assert packed.ranking.nodes == (NodeKey.LEAST_LOSS, NodeKey.FULLEST)
    assert spread.ranking.nodes == (NodeKey.MOST_GAIN, NodeKey.EMPTIEST)


# --- tables 7.13 and 7.14: classes -----------------------------------------------------------


def of_class(app_class: str, vcore: int | None = 60) -> Request:
    limits = {"sgpu": 1, "vmemory": 4} | ({} if vcore is None else {"vcore": vcore})
    return read(a_pod(limits, annotations={keys.APP_CLASS: app_class}))


def test_a_pod_is_normal_online_or_offline() -> None:
    assert read(annotated_pod()).terms.task_class is TaskClass.NORMAL
    assert of_class("online").terms.task_class is TaskClass.ONLINE
    assert of_class("offline").terms.task_class is TaskClass.OFFLINE


@pytest.mark.parametrize("value", ["", "oNLine", "batch"])
def test_an_unknown_class_is_rejected(value: str) -> None:
    assert rejection(APP_CLASS=value).problem == "must be online or offline"


def test_an_online_task_reserves_no_compute_and_has_no_qos() -> None:
    request = of_class("online", vcore=None)

    assert (request.containers[0].compute, request.containers[0].exclusive, request.terms.qos) == (
        0,
        False,
        None,
    )
    assert not request.containers[0].linked
    assert request.notes == ()
    assert request.ranking.cards[:2] == (CardKey.ONLINE, CardKey.EMPTIEST)
    assert request.ranking.nodes == (NodeKey.ONLINE, NodeKey.FULLEST)


def test_settings_without_effect_on_an_online_task_are_noted() -> None:
    request = read(annotated_pod(APP_CLASS="online", QOS="fixed-share"))

    assert [note.partition(": ")[2] for note in request.notes] == [
        "60 is not used, an online task reserves no compute",
        "fixed-share is not used for an online task",
    ]


def test_an_offline_task_follows_the_policies_like_a_normal_one() -> None:
    offline = read(annotated_pod(APP_CLASS="offline", CARD_POLICY="binpack", QOS="fixed-share"))
    normal = read(annotated_pod(CARD_POLICY="binpack", QOS="fixed-share"))

    assert (offline.ranking, offline.terms.qos, offline.containers) == (
        normal.ranking,
        normal.terms.qos,
        normal.containers,
    )


def test_an_exclusive_offline_task_has_no_part_in_links() -> None:
    request = of_class("offline", vcore=100)

    assert (request.containers[0].exclusive, request.containers[0].linked) == (True, False)


@pytest.mark.parametrize("app_class", ["online", "offline"])
def test_online_and_offline_tasks_have_one_card_in_all_their_containers(app_class: str) -> None:
    texts = {keys.APP_CLASS: app_class}
    pods = [
        a_pod({"sgpu": 2, "vmemory": 1}, annotations=texts),
        a_pod(a_container(SLICE, "left"), a_container(SLICE, "right"), annotations=texts),
        a_pod(SLICE, init=[a_container(SLICE, "prepare")], annotations=texts),
    ]

    for pod in pods:
        with pytest.raises(DialectError, match="can have one card in all its containers, not 2"):
            read(pod)


# --- anything at all -------------------------------------------------------------------------

READ_KEYS = (
    hami_policies.NODE_POLICY,
    hami_policies.CARD_POLICY,
    hami_policies.WEIGHTS,
    hami_policies.NUMA_BIND,
    keys.QOS,
    keys.APP_CLASS,
    keys.TOPOLOGY_AWARE,
    keys.USE_UUIDS,
    keys.NO_USE_UUIDS,
)


@given(st.dictionaries(st.sampled_from(READ_KEYS), st.text(max_size=12)))
def test_any_annotations_give_a_request_or_an_error_that_names_one(texts: dict[str, str]) -> None:
    found = request_or_error(a_pod(SLICE, annotations=texts))

    if isinstance(found, DialectError):
        assert found.field.removeprefix("metadata.annotations[").removesuffix("]") in texts

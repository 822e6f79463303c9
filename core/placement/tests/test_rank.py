from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.feasibility.fit import fit
from core.hardware.card import Card, Level, Scope
from core.hardware.node import Node
from core.hardware.quantity import FULL, GIB
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import IDLE, CardUsage, shares_by_card
from core.placement.rank import (
    NO_ENTRY,
    PPM,
    CardCandidate,
    card_value,
    load,
    needs_placement,
    node_value,
    order_cards,
    shares,
)
from core.requests.grant import Grant, Placement
from core.requests.request import (
    CardKey,
    NodeKey,
    Ranking,
    Request,
    SharingTerms,
    TaskClass,
    TopologyConstraint,
    Weights,
)
from core.tests.builders import a_card, a_container, a_grant, a_request, empty, held, like_cards
from core.tests.strategies import ledgers, requests

ONLINE, OFFLINE = TaskClass.ONLINE, TaskClass.OFFLINE


def use(*classes: TaskClass, memory: int = GIB) -> CardUsage:
    found = IDLE
    for number, task_class in enumerate(classes):
        owner = replace(held(uid=str(number)), terms=SharingTerms(task_class=task_class))
        found = found.plus(shares_by_card(owner, [a_grant(memory=memory)]))
    return found


def a_candidate(card: Card | None = None, held_by: CardUsage = IDLE, *own: Grant) -> CardCandidate:
    return CardCandidate(card or a_card(), held_by, own)


def value(key: CardKey, seen: CardCandidate, request: Request | None = None) -> int:
    request = request or a_request()
    return card_value(key, request, request.containers[0], seen)


# --- cards ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "better", "worse"),
    [
        (CardKey.LOW_INDEX, a_card(index=1), a_card(index=2)),
        (CardKey.HIGH_INDEX, a_card(index=2), a_card(index=1)),
        (CardKey.LOW_NUMA, replace(a_card(), numa=0), replace(a_card(), numa=1)),
        (CardKey.HIGH_NUMA, replace(a_card(), numa=1), replace(a_card(), numa=0)),
        (CardKey.HIGH_NUMA, replace(a_card(), numa=0), a_card()),
        (CardKey.FULLEST, a_card(memory=8 * GIB), a_card()),
        (CardKey.EMPTIEST, a_card(slots=8), a_card()),
    ],
)
def test_what_a_card_is_orders_it(key: CardKey, better: Card, worse: Card) -> None:
    assert value(key, a_candidate(better)) > value(key, a_candidate(worse))


@pytest.mark.parametrize(
    ("key", "better", "worse"),
    [
        (CardKey.MOST_MEMORY_USED, use(ONLINE, memory=2), use(ONLINE, memory=1)),
        (CardKey.FEWEST_SHARERS, use(ONLINE), use(ONLINE, ONLINE)),
        (CardKey.FULLEST, use(ONLINE), IDLE),
        (CardKey.EMPTIEST, IDLE, use(ONLINE)),
        (CardKey.IDLE, IDLE, use(ONLINE)),
        (CardKey.ONLINE, IDLE, use(ONLINE)),
        (CardKey.ONLINE, use(ONLINE), use(ONLINE, ONLINE)),
        (CardKey.ONLINE, use(ONLINE), use(ONLINE, OFFLINE)),
        (CardKey.ONLINE, use(*(ONLINE,) * 9, *(OFFLINE,) * 9), use(OFFLINE)),
    ],
)
def test_the_shares_of_a_card_decide_its_order(
    key: CardKey, better: CardUsage, worse: CardUsage
) -> None:
    assert value(key, a_candidate(None, better)) > value(key, a_candidate(None, worse))


@pytest.mark.parametrize(
    "key", [CardKey.MOST_MEMORY_USED, CardKey.FULLEST, CardKey.FEWEST_SHARERS, CardKey.IDLE]
)
def test_what_earlier_containers_of_the_pod_got_counts_too(key: CardKey) -> None:
    assert value(key, a_candidate(None, IDLE, a_grant())) != value(key, a_candidate())


def test_weighted_use_is_counted_after_the_request() -> None:
    request = replace(
        a_request(a_container(4 * GIB, compute=10)), ranking=Ranking(weights=Weights(1, 2, 3))
    )

    found = value(CardKey.FULLEST, a_candidate(None, use(ONLINE, memory=4 * GIB)), request)

    assert found == 1 * PPM // 2 + 2 * PPM // 10 + 3 * PPM // 2


@pytest.mark.parametrize(
    ("compute", "load"), [(FULL, 500_000), (50, 1_000_000), (200, 250_000), (0, 0)]
)
def test_use_of_compute_is_a_part_of_what_pods_may_have(compute: int, load: int) -> None:
    request = replace(a_request(a_container(compute=50)), ranking=Ranking(weights=Weights(0, 1, 0)))

    assert value(CardKey.FULLEST, a_candidate(replace(a_card(), compute=compute)), request) == load


def test_the_lowest_index_breaks_the_last_tie() -> None:
    candidates = [
        a_candidate(a_card("a", 2)),
        a_candidate(a_card("b", 0)),
        a_candidate(a_card("c", 1)),
    ]
    request = replace(a_request(), ranking=Ranking(cards=(CardKey.IDLE,)))

    assert order_cards(request, request.containers[0], candidates, (0, 1, 2)) == (1, 2, 0)


@given(ledgers(most=4), requests(), st.randoms())
def test_the_order_of_cards_does_not_depend_on_where_it_starts(
    ledger: NodeLedger, request: Request, seed: Random
) -> None:
    candidates = [
        CardCandidate(card, held_by, ())
        for card, held_by in zip(ledger.node.cards, ledger.usages, strict=True)
    ]
    positions = list(range(len(candidates)))
    shuffled = seed.sample(positions, len(positions))

    for container in request.containers:
        assert order_cards(request, container, candidates, positions) == order_cards(
            request, container, candidates, shuffled
        )


# --- nodes ----------------------------------------------------------------------------------------


def chosen(key: NodeKey, ledger: NodeLedger, *grants: Grant, request: Request | None = None) -> int:
    return node_value(key, request or a_request(), ledger, Placement("n", grants))


def test_shares_of_a_node_are_over_all_its_cards() -> None:
    ledger = empty(*like_cards(2)).adopt(held(a_grant("c0", 8 * GIB, 50)))

    assert shares(ledger) == (PPM // 8, PPM // 4, PPM // 4)
    assert load(ledger, Weights(0, 1, 2)) == PPM // 4 + 2 * PPM // 4


def test_compute_of_a_node_is_what_pods_may_have_of_its_cards() -> None:
    grants = held(a_grant("c0", compute=50))
    halved = [replace(card, compute=50) for card in like_cards(2)]

    assert shares(empty(*halved).adopt(grants))[1] == 500_000
    assert shares(empty(*(replace(c, compute=0) for c in halved)).adopt(grants)) == (0, 0, 0)


def test_a_node_without_cards_bears_no_load() -> None:
    assert shares(empty()) == (0, 0, 0)


@given(ledgers())
def test_fullest_and_emptiest_are_opposites(ledger: NodeLedger) -> None:
    assert chosen(NodeKey.FULLEST, ledger) == -chosen(NodeKey.EMPTIEST, ledger)
    assert chosen(NodeKey.FULLEST, ledger) == load(ledger, Weights())


def test_only_load_needs_no_placement() -> None:
    assert [key for key in NodeKey if not needs_placement(key)] == [
        NodeKey.FULLEST,
        NodeKey.EMPTIEST,
    ]


def test_chosen_cards_count_as_they_are_after_the_request() -> None:
    ledger = empty(*like_cards(2)).adopt(held(a_grant("c0", 4 * GIB)))

    found = chosen(NodeKey.CHOSEN_FULLEST, ledger, a_grant("c0", 4 * GIB), a_grant("c1", 4 * GIB))

    assert found == PPM // 2 + PPM // 4


def linked(name: str) -> tuple[Scope, ...]:
    return (Scope(Level.LINK, name),)


def test_links_inside_the_choice_count_more_than_links_that_it_breaks() -> None:
    cards = [
        replace(card, links=linked(name))
        for card, name in zip(like_cards(6), "ppqqqq", strict=True)
    ]
    request = replace(a_request(), topology=TopologyConstraint((Level.LINK,)))

    def links(*uuids: str) -> int:
        grants = [replace(a_grant(uuid, 16 * GIB, FULL), exclusive=True) for uuid in uuids]
        return chosen(NodeKey.LINKS, empty(*cards), *grants, request=request)

    assert links("c0", "c1") == 10
    assert links("c2", "c3") == 10 - 4
    assert links("c0", "c2") == -(1 + 3)
    assert links() == 0


TABLE = ((1, 5), (2, 9))


@pytest.mark.parametrize(
    ("key", "node", "cards", "expected"),
    [
        (NodeKey.LEAST_LOSS, Node("n", losses=TABLE), 2, -9),
        (NodeKey.LEAST_LOSS, Node("n", losses=TABLE), 3, NO_ENTRY),
        (NodeKey.LEAST_LOSS, Node("n"), 3, NO_ENTRY),
        (NodeKey.MOST_GAIN, Node("n", gains=TABLE), 1, 5),
        (NodeKey.MOST_GAIN, Node("n", gains=TABLE), 3, NO_ENTRY),
        (NodeKey.MOST_GAIN, Node("n"), 3, NO_ENTRY),
    ],
)
def test_what_the_node_states_counts_and_what_it_does_not_state_is_worst(
    key: NodeKey, node: Node, cards: int, expected: int
) -> None:
    grants = [a_grant(str(number)) for number in range(cards)]

    assert chosen(key, NodeLedger.of(node), *grants) == expected


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ((), 0),
        ((ONLINE, ONLINE), -40),
        ((OFFLINE, OFFLINE), -200),
        ((ONLINE, ONLINE, OFFLINE, OFFLINE), -44),
    ],
)
def test_online_tasks_cost_as_in_hami(classes: tuple[TaskClass, ...], expected: int) -> None:
    ledger = empty(a_card(), a_card("b", 1))
    for number, task_class in enumerate(classes):
        ledger = ledger.adopt(
            replace(held(a_grant(), uid=str(number)), terms=SharingTerms(task_class=task_class))
        )

    assert chosen(NodeKey.ONLINE, ledger, a_grant("a")) == expected
    assert chosen(NodeKey.ONLINE, ledger, a_grant("b")) == 0


@given(ledgers(), requests())
def test_every_criterion_gives_every_placement_a_whole_number(
    ledger: NodeLedger, request: Request
) -> None:
    result = fit(request, ledger)

    if isinstance(result, Placement):
        for key in NodeKey:
            assert type(node_value(key, request, ledger, result)) is int

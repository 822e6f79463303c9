from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory
from core.hardware.card import Mode
from core.hardware.mig import Geometry
from core.hardware.quantity import FULL, GIB
from core.ledger.node_ledger import NodeLedger
from core.placement.rank import load
from core.requests.grant import Placement
from core.requests.request import NodeKey, Ranking, Request, SharingTerms, TaskClass, Weights
from core.tests.builders import (
    A30ISH,
    a_card,
    a_container,
    a_grant,
    a_ledger,
    a_mig_card,
    a_request,
    empty,
    held,
    like_cards,
    unreadable,
)
from core.tests.strategies import clusters, requests


def fitting(request: Request, ledgers: list[NodeLedger]) -> list[str]:
    """The oracle: fit every node."""
    return [ledger.node.name for ledger in ledgers if isinstance(fit(request, ledger), Placement)]


def a_cluster(nodes: int, cards: int = 2) -> Inventory:
    return Inventory(
        empty(*like_cards(cards, prefix=f"n{number}-"), name=f"n{number}")
        for number in range(nodes)
    )


def test_nodes_keep_the_order_in_which_they_were_put() -> None:
    inventory = a_cluster(3)

    inventory.put(inventory.ledger("n0").adopt(held(a_grant("n0-0"), node="n0")))

    assert inventory.names() == ("n0", "n1", "n2")
    assert [ledger.node.name for ledger in inventory] == ["n0", "n1", "n2"]
    assert len(inventory) == 3


def test_a_removed_node_is_no_candidate() -> None:
    inventory = a_cluster(3)

    inventory.remove("n0")
    inventory.remove("n0")

    assert inventory.get("n0") is None
    assert inventory.candidates(a_request()) == ["n1", "n2"]


@given(clusters(), requests(uid="n1.0"))
def test_no_node_that_fits_is_left_out(ledgers: list[NodeLedger], request: Request) -> None:
    candidates = Inventory(ledgers).candidates(request)

    assert set(fitting(request, ledgers)) <= set(candidates)


@given(clusters(), requests(containers=1))
def test_a_plain_request_for_shared_cards_fits_every_candidate(
    ledgers: list[NodeLedger], request: Request
) -> None:
    plain = replace(
        request,
        containers=tuple(replace(container, linked=False) for container in request.containers),
        modes=frozenset({Mode.SHARED, Mode.WHOLE}),
        allow_uuids=None,
        deny_uuids=frozenset(),
        terms=SharingTerms(request.terms.task_class),
    )

    candidates = Inventory(ledgers).candidates(plain)

    assert candidates == fitting(plain, ledgers)


@given(clusters(), clusters(), st.sets(st.sampled_from([f"n{number}" for number in range(6)])))
def test_the_columns_stay_in_step_with_the_ledgers(
    before: list[NodeLedger], after: list[NodeLedger], gone: set[str]
) -> None:
    inventory = Inventory(before)
    for name in sorted(gone):
        inventory.remove(name)
    for ledger in after:
        inventory.put(ledger)
    for ledger in list(inventory):
        inventory.put(ledger.release(f"{ledger.node.name}.0"))

    rebuilt = Inventory(inventory)

    for request in (a_request(), a_request(a_container(GIB, 2, 50)), a_request(uid="n1.1")):
        assert inventory.candidates(request) == rebuilt.candidates(request)
    weights = Weights(1, 2, 3)
    expected = [load(ledger, weights) for ledger in inventory]
    assert inventory.loads(weights).tolist() == [*expected, 0]


def named_groups(
    inventory: Inventory, request: Request, candidates: Sequence[str]
) -> list[list[str]]:
    groups = inventory.ranked(request, inventory.rows(candidates))
    return [[inventory.name(row) for row in group.tolist()] for group in groups]


@given(clusters(), requests())
def test_groups_come_by_load_and_hold_each_candidate_once(
    ledgers: list[NodeLedger], request: Request
) -> None:
    request = replace(request, ranking=Ranking(nodes=(NodeKey.EMPTIEST,)))
    inventory = Inventory(ledgers)

    groups = named_groups(inventory, request, inventory.candidates(request))

    loads = [
        {load(inventory.ledger(name), request.ranking.weights) for name in group}
        for group in groups
    ]
    assert all(len(found) == 1 for found in loads)
    assert [min(found) for found in loads] == sorted(min(found) for found in loads)
    assert sorted(name for group in groups for name in group) == sorted(
        inventory.candidates(request)
    )


def test_without_a_load_to_rank_by_all_candidates_are_one_group() -> None:
    assert named_groups(a_cluster(2), a_request(), ["n1", "n0"]) == [["n1", "n0"]]


def test_what_the_pod_itself_holds_does_not_count_as_load() -> None:
    inventory = a_cluster(2)
    inventory.put(inventory.ledger("n0").adopt(held(a_grant("n0-0", 9 * GIB), uid="p", node="n0")))
    request = replace(a_request(uid="p"), ranking=Ranking(nodes=(NodeKey.EMPTIEST,)))

    assert named_groups(inventory, request, inventory.names()) == [["n0", "n1"]]


def test_only_known_names_are_answered_and_in_their_order() -> None:
    inventory = a_cluster(3)

    assert inventory.candidates(a_request(), ["n2", "stranger", "n0"]) == ["n2", "n0"]


def test_tables_grow_with_their_nodes() -> None:
    inventory = a_cluster(70)

    assert len(inventory.candidates(a_request())) == 70


def test_a_card_takes_ten_bytes_and_a_node_some() -> None:
    columns = [numbers for table in a_cluster(70).columns() for numbers in table]

    assert sum(numbers.nbytes for numbers in columns) == 70 * (2 * 10 + 3 * 8 + 8)


def test_more_cards_than_a_byte_counts_are_counted() -> None:
    inventory = a_cluster(1, cards=300)

    assert inventory.candidates(a_request(a_container(GIB, count=300))) == ["n0"]
    assert inventory.candidates(a_request(a_container(GIB, count=301))) == []


def test_percent_are_of_each_card_of_a_node() -> None:
    small, large = a_card("s", 0, 2 * GIB), a_card("l", 1, 8 * GIB)
    ledger = empty(small, large).adopt(held(a_grant("l", 5 * GIB)))
    half = replace(a_container(), memory=None, memory_percent=50)

    assert Inventory([ledger]).candidates(a_request(half)) == ["n"]
    assert Inventory([ledger]).candidates(a_request(replace(half, count=2))) == []


def test_a_node_whose_cards_are_all_the_pods_own_is_a_candidate() -> None:
    inventory = a_cluster(2, cards=1)
    for name in ("n0", "n1"):
        full = held(a_grant(f"{name}-0", 16 * GIB), uid=name, node=name)
        inventory.put(inventory.ledger(name).adopt(full))

    assert inventory.candidates(a_request(uid="n1")) == ["n1"]


def test_a_pod_that_left_a_node_is_no_more_a_candidate_there() -> None:
    inventory = a_cluster(1, cards=1)
    ours, theirs = a_grant("n0-0", 4 * GIB), a_grant("n0-0", 16 * GIB)
    inventory.put(inventory.ledger("n0").adopt(held(ours, uid="p", node="n0")))
    inventory.put(inventory.ledger("n0").adopt(held(theirs, uid="q", node="n0")))
    inventory.put(inventory.ledger("n0").release("p"))

    assert inventory.candidates(a_request(uid="p")) == []


def test_an_allowed_uuid_leads_to_its_nodes() -> None:
    inventory = a_cluster(4)
    allowed = replace(a_request(), allow_uuids=frozenset({"n1-0", "n3-1", "stranger"}))

    assert inventory.candidates(allowed) == ["n1", "n3"]


def test_a_card_that_two_nodes_claim_leads_to_both_until_one_lets_go() -> None:
    inventory = a_cluster(2)
    allowed = replace(a_request(), allow_uuids=frozenset({"n0-0"}))
    inventory.put(empty(a_card("n0-0"), a_card("n0-0", 1), name="n1"))
    assert inventory.candidates(allowed) == ["n0", "n1"]

    inventory.remove("n0")

    assert inventory.candidates(allowed) == ["n1"]


def test_unhealthy_cards_and_unreadable_allocations_have_no_free_capacity() -> None:
    ill = empty(replace(a_card("i"), healthy=False), name="n0")
    blocked = empty(a_card("b"), name="n1").adopt(unreadable("x", ["b"], "n1"))

    assert Inventory([ill, blocked]).candidates(a_request()) == []


def test_a_node_without_the_isolation_asked_for_is_left_out() -> None:
    asking = replace(a_request(), isolation="core")
    ledger = NodeLedger.of(replace(empty(a_card(), name="n1").node, isolation="core"))

    assert Inventory([empty(a_card(), name="n0"), ledger]).candidates(asking) == ["n1"]


def test_an_online_task_may_share_an_exclusive_offline_card_alone() -> None:
    offline = replace(a_grant("a", GIB, FULL), exclusive=True)
    ledger = empty(a_card()).adopt(
        replace(held(offline), terms=SharingTerms(task_class=TaskClass.OFFLINE))
    )
    online = replace(a_request(), terms=SharingTerms(task_class=TaskClass.ONLINE))
    again = replace(a_request(), terms=SharingTerms(task_class=TaskClass.OFFLINE))

    assert Inventory([ledger]).candidates(online) == ["n"]
    assert Inventory([ledger]).candidates(again) == []


def test_the_free_capacity_of_a_mig_card_is_its_largest_free_slice() -> None:
    request = replace(a_request(), modes=frozenset({Mode.MIG}))
    ledger = empty(a_mig_card())
    result = fit(replace(request, containers=(a_container(2 * GIB),)), ledger)
    assert isinstance(result, Placement)
    ledger = ledger.adopt(held(*result.grants))

    def offers(memory: int) -> bool:
        return bool(
            Inventory([ledger]).candidates(replace(request, containers=(a_container(memory),)))
        )

    assert offers(2 * GIB)
    assert not offers(2 * GIB + 1)


def test_a_mig_card_is_a_candidate_by_the_configured_sizes_of_its_slices() -> None:
    layouts = [
        replace(each, configured=tuple(slot.memory + 1 for slot in each.slices))
        for each in A30ISH.layouts
    ]
    card = replace(a_mig_card(), geometry=Geometry(tuple(layouts)))
    inventory = Inventory([empty(card)])

    def names(memory: int) -> list[str]:
        asking = replace(a_request(a_container(memory)), by_configured_size=True)
        return inventory.candidates(replace(asking, modes=frozenset({Mode.MIG})))

    assert (names(4 * GIB + 1), names(4 * GIB + 2)) == (["n"], [])


def test_a_mig_card_with_a_grant_without_slice_or_without_free_slices_has_no_free_capacity() -> (
    None
):
    request = replace(a_request(), modes=frozenset({Mode.MIG}))
    uncut = empty(a_mig_card(), name="n0").adopt(held(a_grant(), node="n0"))
    whole = fit(
        replace(request, containers=(a_container(4 * GIB),)), empty(a_mig_card(), name="n1")
    )
    assert isinstance(whole, Placement)
    full = empty(a_mig_card(), name="n1").adopt(held(*whole.grants, node="n1"))

    assert Inventory([uncut, full]).candidates(request) == []


def test_nodes_that_differ_in_names_alone_have_one_class() -> None:
    inventory = a_cluster(3)
    for name in ("n0", "n1"):
        inventory.put(inventory.ledger(name).adopt(held(a_grant(f"{name}-1"), uid=name, node=name)))

    assert inventory.node_class("n0") == inventory.node_class("n1") != inventory.node_class("n2")


def test_the_class_changes_with_the_ledger() -> None:
    inventory = a_cluster(2)
    before = inventory.node_class("n0")

    inventory.put(inventory.ledger("n0").adopt(held(a_grant("n0-1"), node="n0")))

    assert inventory.node_class("n0") != before == inventory.node_class("n1")


def test_a_pod_is_found_by_its_nodes() -> None:
    inventory = a_cluster(2, cards=1)
    before = inventory.nodes_of("p")

    inventory.put(inventory.ledger("n1").adopt(held(a_grant("n1-0"), uid="p", node="n1")))

    assert (before, inventory.nodes_of("p")) == ((), ("n1",))


def test_the_nodes_of_a_group_are_those_of_its_members() -> None:
    member = replace(held(a_grant("n-0")), terms=SharingTerms(member_of="g"))
    inventory = Inventory([a_ledger().adopt(member), a_ledger("m")])
    first = inventory.nodes_of_group("g")

    inventory.put(a_ledger("m").adopt(replace(member, uid="other", node="m")))
    both = inventory.nodes_of_group("g")
    inventory.put(a_ledger())

    assert first == {"n"}
    assert both == {"n", "m"}
    assert inventory.nodes_of_group("g") == {"m"}
    assert inventory.nodes_of_group(None) == frozenset()


def test_a_card_in_slices_is_noticed_and_forgotten_with_its_node() -> None:
    inventory = a_cluster(1, cards=1)
    before = inventory.has_mig_cards()
    inventory.put(empty(a_mig_card("s"), name="sliced"))
    during = inventory.has_mig_cards()
    inventory.remove("sliced")

    assert (before, during, inventory.has_mig_cards()) == (False, True, False)

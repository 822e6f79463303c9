"""Pods that a vendor's device plugin serves: none of ours on a node without cards."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.feasibility.cache import FeasibilityCache
from core.feasibility.fit import fit
from core.feasibility.inventory import Inventory, NodeNames
from core.hardware.card import Mode
from core.ledger.node_ledger import Hold, NodeLedger
from core.ledger.problem import ProblemKind
from core.requests.grant import KUBELET, KUBELET_CHOOSES, Allocation, Placement
from core.requests.reason import Cause, Reason
from core.requests.request import ContainerRequest, PluginShare, Request
from core.tests.builders import (
    DIALECT,
    a_card,
    a_grant,
    a_mig_card,
    a_request,
    empty,
    held,
    unreadable,
)
from core.tests.strategies import clusters

WHOLE = ContainerRequest("main", 1, memory_percent=100, compute=100, exclusive=True)


def plain(share: PluginShare = PluginShare.CARD, uid: str = "new", *modes: Mode) -> Request:
    return replace(
        a_request(WHOLE, uid=uid),
        plugin=share,
        vendor="nvidia",
        modes=frozenset(modes or (Mode.SHARED, Mode.WHOLE)),
    )


def elsewhere(ledger: NodeLedger) -> NodeLedger:
    """Return the node described by no dialect of the request."""
    cards = tuple(replace(card, dialects=frozenset()) for card in ledger.node.cards)
    return ledger.with_node(replace(ledger.node, cards=cards))


def described_in_part(ledger: NodeLedger, left: int | None) -> NodeLedger:
    """Return the node with only its first cards; with all of them for None."""
    return ledger.with_node(replace(ledger.node, cards=ledger.node.cards[:left]))


def by_kubelet(*cards: str, uid: str = "served") -> Allocation:
    return replace(unreadable(uid, cards), dialect=KUBELET, unread=KUBELET_CHOOSES)


def test_a_node_without_cards_has_no_reason_beside_one_that_does_not_fit() -> None:
    taken = empty(a_card(), name="taken").adopt(held(a_grant(), node="taken"))
    inventory = Inventory([empty(name="bare"), taken])

    for request in (plain(), replace(plain(), allow_uuids=frozenset({"a"}))):
        evaluation = FeasibilityCache().evaluate(request, inventory)
        assert evaluation.fits("bare")
        assert evaluation.values("bare") == ()
        assert evaluation.reasons(["bare", "taken"]).keys() == {"taken"}
        assert evaluation.explain(NodeNames(["bare", "taken"])).keys() == {"taken"}


def test_a_node_without_cards_fits_and_gives_none() -> None:
    for share in PluginShare:
        assert fit(plain(share), empty()) == Placement("n", ())
    assert isinstance(fit(a_request(), empty()), Reason)


def test_a_node_that_is_described_no_more_is_ours_while_pods_have_its_cards() -> None:
    ledger = described_in_part(empty(a_card("a")).adopt(held(a_grant("a"))), 0)
    plugins = described_in_part(empty(a_card("a")).adopt(by_kubelet("a")), 0)

    assert fit(plain(), ledger) == Reason("n", 0, cause=Cause.UNDESCRIBED)
    assert fit(plain(), ledger.release("old")) == fit(plain(), plugins) == Placement("n", ())


def test_so_is_one_while_a_pod_may_have_its_cards() -> None:
    ledger = described_in_part(empty(a_card("a")).adopt(unreadable("old", "a")), 0)

    assert fit(plain(), ledger) == Reason("n", 0, cause=Cause.UNDESCRIBED)


def test_a_place_that_is_kept_of_cards_that_are_gone_makes_no_node_ours() -> None:
    place = Hold("plan", "owner", by_name=False, allocation=held(a_grant("a"), uid="hold"))
    ledger = described_in_part(empty(a_card("a")).hold(place), 0).with_holds()

    assert fit(plain(), ledger) == Placement("n", ())


def test_nodes_without_cards_differ_by_what_pods_have() -> None:
    ledger = described_in_part(empty(a_card("a"), name="lost").adopt(held(a_grant("a"))), 0)
    inventory = Inventory([empty(name="bare"), ledger])
    evaluation = FeasibilityCache().evaluate(plain(), inventory)

    assert inventory.not_ours().tolist() == [True, False, False]
    assert evaluation.fitting(inventory.rows()).tolist() == [True, False]
    inventory.put(ledger.release("old"))
    assert inventory.not_ours().tolist() == [True, True, False]
    inventory.put(ledger)
    inventory.remove("lost")
    assert inventory.not_ours().tolist() == [True, False]


def test_where_a_dialect_describes_the_cards_the_ledger_chooses() -> None:
    found = fit(plain(), empty(a_card("a")).adopt(held(a_grant("a"))))
    free = fit(plain(), empty(a_card("a")))

    assert isinstance(found, Reason)
    assert isinstance(free, Placement)
    assert [grant.card for grant in free.grants] == ["a"]


def test_where_none_does_every_card_that_the_kubelet_may_choose_must_be_free() -> None:
    ledger = elsewhere(empty(a_card("a"), a_card("b", 1)))

    assert fit(plain(), ledger) == Placement("n", (), frozenset("ab"))
    given_away = ledger.adopt(replace(held(a_grant("b")), dialect="another"))
    found = fit(plain(), given_away)
    assert isinstance(found, Reason)
    assert found.text() == f"1 of 2 cards: {Cause.KUBELET.value}"
    assert isinstance(fit(plain(), ledger.adopt(unreadable("old", "a"))), Reason)


def test_the_kubelets_pods_share_what_it_may_choose() -> None:
    ledger = elsewhere(empty(a_card("a"), a_card("b", 1)))
    for uid in ("one", "two"):
        found = fit(plain(uid=uid), ledger)
        assert isinstance(found, Placement)
        ledger = ledger.allocate(Allocation.of(plain(uid=uid), found))

    assert {each.dialect for each in ledger.allocations.values()} == {KUBELET}
    assert [use.shares[0].blocked for use in ledger.usages] == [True, True]
    assert ledger.problems() == ()
    refused = fit(a_request(), ledger.with_node(empty(a_card("a"), a_card("b", 1)).node))
    assert isinstance(refused, Reason)
    assert refused.text() == f"2 of 2 cards: {Cause.HELD_BY_KUBELET.value}"


def test_a_card_that_was_given_away_twice_is_a_problem() -> None:
    ledger = empty(a_card("a")).adopt(held(a_grant("a"))).adopt(by_kubelet("a"))

    (problem,) = ledger.problems()

    assert problem.kind is ProblemKind.CONFLICT
    assert problem.text.endswith(Cause.HELD_BY_KUBELET.value)
    both_unknown = empty(a_card("a")).adopt(unreadable("old", "a")).adopt(by_kubelet("a"))
    assert [each.kind for each in both_unknown.problems()] == [ProblemKind.UNREADABLE]


def test_a_device_reaches_the_cards_of_its_mode() -> None:
    ledger = empty(a_card("a"), a_mig_card("m", 1), replace(a_card("x", 2), vendor="metax"))

    assert fit(plain(PluginShare.DEVICE), ledger) == Placement("n", (), frozenset("a"))
    mig = plain(PluginShare.DEVICE, "new", Mode.MIG)
    assert fit(mig, ledger) == Placement("n", (), frozenset("m"))
    assert fit(mig, empty(a_card("a"), a_card("b", 1))) == Placement("n", (), frozenset("ab"))
    assert fit(mig, empty(replace(a_card("x"), vendor="metax"))) == Placement("n", ())


def obvious(request: Request, ledger: NodeLedger) -> Placement | Reason | None:
    """What ``fit`` says, by the allocations; None where any reason will do."""
    own = [card for card in ledger.node.cards if card.vendor == request.vendor]
    if request.plugin is PluginShare.CARD and any(DIALECT in card.dialects for card in own):
        return fit(replace(request, plugin=None), ledger)
    described = {card.uuid for card in ledger.node.cards}
    in_mode = {card.uuid for card in own if card.mode in request.modes}
    reach = {card.uuid for card in own}
    if request.plugin is PluginShare.DEVICE:
        reach = in_mode or reach
    for uid, other in ledger.allocations.items():
        used = {*other.blocked, *(grant.card for grant in other.grants)}
        if uid != request.uid and other.dialect != KUBELET and (reach & used or used - described):
            return None
    return Placement(ledger.node.name, (), frozenset(reach))


def check(request: Request, ledgers: Iterable[NodeLedger]) -> None:
    inventory = Inventory(ledgers)
    evaluation = FeasibilityCache().evaluate(request, inventory, ("unreadable",))
    names = [*inventory.names(), "unknown", "unreadable"]
    truth = {ledger.node.name: obvious(request, ledger) for ledger in inventory}
    fitting = {name for name, found in truth.items() if isinstance(found, Placement)}

    for ledger in inventory:
        expected = truth[ledger.node.name]
        assert expected is None or fit(request, ledger) == expected
        assert expected is not None or isinstance(fit(request, ledger), Reason)
    rows = inventory.rows(names)
    assert evaluation.fitting(rows).tolist() == [name in fitting for name in names]
    assert {name for name in names if evaluation.fits(name)} == {*fitting, "unknown"}
    assert evaluation.reasons(names).keys() == {*names} - {*fitting, "unknown"}
    assert {*evaluation.explain(NodeNames(names))} == {*names} - {*fitting, "unknown"}
    assert (evaluation.ranks(rows) > 0).tolist() == [name in fitting for name in names]
    for name in fitting:
        allocated = evaluation.decide(NodeNames([name]))
        assert allocated.placement == truth[name]
        assert (evaluation.values(name) == ()) or truth[name].grants  # type: ignore[union-attr]


@given(
    clusters(),
    st.sampled_from(PluginShare),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from((None, None, 1, 0)),
)
def test_every_answer_is_that_of_the_allocations(
    ledgers: list[NodeLedger],
    share: PluginShare,
    mig: bool,
    strange: bool,
    kubelet: bool,
    left: int | None,
) -> None:
    if strange:
        ledgers = [elsewhere(ledger) for ledger in ledgers]
    ledgers = [described_in_part(ledger, left) for ledger in ledgers]
    if kubelet:
        ledgers = [
            NodeLedger.restored(
                ledger.node,
                [replace(each, dialect=KUBELET) for each in ledger.allocations.values()],
            )
            for ledger in ledgers
        ]
    modes = (Mode.MIG,) if mig else ()
    check(plain(share, "new", *modes), [*ledgers, empty(name="bare")])


def test_a_quota_says_nothing_of_nodes_that_are_not_ours() -> None:
    inventory = Inventory([empty(a_card("a"), name="ours"), empty(name="bare")])
    refused = FeasibilityCache().evaluate(plain(), inventory, refusal="no")
    names = ["ours", "bare", "unknown"]
    rows = np.array([0, 1])

    assert refused.fitting(rows).tolist() == [False, True]
    assert refused.ranks(rows).tolist() == [0, 1]
    assert [refused.fits(name) for name in names] == [False, True, True]
    assert [refused.values(name) for name in names] == [None, (), ()]
    assert refused.reasons(names).keys() == {"ours"}
    assert refused.best() == Placement("bare", ())
    assert refused.best(NodeNames(["ours"])) is None

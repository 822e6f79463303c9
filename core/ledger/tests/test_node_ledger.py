from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.feasibility.fit import fit
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.hardware.quantity import FULL, GIB
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.ledger.problem import Problem, ProblemKind
from core.ledger.usage import IDLE, shares_by_card
from core.requests.grant import Allocation, AllocationState, Grant, Placement
from core.requests.request import ContainerRequest, Phase, Request, SharingTerms, TaskClass
from core.tests.builders import (
    a_card,
    a_grant,
    a_mig_card,
    a_node,
    a_sliced_grant,
    empty,
    held,
    like_cards,
    tentative,
    unreadable,
)
from core.tests.strategies import CLASSES, a_random_request, ledgers, seeds


@given(seeds, ledgers(pods=8))
def test_other_allocations_give_the_ledger_that_they_give_alone(
    seed: Random, ledger: NodeLedger
) -> None:
    rows = [one for one in ledger.allocations.values() if seed.random() < 0.7]
    rows = [replace(one, attempt=9) if seed.random() < 0.2 else one for one in rows]
    rows += [
        held(a_grant("a", GIB, 1), uid=f"new-{number}") for number in range(seed.randint(0, 2))
    ]
    if seed.random() < 0.2:
        seed.shuffle(rows)

    found = ledger.with_allocations(rows, 7, {"default": 3})

    assert found == NodeLedger.restored(ledger.node, rows, 7, {"default": 3})
    assert [*found.allocations] == [one.uid for one in rows]


def test_allocations_that_come_and_go_give_the_ledger_that_they_give_alone() -> None:
    kept, gone = held(a_grant("c0"), uid="kept"), held(a_grant("c0", 2 * GIB), uid="gone")
    ledger = empty(*like_cards(2)).adopt(kept).adopt(gone)
    rows = [kept, held(a_grant("c1", 3 * GIB), uid="new")]

    found = ledger.with_allocations(rows, 7, {"default": 3})

    assert found == NodeLedger.restored(ledger.node, rows, 7, {"default": 3})
    assert [use.memory for use in found.usages] == [GIB, 3 * GIB]


def test_allocations_in_another_order_give_the_ledger_that_they_give_alone() -> None:
    first, last = held(a_grant("c0"), uid="first"), held(a_grant("c1"), uid="last")
    ledger = empty(*like_cards(2)).adopt(first).adopt(last)
    rows = [*ledger.allocations.values()][::-1]

    assert ledger.with_allocations(rows, 7, {}) == NodeLedger.restored(ledger.node, rows, 7, {})


# --- one change at a time -------------------------------------------------------------------------


def refusal(change: Callable[[], NodeLedger]) -> str:
    with pytest.raises(LedgerError) as error:
        change()
    return str(error.value)


def test_a_reservation_uses_every_card_of_the_allocation() -> None:
    ledger = empty(*like_cards(3)).reserve(held(a_grant("c0", GIB, 10), a_grant("c2", 2 * GIB)))

    assert [(use.memory, use.compute, use.slots) for use in ledger.usages] == [
        (GIB, 10, 1),
        (0, 0, 0),
        (2 * GIB, 0, 1),
    ]
    assert ledger.version == 1


def test_what_does_not_fit_is_refused_with_the_cause() -> None:
    ledger = empty(a_card()).reserve(held(a_grant(memory=16 * GIB)))

    text = refusal(lambda: ledger.reserve(held(a_grant(), uid="next")))

    assert text == "card a cannot take default/next: memory"


def test_a_card_that_the_node_has_not_is_refused() -> None:
    assert refusal(lambda: empty(a_card()).reserve(held(a_grant("x")))) == "node n has no card x"


def test_an_allocation_of_another_node_is_refused() -> None:
    text = refusal(lambda: empty(a_card()).reserve(held(a_grant(), node="m")))

    assert text == "default/old goes to m, not n"


def test_a_committed_pod_is_not_booked_again() -> None:
    ledger = empty(a_card()).reserve(held(a_grant()))

    assert (
        refusal(lambda: ledger.reserve(held(a_grant())))
        == "pod default/old already holds cards of n"
    )


def test_a_second_reservation_of_a_pod_replaces_the_first() -> None:
    ledger = empty(*like_cards(2)).reserve(tentative(held(a_grant("c0", 16 * GIB))))

    again = ledger.reserve(tentative(held(a_grant("c1", 16 * GIB))))

    assert [use.memory for use in again.usages] == [0, 16 * GIB]
    assert again.version == ledger.version + 1


def test_a_rejected_change_keeps_the_earlier_reservation() -> None:
    ledger = empty(a_card()).reserve(tentative(held(a_grant())))

    refusal(lambda: ledger.reserve(tentative(held(a_grant(memory=17 * GIB)))))

    assert [use.memory for use in ledger.usages] == [GIB]


def test_exclusive_containers_of_one_pod_do_not_share_a_card() -> None:
    pair = (replace(a_grant(container="x"), exclusive=True), a_grant(container="y"))

    text = refusal(lambda: empty(a_card()).reserve(held(*pair)))

    assert text == "containers of default/old exclude each other on a"


def test_an_init_container_may_have_a_card_alone_that_a_later_one_shares() -> None:
    first = replace(a_grant(container="x"), exclusive=True, phase=Phase.INIT)

    assert empty(a_card()).reserve(held(first, a_grant(container="y"))).problems() == ()


def test_containers_that_run_at_once_do_not_share_a_slice() -> None:
    pair = (a_sliced_grant(0, container="x"), a_sliced_grant(0, container="y"))

    text = refusal(lambda: empty(a_mig_card()).reserve(held(*pair)))

    assert text == "containers of default/old exclude each other on a"


def test_a_slice_that_an_init_container_leaves_may_be_used_again() -> None:
    pair = (
        a_sliced_grant(0, 2, Phase.INIT, "x"),
        a_sliced_grant(0, 2, container="y"),
    )

    ledger = empty(a_mig_card()).reserve(held(*pair))

    assert [use.memory for use in ledger.usages] == [2 * GIB]


def test_a_share_of_a_mig_card_without_a_slice_is_rejected() -> None:
    text = refusal(lambda: empty(a_mig_card()).reserve(held(a_grant())))

    assert text == "card a cannot take default/old: no free MIG slices for a large enough profile"


def test_a_blocked_card_must_be_idle_to_be_reserved() -> None:
    ledger = empty(a_card()).reserve(held(a_grant()))

    text = refusal(lambda: ledger.reserve(unreadable("x", ["a"])))

    assert text == "card a cannot take default/x: held by an allocation that cannot be read"


def test_committing_makes_final_once() -> None:
    ledger = empty(a_card()).reserve(tentative(held(a_grant()), expires=5))

    final = ledger.commit("old")

    assert final.allocations["old"].state is AllocationState.COMMITTED
    assert final.expire(10) is final.commit("old") is final


def test_every_attempt_to_bind_a_pod_has_its_own_version() -> None:
    ledger = empty(a_card()).reserve(tentative(held(a_grant()))).commit("old")

    again = ledger.renew("old")

    assert [ledger.allocations["old"].attempt, again.allocations["old"].attempt] == [2, 3]
    assert (again.version, again.usages) == (3, ledger.usages)
    assert refusal(lambda: ledger.renew("p")) == "pod p holds nothing on n"


def test_allocating_is_one_change_with_a_number_of_its_own() -> None:
    ledger = empty(a_card()).reserve(tentative(held(a_grant()), expires=5))

    first = ledger.allocate(held(a_grant()))
    second = first.allocate(held(a_grant()))

    assert [ledger.version, first.version, second.version] == [1, 2, 3]
    assert [one.allocations["old"].attempt for one in (first, second)] == [2, 3]
    assert first.allocations["old"].state is AllocationState.COMMITTED
    assert first.expire(10) is first
    assert first.usages == second.usages == ledger.usages


def test_what_does_not_fit_is_not_allocated() -> None:
    ledger = empty(a_card("a")).reserve(unreadable("x", ["a"]))

    text = refusal(lambda: ledger.allocate(held(a_grant("a"))))

    assert text == "card a cannot take default/old: held by an allocation that cannot be read"


def test_a_pod_without_an_allocation_cannot_be_committed() -> None:
    assert refusal(lambda: empty(a_card()).commit("p")) == "pod p holds nothing on n"


def test_releasing_a_pod_without_an_allocation_changes_nothing() -> None:
    ledger = empty(a_card())

    assert ledger.release("p") is ledger


def test_several_pods_are_released_as_one_after_the_other() -> None:
    ledger = empty(*like_cards(2))
    for number, card in enumerate(("c0", "c0", "c1")):
        ledger = ledger.allocate(held(a_grant(card, memory=GIB, compute=10), uid=f"p{number}"))

    both = ledger.release("p0", "stranger", "p2")

    assert both == replace(ledger.release("p0").release("p2"), version=ledger.version + 1)


def test_reservations_expire_at_their_time() -> None:
    ledger = empty(*like_cards(4))
    for number, expires in enumerate((4, 5, 6, None)):
        grant = a_grant(f"c{number}")
        ledger = ledger.reserve(tentative(held(grant, uid=f"p{number}"), expires))

    assert list(ledger.expire(5).allocations) == ["p2", "p3"]


def test_an_adopted_allocation_counts_though_it_does_not_fit() -> None:
    ledger = empty(a_card()).reserve(held(a_grant(memory=16 * GIB, compute=80)))

    both = ledger.adopt(held(a_grant(memory=GIB, compute=40), uid="found"))

    assert [(use.memory, use.compute) for use in both.usages] == [(17 * GIB, 120)]
    assert both.release("found").usages == ledger.usages


def test_adopting_replaces_the_pods_earlier_allocation() -> None:
    ledger = empty(*like_cards(2)).reserve(held(a_grant("c0")))

    moved = ledger.adopt(held(a_grant("c1")))

    assert [use.slots for use in moved.usages] == [0, 1]
    assert moved.version == ledger.version + 1


def test_a_card_that_comes_back_is_still_allocated() -> None:
    ledger = empty(*like_cards(2)).reserve(held(a_grant("c1")))

    without = ledger.with_node(a_node(*like_cards(1)))
    again = without.with_node(ledger.node)

    assert [problem.text for problem in without.problems()] == [
        "holds card c1, which the node does not have"
    ]
    assert again.usages == ledger.usages
    assert again.version == ledger.version + 2


def test_an_unreadable_allocation_counts_and_is_a_problem() -> None:
    ledger = empty(a_card()).adopt(unreadable("x", ["a"]))

    assert ledger.problems() == (
        Problem("default/x", "its record is not readable", ProblemKind.UNREADABLE),
    )
    refusal(lambda: ledger.reserve(held(a_grant())))


@pytest.mark.parametrize(
    ("found", "kind", "text"),
    [
        (
            a_grant(memory=16 * GIB),
            ProblemKind.MEMORY,
            "card a: 17.0 of 16.0 GiB are allocated: default/x (D) 1.0 GiB, default/y (D) 16.0 GiB",
        ),
        (
            a_grant(compute=100),
            ProblemKind.COMPUTE,
            "card a: 140% of its compute are allocated: default/x (D) 40%, default/y (D) 100%",
        ),
    ],
)
def test_what_is_allocated_twice_is_a_problem_with_its_pods(
    found: Grant, kind: ProblemKind, text: str
) -> None:
    ledger = empty(a_card()).adopt(held(a_grant(compute=40), uid="x")).adopt(held(found, uid="y"))
    dialect = ledger.allocations["x"].dialect

    assert Problem("", text.replace("(D)", f"({dialect})"), kind, "a") in ledger.problems()


def test_more_shares_than_slots_are_a_problem() -> None:
    ledger = empty(a_card(slots=1)).adopt(held(a_grant(), a_grant(container="y")))

    (problem,) = ledger.problems()

    assert problem.text.startswith("card a: 2 of 1 slots are in use: default/old (")
    assert (problem.kind, problem.card) == (ProblemKind.SLOTS, "a")


def test_an_exclusive_card_that_is_shared_is_a_problem() -> None:
    alone = replace(a_grant(), exclusive=True)
    ledger = empty(a_card()).adopt(held(alone, uid="x")).adopt(held(a_grant(), uid="y"))

    assert [problem.text for problem in ledger.problems()] == [
        "card a: default/x and default/y cannot share it: held exclusively"
    ]


def test_containers_of_one_pod_that_share_a_slice_are_a_problem() -> None:
    ledger = empty(a_mig_card()).adopt(
        held(a_sliced_grant(0, container="x"), a_sliced_grant(0, container="y"))
    )

    assert ledger.problems() == (
        Problem(
            "default/old", "its containers exclude each other on a", ProblemKind.CONTESTED, "a"
        ),
    )


@given(ledgers(pods=8))
def test_a_restored_ledger_is_the_one_that_adopting_leads_to(ledger: NodeLedger) -> None:
    again = NodeLedger.restored(ledger.node, ledger.allocations.values(), ledger.version)

    assert again == ledger
    assert [*again.allocations] == [*ledger.allocations]


def test_a_restored_ledger_keeps_allocations_of_missing_cards() -> None:
    strange = held(a_grant("x"))

    again = NodeLedger.restored(a_node(a_card()), [strange])

    assert again.usages == (IDLE,)
    assert again.problems() == (
        Problem(
            "default/old",
            "holds card x, which the node does not have",
            ProblemKind.UNKNOWN_CARD,
            "x",
        ),
    )


# --- any order of changes -------------------------------------------------------------------------

PODS = [f"p{number}" for number in range(6)]


def a_useful_node(seed: Random) -> Node:
    models = (a_card(memory=4 * GIB), a_card(memory=4 * GIB, slots=2), a_mig_card())
    cards = [seed.choice(models) for _ in range(seed.randint(1, 3))]
    return a_node(*(replace(c, uuid=f"n-{i}", index=i) for i, c in enumerate(cards)))


def a_modest_request(seed: Random, uid: str, containers: int) -> Request:
    request = a_random_request(seed, uid, containers)
    return replace(
        request,
        vendor=None,
        allow_uuids=None,
        allow_types=None,
        isolation=None,
        modes=frozenset(Mode),
        terms=SharingTerms(task_class=seed.choice(CLASSES)),
    )


def a_random_grant(seed: Random, container: ContainerRequest, card: Card) -> Grant:
    slots = [slot for layout in card.geometry.layouts for slot in layout.slices]
    slot = seed.choice(slots) if slots and seed.random() < 0.9 else None
    return Grant(
        container.name,
        card.uuid,
        slot.memory if slot else seed.randint(1, 4) * GIB // 2,
        slot.compute if slot else container.compute,
        container.exclusive,
        container.phase,
        slot,
    )


class AnyOrder(RuleBasedStateMachine):
    """A node's ledger under any order of changes.

    Half of the runs are quiet: nothing is only found, and no card changes but in health. There
    nothing may ever be allocated twice. In the others, at least what ``reserve`` takes may not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.quiet = True
        self.ledger = empty()

    @initialize(seed=seeds, quiet=st.booleans())
    def start(self, seed: Random, quiet: bool) -> None:
        self.ledger = NodeLedger.of(a_useful_node(seed))
        self.quiet = quiet

    @rule(seed=seeds, uid=st.sampled_from(PODS), lasts=st.none() | st.integers(1, 3))
    def hold_what_fits(self, seed: Random, uid: str, lasts: int | None) -> None:
        wishes = [a_modest_request(seed, uid, 3) for _ in range(3)]
        found = [(request, fit(request, self.ledger)) for request in wishes]
        request, result = next((f for f in found if isinstance(f[1], Placement)), found[0])
        earlier = self.ledger.allocations.get(uid)
        if not isinstance(result, Placement):
            return
        expires = None if lasts is None else self.now + lasts
        allocation = tentative(Allocation.of(request, result), expires)
        if earlier is not None and earlier.state is AllocationState.COMMITTED:
            with pytest.raises(LedgerError):
                self.ledger.reserve(allocation)
            return

        after = self.ledger.reserve(allocation)

        assert after.version == self.ledger.version + 1
        assert after.release(uid).usages == self.ledger.release(uid).usages
        self.ledger = after
        self.check_cards({grant.card for grant in allocation.grants})

    @rule(seed=seeds, uid=st.sampled_from(PODS))
    def hold_anything(self, seed: Random, uid: str) -> None:
        allocation = tentative(self.anything(seed, uid))
        try:
            self.ledger = self.ledger.reserve(allocation)
        except LedgerError:
            return
        self.check_cards({grant.card for grant in allocation.grants})

    @precondition(lambda self: not self.quiet)
    @rule(seed=seeds, uid=st.sampled_from(PODS))
    def adopt(self, seed: Random, uid: str) -> None:
        self.ledger = self.ledger.adopt(self.anything(seed, uid))

    @precondition(lambda self: not self.quiet)
    @rule(uid=st.sampled_from(PODS), cards=st.sets(st.sampled_from(["n-0", "n-1", "x"])))
    def adopt_unreadable(self, uid: str, cards: set[str]) -> None:
        self.ledger = self.ledger.adopt(unreadable(uid, cards))

    @rule(uid=st.sampled_from(PODS))
    def commit(self, uid: str) -> None:
        if uid in self.ledger.allocations:
            before = self.ledger
            self.ledger = before.commit(uid)
            assert self.ledger.usages == before.usages
            assert self.ledger.allocations[uid].state is AllocationState.COMMITTED

    @rule(uid=st.sampled_from(PODS))
    def release(self, uid: str) -> None:
        self.ledger = self.ledger.release(uid)
        assert uid not in self.ledger.allocations

    @rule(passed=st.integers(0, 2))
    def expire(self, passed: int) -> None:
        self.now += passed
        self.ledger = self.ledger.expire(self.now)
        assert all(
            allocation.state is AllocationState.COMMITTED
            or (allocation.expires or self.now + 1) > self.now
            for allocation in self.ledger.allocations.values()
        )

    @precondition(lambda self: not self.quiet)
    @rule(seed=seeds)
    def change_the_node(self, seed: Random) -> None:
        before = self.ledger
        self.ledger = before.with_node(a_useful_node(seed))
        assert self.ledger.allocations == before.allocations

    @rule(card=st.integers(0, 2))
    def fall_ill(self, card: int) -> None:
        node = self.ledger.node
        cards = [replace(c, healthy=c.healthy and c.index != card) for c in node.cards]
        before = self.ledger
        self.ledger = before.with_node(replace(node, cards=tuple(cards)))
        assert self.ledger.usages == before.usages

    @invariant()
    def nothing_is_allocated_twice(self) -> None:
        if self.quiet:
            assert self.ledger.problems() == ()
            self.check_cards({card.uuid for card in self.ledger.node.cards})

    @invariant()
    def an_empty_ledger_has_idle_cards(self) -> None:
        if not self.ledger.allocations:
            assert self.ledger.usages == (IDLE,) * len(self.ledger.node.cards)

    @invariant()
    def totals_are_the_sums_of_the_grants(self) -> None:
        for card, use in zip(self.ledger.node.cards, self.ledger.usages, strict=True):
            expected = {
                allocation.uid: shares_by_card(
                    allocation,
                    [grant for grant in allocation.grants if grant.card == card.uuid],
                    blocked=card.uuid in allocation.blocked,
                )
                for allocation in self.ledger.allocations.values()
                if card.uuid in allocation.blocked
                or any(grant.card == card.uuid for grant in allocation.grants)
            }
            assert {holder.uid: holder for holder in use.shares} == expected
            assert len(use.shares) == len(expected)
            assert use.memory == sum(holder.memory for holder in use.shares)
            assert use.compute == sum(holder.compute for holder in use.shares)
            assert use.slots == sum(holder.slots for holder in use.shares)

    @invariant()
    def unreadable_allocations_are_reported_and_never_free(self) -> None:
        reported = {problem.pod for problem in self.ledger.problems()}
        known = {card.uuid for card in self.ledger.node.cards}
        for allocation in self.ledger.allocations.values():
            if allocation.unread or any(g.card not in known for g in allocation.grants):
                assert allocation.pod in reported
            for uuid in allocation.blocked & known:
                with pytest.raises(LedgerError):
                    self.ledger.reserve(tentative(held(a_grant(uuid), uid="another")))

    def check_cards(self, uuids: set[str]) -> None:
        """Cards are within their bounds, and who holds one exclusively is not disturbed."""
        for card, use in zip(self.ledger.node.cards, self.ledger.usages, strict=True):
            if card.uuid in uuids:
                assert use.slots <= card.slots
                assert use.memory <= card.memory
                assert use.compute <= FULL
                slots = use.slices()
                assert not any(x.overlaps(y) for x, y in combinations(slots, 2))
                for holder in use.shares:
                    others = [other for other in use.shares if other is not holder]
                    if holder.exclusive and others:
                        assert holder.terms.task_class is TaskClass.OFFLINE
                        assert {other.terms.task_class for other in others} == {TaskClass.ONLINE}

    def anything(self, seed: Random, uid: str) -> Allocation:
        """An allocation of some shares of some cards, which may fit or not."""
        request = a_modest_request(seed, uid, 2)
        cards = [*self.ledger.node.cards, a_card("x")]
        grants = tuple(
            a_random_grant(seed, container, seed.choice(cards)) for container in request.containers
        )
        return Allocation.of(request, Placement("n", grants))


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(stateful_step_count=40)


def test_a_fence_stays_through_every_change_and_only_rises() -> None:
    ledger = empty(a_card("a")).fenced("ml", 7)

    changed = ledger.reserve(held(a_grant("a"))).commit("old").release("old")
    changed = changed.with_node(changed.node).adopt(held(a_grant("a")))

    assert (changed.fence("ml"), changed.fence("other")) == (7, 0)
    assert changed.fenced("ml", 7) is changed
    assert changed.fenced("ml", 9).fences == {"ml": 9}
    assert changed.fenced("ml", 9).version == changed.version + 1

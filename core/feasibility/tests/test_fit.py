from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.feasibility import fit as fit_module
from core.feasibility.fit import distinct_choices, fit
from core.feasibility.suitability import node_rejection, unsuitable
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig import NO_GEOMETRY, Geometry, MigLayout, Slice
from core.hardware.node import Node, Partition
from core.hardware.quantity import GIB
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation, Grant, Placement
from core.requests.reason import Cause, CauseCount, Reason
from core.requests.request import (
    CardKey,
    ContainerRequest,
    Phase,
    Ranking,
    Request,
    TopologyConstraint,
    required_memory,
)
from core.tests.builders import (
    A30ISH,
    ONE_LAYOUT,
    a_card,
    a_container,
    a_grant,
    a_mig_card,
    a_request,
    cards_of,
    empty,
    held,
    like_cards,
    placed,
    unreadable,
)
from core.tests.strategies import ledgers, requests


def refused(result: Placement | Reason) -> Reason:
    assert isinstance(result, Reason)
    return result


# --- against the obvious --------------------------------------------------------------------------


def every_assignment(request: Request, ledger: NodeLedger) -> Iterator[tuple[Grant, ...]]:
    """All ways to give the containers suitable cards, whether there is room or not."""
    suitable = [card for card in ledger.node.cards if unsuitable(request, card) is None]
    for groups in product(
        *(groups_of(request, suitable, container.count) for container in request.containers)
    ):
        pairs = [
            (a, card) for a, group in zip(request.containers, groups, strict=True) for card in group
        ]
        if all(
            linked(request, a, group) for a, group in zip(request.containers, groups, strict=True)
        ):
            yield from product(
                *(every_grant(request, container, card) for container, card in pairs)
            )


def groups_of(request: Request, suitable: Sequence[Card], count: int) -> Iterator[tuple[Card, ...]]:
    """Cards for one container; one in MIG mode more than once where it can give several slices."""
    for group in combinations_with_replacement(suitable, count):
        repeated = [card for card in set(group) if group.count(card) > 1]
        if all(request.several_slices and card.mode is Mode.MIG for card in repeated):
            yield group


def every_grant(request: Request, container: ContainerRequest, card: Card) -> list[Grant]:
    memory = required_memory(request, container, card)
    plain = Grant(
        container.name,
        card.uuid,
        memory,
        container.compute,
        container.exclusive_on(card),
        container.phase,
    )
    if card.mode is not Mode.MIG:
        return [plain]
    return [
        replace(plain, memory=slot.memory, compute=slot.compute, slice=slot)
        for layout in card.geometry.layouts
        for slot in layout.slices
        if slot.memory >= memory and slot.compute >= container.compute
    ]


def linked(request: Request, container: ContainerRequest, group: tuple[Card, ...]) -> bool:
    level = request.topology.required
    if level is None or not container.linked:
        return True
    return len({card.scope(level) for card in group}) == 1 and group[0].scope(level) is not None


def holds(request: Request, ledger: NodeLedger, grants: tuple[Grant, ...]) -> bool:
    try:
        ledger.reserve(Allocation.of(request, Placement(ledger.node.name, grants)))
    except LedgerError:
        return False
    return True


def possible(request: Request, ledger: NodeLedger) -> bool:
    if request.isolation not in (None, ledger.node.isolation):
        return False
    return any(holds(request, ledger, grants) for grants in every_assignment(request, ledger))


@given(requests(), ledgers())
def test_fit_agrees_with_trying_every_assignment(request: Request, ledger: NodeLedger) -> None:
    result = fit(request, ledger)

    assert isinstance(result, Placement) == possible(request, ledger)


@given(requests(), ledgers(most=4))
def test_the_ledger_takes_every_placement(request: Request, ledger: NodeLedger) -> None:
    result = fit(request, ledger)

    if isinstance(result, Placement):
        assert [g.container for g in result.grants] == [
            container.name for container in request.containers for _ in range(container.count)
        ]
        assert holds(request, ledger, result.grants)


@given(requests(containers=1), ledgers(most=4))
def test_every_card_of_a_refused_container_is_either_counted_or_would_do(
    request: Request, ledger: NodeLedger
) -> None:
    request = replace(request, several_slices=False)
    result = fit(request, ledger)

    if isinstance(result, Reason) and result.asked and result.cause is None:
        alone = replace(
            request, containers=(replace(request.containers[0], count=1, linked=False),)
        )
        fitting = sum(
            isinstance(fit(replace(alone, allow_uuids=frozenset({card.uuid})), ledger), Placement)
            for card in ledger.node.cards
            if unsuitable(request, card) is None
        )
        assert sum(count.cards for count in result.counts) == result.cards - fitting
        assert fitting < result.asked


# --- one card -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"dialects": frozenset({"other"})}, Cause.DIALECT),
        ({"healthy": False}, Cause.UNHEALTHY),
        ({"vendor": "metax"}, Cause.VENDOR),
        ({"mode": Mode.WHOLE}, Cause.MODE),
        ({"uuid": "denied"}, Cause.UUID),
        ({"uuid": "stranger"}, Cause.UUID),
        ({"model": "V100"}, Cause.TYPE),
        ({}, None),
    ],
)
def test_what_a_card_is_may_make_it_unsuitable(
    change: dict[str, object], cause: Cause | None
) -> None:
    request = replace(
        a_request(),
        vendor="nvidia",
        allow_uuids=frozenset({"a", "denied"}),
        deny_uuids=frozenset({"denied"}),
        allow_types=("a100",),
    )

    assert unsuitable(request, replace(a_card(), **change)) is cause  # type: ignore[arg-type]


def test_any_of_a_cards_names_may_be_allowed_or_denied_in_any_case() -> None:
    card = replace(a_card(), names=("NVIDIA-Tesla",))

    assert unsuitable(replace(a_request(), allow_types=("tesla",)), card) is None
    assert unsuitable(replace(a_request(), deny_types=("TESLA",)), card) is Cause.TYPE
    assert unsuitable(replace(a_request(), deny_types=("H100",)), card) is None


def test_a_card_must_be_allowed_and_not_be_denied() -> None:
    both = replace(a_request(), allow_types=("A100",), deny_types=("80GB",))

    assert unsuitable(both, a_card()) is None
    assert unsuitable(both, replace(a_card(), model="A100 80GB")) is Cause.TYPE


def test_a_card_of_another_dialect_is_allowed_where_the_request_names_that_dialect() -> None:
    request = replace(a_request(), alternatives=frozenset({"other"}))
    other, third = (replace(a_card(), dialects=frozenset({name})) for name in ("other", "third"))

    assert unsuitable(request, a_card()) is None
    assert unsuitable(request, other) is None
    assert unsuitable(request, third) is Cause.DIALECT
    assert node_rejection(request, Node("n", (other,))) is None


# --- one container --------------------------------------------------------------------------------


def test_a_request_gets_a_share_of_the_first_card_in_order() -> None:
    assert fit(a_request(a_container(GIB, compute=20)), empty(*like_cards(2))) == Placement(
        "n", (Grant("main", "c0", GIB, 20),)
    )


def test_the_ranking_orders_the_cards_of_a_container() -> None:
    request = replace(a_request(a_container(count=2)), ranking=Ranking((CardKey.HIGH_INDEX,)))

    assert cards_of(fit(request, empty(*like_cards(3)))) == ["c2", "c1"]


def test_a_percentage_is_of_each_card_and_rounded_down_to_what_can_be_written() -> None:
    container = ContainerRequest("main", 2, memory_percent=50, step=GIB)
    cards = (a_card("a", 0, 5 * GIB), a_card("b", 1, 8 * GIB))

    result = fit(a_request(container), empty(*cards))

    assert isinstance(result, Placement)
    assert [grant.memory for grant in result.grants] == [2 * GIB, 4 * GIB]


@given(st.permutations(range(3)), st.permutations((8, 24, 40)), st.sampled_from(CardKey))
def test_cards_with_different_limits_are_granted_in_the_order_that_the_container_sees(
    places: list[int], sizes: list[int], key: CardKey
) -> None:
    """Device plugins number limits by the order of the grants, containers cards by index."""
    cards = [a_card(f"c{index}", index, sizes[index] * GIB) for index in places]
    container = ContainerRequest("main", 2, memory_percent=50, step=GIB)
    request = replace(a_request(container), ranking=Ranking((key,)))

    result = fit(request, empty(*cards))

    assert isinstance(result, Placement)
    numbers = [int(grant.card[1:]) for grant in result.grants]
    assert numbers == sorted(numbers)
    assert [grant.memory for grant in result.grants] == [sizes[n] * GIB // 2 for n in numbers]


def test_what_the_pod_holds_itself_counts_as_free() -> None:
    ledger = empty(a_card()).reserve(held(a_grant(memory=16 * GIB), uid="new"))

    assert cards_of(fit(a_request(a_container(9 * GIB)), ledger)) == ["a"]


@pytest.mark.parametrize(
    ("ledger", "request_", "cause", "text"),
    [
        (empty(), a_request(), Cause.NO_CARDS, "no cards"),
        (
            empty(replace(a_card(), dialects=frozenset())),
            a_request(),
            Cause.NO_DIALECT,
            "no card is described in the pod's dialect",
        ),
        (
            empty(a_card()),
            replace(a_request(), isolation="core"),
            Cause.ISOLATION,
            "node lacks the isolation provider asked for",
        ),
        (
            empty(a_card()),
            a_request(a_container(count=2)),
            Cause.TOO_FEW,
            "2 cards asked for one container, node has 1",
        ),
    ],
)
def test_a_node_may_fail_as_a_whole(
    ledger: NodeLedger, request_: Request, cause: Cause, text: str
) -> None:
    reason = refused(fit(request_, ledger))

    assert reason.cause is cause
    assert reason.text() == text


def test_a_refusal_counts_its_causes_and_the_least_that_is_missing() -> None:
    ledger = empty(*like_cards(3), replace(a_card("x", 3), healthy=False))
    ledger = ledger.adopt(held(a_grant("c0", 10 * GIB), a_grant("c1", 9 * GIB)))

    reason = refused(fit(a_request(a_container(8 * GIB, count=2)), ledger))

    assert reason == Reason(
        "n",
        4,
        2,
        "main",
        None,
        (CauseCount(Cause.MEMORY, 2, GIB), CauseCount(Cause.UNHEALTHY, 1)),
    )


def test_an_unreadable_allocation_keeps_its_cards() -> None:
    ledger = empty(a_card()).adopt(unreadable("x", ["a"]))

    assert refused(fit(a_request(), ledger)).counts == (CauseCount(Cause.BLOCKED, 1),)


# --- several containers ---------------------------------------------------------------------------


def wants(container: str, memory: int, phase: Phase = Phase.MAIN) -> ContainerRequest:
    return ContainerRequest(container, 1, memory=memory, phase=phase)


def test_a_container_gives_way_when_the_next_one_needs_its_card() -> None:
    ledger = empty(a_card("large", 0, 8 * GIB), a_card("small", 1, 2 * GIB))
    request = a_request(wants("x", GIB), wants("y", 8 * GIB))

    assert cards_of(fit(request, ledger)) == ["small", "large"]


def test_an_init_container_uses_what_the_main_one_uses_later() -> None:
    request = a_request(wants("x", 16 * GIB, Phase.INIT), wants("y", 16 * GIB))

    assert cards_of(fit(request, empty(a_card()))) == ["a", "a"]


def test_a_spread_pod_uses_one_card_first_for_its_init_container_then_for_its_main_one() -> None:
    ranking = Ranking(cards=(CardKey.EMPTIEST,))
    containers = (wants("x", GIB, Phase.INIT), wants("y", GIB))

    assert cards_of(
        fit(replace(a_request(*containers), ranking=ranking), empty(*like_cards(2)))
    ) == [
        "c0",
        "c0",
    ]


def test_a_sidecar_keeps_its_share_beside_the_main_container() -> None:
    request = a_request(wants("x", 9 * GIB, Phase.SIDECAR), wants("y", 8 * GIB))

    assert refused(fit(request, empty(a_card()))).cause is Cause.TOGETHER
    assert cards_of(fit(request, empty(*like_cards(2)))) == ["c0", "c1"]


def test_containers_that_fit_alone_but_not_together_have_a_cause_of_their_own() -> None:
    together = a_request(wants("x", 9 * GIB), wants("y", 9 * GIB))
    never = a_request(wants("x", 9 * GIB), wants("y", 17 * GIB))

    assert refused(fit(together, empty(a_card()))) == Reason(
        "n", 1, 1, "y", Cause.TOGETHER, (CauseCount(Cause.MEMORY, 1, 2 * GIB),)
    )
    assert refused(fit(never, empty(a_card()))) == Reason(
        "n", 1, 1, "y", None, (CauseCount(Cause.MEMORY, 1, GIB),)
    )


def test_a_container_of_all_compute_shares_only_a_card_whose_compute_is_overcommitted() -> None:
    plain, scaled = a_card("plain", 0), replace(a_card("scaled", 1), compute=200)
    both = empty(plain, scaled)
    used = both.adopt(held(a_grant("plain"), a_grant("scaled")))
    one = replace(wants("x", GIB), compute=100, exclusive=True, exclusive_by_compute=True)

    assert cards_of(fit(a_request(one), used)) == ["scaled"]
    assert cards_of(fit(a_request(one), both)) == ["plain"]


def test_an_exclusive_container_shares_with_no_other_of_its_pod() -> None:
    alone = replace(wants("x", GIB), exclusive=True)
    for containers in ((alone, wants("y", GIB)), (wants("y", GIB), alone)):
        assert refused(fit(a_request(*containers), empty(a_card()))).cause is Cause.TOGETHER
        assert cards_of(fit(a_request(*containers), empty(*like_cards(2)))) == ["c0", "c1"]


def test_like_cards_are_not_all_tried() -> None:
    containers = [wants(str(number), 9 * GIB) for number in range(17)]

    reason = refused(fit(a_request(*containers), empty(*like_cards(16))))

    assert (reason.cause, reason.container) == (Cause.TOGETHER, "16")


def test_no_state_of_the_cards_is_tried_twice() -> None:
    ledger = empty(a_card("small", 0, 14 * GIB, 20), a_card("large", 1, 15 * GIB, 20))
    containers = [wants(str(number), GIB) for number in range(14)]
    request = a_request(*containers, wants("large", 15 * GIB))

    result = fit(replace(request, ranking=Ranking((CardKey.HIGH_INDEX,))), ledger)

    assert cards_of(result) == ["small"] * 14 + ["large"]


def test_a_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "TRIES", 1)
    ledger = empty(a_card("large", 0, 8 * GIB), a_card("small", 1, 2 * GIB))
    request = a_request(wants("x", GIB), wants("y", 8 * GIB))

    assert refused(fit(request, ledger)).cause is Cause.TOGETHER


@given(st.lists(st.sampled_from("pqr"), max_size=6), st.integers(0, 4))
def test_of_choices_that_differ_in_like_cards_the_first_is_tried(
    labels: list[str], count: int
) -> None:
    first: dict[tuple[str, ...], tuple[int, ...]] = {}
    for chosen in combinations(range(len(labels)), count):
        first.setdefault(tuple(sorted(labels[position] for position in chosen)), chosen)

    assert list(distinct_choices(range(len(labels)), count, labels)) == list(first.values())


# --- slices and links -----------------------------------------------------------------------------

CUT = replace(a_request(), modes=frozenset({Mode.MIG}))


def slots_of(result: Placement | Reason) -> list[tuple[int, int]]:
    assert isinstance(result, Placement)
    return [(g.slice.start, g.slice.size) for g in result.grants if g.slice is not None]


def test_several_slices_of_one_card_are_tried_until_all_containers_have_theirs() -> None:
    ledger = empty(replace(a_mig_card(), geometry=ONE_LAYOUT))
    pair = replace(wants("x", GIB), count=2)
    request = replace(
        a_request(pair, wants("y", 2 * GIB)), modes=frozenset(Mode), several_slices=True
    )

    assert refused(fit(request, ledger)).cause is Cause.TOGETHER
    mixed = empty(a_mig_card())
    grants = placed(mixed, request, fit(request, mixed)).allocations["new"].grants
    assert [(grant.slice.start, grant.slice.size) for grant in grants if grant.slice] == [
        (0, 1),
        (1, 1),
        (2, 2),
    ]


def test_a_search_among_slices_that_takes_too_long_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit_module, "TRIES", 1)
    pair = replace(a_container(GIB), count=2)
    request = replace(a_request(pair), modes=frozenset(Mode), several_slices=True)

    counts = refused(fit(request, empty(a_mig_card()))).counts
    assert [each.cause for each in counts] == [Cause.NO_SLICE]


def test_a_slice_is_granted_with_all_that_it_has() -> None:
    result = fit(replace(CUT, containers=(wants("x", GIB + 1),)), empty(a_mig_card()))

    assert isinstance(result, Placement)
    assert [(g.memory, g.compute) for g in result.grants] == [(2 * GIB, 50)]
    assert slots_of(result) == [(0, 2)]


def test_a_small_slice_moves_when_a_large_one_needs_its_place() -> None:
    ledger = empty(a_mig_card())
    first = fit(replace(CUT, containers=(wants("x", GIB),), uid="first"), ledger)
    ledger = placed(ledger, replace(CUT, uid="first"), first)
    request = replace(CUT, containers=(wants("y", GIB), wants("z", GIB), wants("w", GIB)))

    assert slots_of(fit(request, ledger)) == [(1, 1), (2, 1), (3, 1)]
    both = replace(CUT, containers=(wants("y", GIB), wants("z", 2 * GIB)))
    assert slots_of(fit(both, ledger)) == [(1, 1), (2, 2)]


def test_slices_are_searched_until_all_containers_have_one() -> None:
    request = replace(CUT, containers=(wants("x", GIB), wants("y", GIB), wants("z", 2 * GIB)))
    ledger = empty(a_mig_card())
    halved = Slice("1g", 1, 1, GIB, 25, "quarters", 1)
    ledger = ledger.adopt(held(replace(a_grant(), slice=halved)))

    result = fit(replace(request, containers=request.containers[1:]), ledger)

    assert slots_of(result) == [(0, 1), (2, 2)]


def test_the_slice_of_an_init_container_is_used_again() -> None:
    containers = (wants("x", 2 * GIB, Phase.INIT), wants("y", 4 * GIB, Phase.INIT))
    ledger = empty(a_mig_card())

    assert slots_of(fit(replace(CUT, containers=(containers[1], wants("z", GIB))), ledger)) == [
        (0, 4),
        (0, 4),
    ]
    assert slots_of(fit(replace(CUT, containers=containers), ledger)) == [(0, 4), (0, 4)]


def test_all_memory_of_a_mig_card_is_its_largest_slice() -> None:
    larger = replace(a_mig_card(), memory=4 * GIB + 1)
    container = ContainerRequest("x", 1, memory_percent=100)

    assert slots_of(fit(replace(CUT, containers=(container,)), empty(larger))) == [(0, 4)]
    uncut = replace(larger, geometry=NO_GEOMETRY)
    reason = refused(fit(replace(CUT, containers=(container,)), empty(uncut)))
    assert reason.counts[0].cause is Cause.NO_LAYOUT


def test_a_slice_by_its_configured_size_can_have_less_than_the_request() -> None:
    configured = Geometry(
        tuple(
            replace(each, configured=tuple(slot.memory + 100 for slot in each.slices))
            for each in A30ISH.layouts
        )
    )
    ledger = empty(replace(a_mig_card(), geometry=configured))

    def answer(memory: int, *, by_configured_size: bool = True) -> Placement | Reason:
        asking = replace(CUT, by_configured_size=by_configured_size)
        return fit(replace(asking, containers=(wants("x", memory),)), ledger)

    assert slots_of(answer(GIB + 100)) == [(0, 1)]
    assert slots_of(answer(GIB + 101)) == [(0, 2)]
    assert slots_of(answer(4 * GIB + 100)) == [(0, 4)]
    assert refused(answer(4 * GIB + 101)).counts[0].cause is Cause.NO_PROFILE
    assert slots_of(answer(GIB + 100, by_configured_size=False)) == [(0, 2)]
    whole = answer(4 * GIB + 100)
    assert isinstance(whole, Placement)
    assert [grant.memory for grant in whole.grants] == [4 * GIB]


def test_a_share_too_large_for_any_profile_has_another_cause_than_no_free_slice() -> None:
    def cause(memory: int) -> Cause:
        busy = empty(a_mig_card())
        whole = fit(replace(CUT, containers=(wants("x", 4 * GIB),), uid="first"), busy)
        busy = placed(busy, replace(CUT, uid="first"), whole)
        return refused(fit(replace(CUT, containers=(wants("y", memory),)), busy)).counts[0].cause

    assert cause(GIB) is Cause.NO_SLICE
    assert cause(5 * GIB) is Cause.NO_PROFILE


def test_a_share_that_lacks_compute_is_not_said_to_lack_a_profile() -> None:
    larger = ContainerRequest("x", 1, memory=2 * GIB, compute=30)
    busy = ContainerRequest("x", 1, memory=2 * GIB, compute=50)
    weak = replace(
        a_mig_card(),
        geometry=Geometry(
            tuple(
                replace(
                    layout, slices=tuple(replace(s, compute=s.compute // 2) for s in layout.slices)
                )
                for layout in A30ISH.layouts
            )
        ),
    )

    def reason(container: ContainerRequest) -> Reason:
        return refused(fit(replace(CUT, containers=(container,)), empty(weak)))

    assert slots_of(fit(replace(CUT, containers=(larger,)), empty(weak))) == [(0, 4)]
    assert reason(replace(busy, compute=60)).text() == "1 of 1 cards: compute 10% short"
    assert reason(replace(busy, memory=5 * GIB)).counts[0].cause is Cause.NO_PROFILE


def test_two_containers_get_slices_of_one_layout_where_layouts_cannot_be_mixed() -> None:
    half, quarter = Slice("2g", 0, 2, 2 * GIB, 50, "both", 0), Slice("1g", 2, 1, GIB, 25, "both", 1)
    layouts = (ONE_LAYOUT.layouts[0], MigLayout("both", (half, quarter)))
    card = replace(a_mig_card(), geometry=Geometry(layouts))
    containers = (wants("x", GIB), wants("y", 2 * GIB))

    found = fit(replace(CUT, containers=containers), empty(card))

    assert isinstance(found, Placement)
    assert {grant.slice.layout for grant in found.grants if grant.slice} == {"both"}


def test_a_busy_card_gives_slices_of_its_layout_only_where_layouts_cannot_be_mixed() -> None:
    card = replace(a_mig_card(), geometry=ONE_LAYOUT)
    ledger = empty(card)
    ledger = placed(ledger, replace(CUT, uid="first"), fit(replace(CUT, uid="first"), ledger))

    refusal = refused(fit(replace(CUT, containers=(wants("y", 2 * GIB),)), ledger))

    assert refusal.counts[0].cause is Cause.NO_SLICE
    half = ONE_LAYOUT.layouts[1].slices[1]
    other = held(Grant("x", card.uuid, half.memory, half.compute, slice=half), uid="second")
    with pytest.raises(LedgerError, match="no free MIG slices"):
        ledger.reserve(other)


def in_scope(card: Card, name: str) -> Card:
    return replace(card, links=(Scope(Level.LINK, name),))


def test_linked_cards_come_from_one_scope_where_that_is_required() -> None:
    cards = [in_scope(c, name) for c, name in zip(like_cards(4), "pqqp", strict=True)]
    container = replace(a_container(count=2), linked=True)
    request = replace(a_request(container), topology=TopologyConstraint((), required=Level.LINK))

    assert cards_of(fit(request, empty(*cards))) in (["c0", "c3"], ["c1", "c2"])
    reason = refused(fit(request, empty(*cards[1:2], *cards[3:])))
    assert (reason.cause, reason.text()) == (
        Cause.NO_SCOPE,
        "not enough fitting cards within one scope of the required level",
    )


def test_without_a_free_partition_the_request_does_not_fit() -> None:
    container = replace(a_container(count=2), linked=True, exclusive=True)
    request = replace(a_request(container), topology=TopologyConstraint(must_partition=True))
    node = replace(empty(*like_cards(4)).node, partitions=(Partition((0, 1)), Partition((2, 3))))
    free = NodeLedger.of(node)
    busy = free.adopt(held(a_grant("c0"), a_grant("c3")))

    assert cards_of(fit(request, free)) == ["c0", "c1"]
    assert refused(fit(request, busy)).cause is Cause.NO_PARTITION


def test_two_linked_containers_find_the_one_division_that_serves_both() -> None:
    container = replace(a_container(count=2), linked=True, exclusive=True)
    containers = (replace(container, name="x"), replace(container, name="y"))
    request = replace(
        a_request(*containers), topology=TopologyConstraint(by_partition=True, must_partition=True)
    )
    table = (Partition((1, 2), score=9), Partition((0, 1)), Partition((2, 3)))
    ledger = NodeLedger.of(replace(empty(*like_cards(4)).node, partitions=table))

    assert cards_of(fit(request, ledger)) == ["c0", "c1", "c2", "c3"]


def test_linked_containers_that_fit_alone_but_not_together_are_refused() -> None:
    container = replace(a_container(count=2), linked=True, exclusive=True)
    request = a_request(replace(container, name="x"), replace(container, name="y"))

    assert refused(fit(request, empty(*like_cards(3)))).cause is Cause.TOGETHER


def test_linked_slices_come_from_one_card_where_another_container_needs_the_other_card() -> None:
    linked = replace(a_container(2 * GIB, count=2), linked=True)
    request = replace(
        a_request(linked, a_container(4 * GIB, name="whole")),
        modes=frozenset({Mode.MIG}),
        several_slices=True,
    )

    found = cards_of(fit(request, empty(a_mig_card("a"), a_mig_card("b", 1))))

    assert sorted(found[:2]) == [found[0]] * 2
    assert found[2] not in found[:2]


def test_a_card_that_its_description_takes_out_says_why() -> None:
    sick = replace(a_card("a"), healthy=False, problem="Xid 79")
    left = replace(a_card("b", 1), dialects=frozenset(), problem="its plugin is gone")
    switched = replace(a_card("c", 2), mode=Mode.WHOLE, problem="states no shares")
    request = a_request(a_container())

    assert refused(fit(request, empty(switched))).text() == "1 of 1 cards: states no shares"
    assert refused(fit(request, empty(sick, left))).text() == (
        "1 of 2 cards: its plugin is gone; 1 of 2 cards: Xid 79"
    )
    assert refused(fit(request, empty(left))).text() == "its plugin is gone"
    assert refused(fit(replace(request, dialect="other"), empty(sick, left))).text() == (
        "its plugin is gone"
    )
    assert refused(fit(replace(request, dialect="other"), empty(sick))).text() == (
        "no card is described in the pod's dialect"
    )

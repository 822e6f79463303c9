import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hardware.quantity import GIB, MIB
from core.requests.reason import Cause, CauseCount, Obstacle, Reason, count_causes

obstacles = st.builds(Obstacle, st.sampled_from(Cause), st.integers(0, 9))


def test_equal_causes_are_counted_with_the_least_that_is_missing() -> None:
    found = count_causes(
        [Obstacle(Cause.SLOTS), Obstacle(Cause.MEMORY, 5), Obstacle(Cause.MEMORY, 3)],
    )

    assert found == (CauseCount(Cause.MEMORY, 2, 3), CauseCount(Cause.SLOTS, 1))


@given(st.lists(obstacles, max_size=8))
def test_the_count_does_not_depend_on_the_order_of_the_cards(
    found: list[Obstacle],
) -> None:
    shuffled = found[::-1]

    assert count_causes(shuffled) == count_causes(found)
    assert sum(each.cards for each in count_causes(found)) == len(found)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (CauseCount(Cause.MEMORY, 1, 2 * GIB), "memory 2 GiB short"),
        (CauseCount(Cause.MEMORY, 1, MIB + 1), "memory 2 MiB short"),
        (CauseCount(Cause.COMPUTE, 1, 15), "compute 15% short"),
        (CauseCount(Cause.UNHEALTHY, 1), "unhealthy"),
    ],
)
def test_missing_amounts_are_written_in_their_unit(found: CauseCount, text: str) -> None:
    assert found.text() == text


def test_a_reason_is_one_line_with_counts() -> None:
    tallies = (CauseCount(Cause.UNHEALTHY, 5), CauseCount(Cause.MEMORY, 3, 2 * GIB))

    assert Reason("n", 8, 4, "main", None, tallies).text() == (
        "5 of 8 cards: unhealthy; 3 of 8 cards: memory 2 GiB short"
    )


def test_what_is_wrong_with_the_whole_node_comes_first() -> None:
    reason = Reason("n", 2, 1, "main", Cause.TOGETHER, (CauseCount(Cause.SLOTS, 1),))

    assert reason.text() == (
        "containers fit one by one but not together; 1 of 2 cards: no sharing slot left"
    )


def test_too_few_cards_are_written_with_both_numbers() -> None:
    reason = Reason("n", 2, 4, "main", Cause.TOO_FEW)

    assert reason.text() == "4 cards asked for one container, node has 2"


def test_without_amounts_nodes_that_lack_different_ones_have_one_text() -> None:
    def lacking(memory: int, compute: int, cards: int = 3) -> Reason:
        counts = CauseCount(Cause.MEMORY, cards, memory), CauseCount(Cause.COMPUTE, 1, compute)
        return Reason("n", 5, 1, counts=(*counts, CauseCount(Cause.UNHEALTHY, 4 - cards)))

    expected = (
        "some of 5 cards: unhealthy; some of 5 cards: memory short; some of 5 cards: compute short"
    )
    assert lacking(GIB, 5, 2).text(amounts=False) == expected
    assert Reason("n", 2, 1, counts=(CauseCount(Cause.MEMORY, 2, GIB),)).text(amounts=False) == (
        "2 of 2 cards: memory short"
    )
    assert lacking(GIB, 5).text(amounts=False) == lacking(MIB, 7).text(amounts=False) == expected


def test_cards_are_counted_by_what_their_description_says() -> None:
    obstacles = [Obstacle(Cause.UNHEALTHY, detail=text) for text in ("Xid 79", "", "Xid 79")]

    found = Reason("n", 3, counts=count_causes(obstacles))

    assert found.text() == "2 of 3 cards: Xid 79; 1 of 3 cards: unhealthy"

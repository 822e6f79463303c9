from core.hardware.quantity import GIB
from core.requests.decision import Decision
from core.requests.grant import Placement
from core.requests.node_reasons import NodeReasons
from core.requests.reason import Cause, CauseCount, Reason


def test_the_summary_of_a_placement_names_its_node() -> None:
    assert Decision(Placement("n", ()), NodeReasons.of({})).summary() == "placed on n"


def test_without_nodes_there_is_nothing_to_choose_from() -> None:
    assert Decision(None, NodeReasons.of({})).summary() == "no node to choose from"


def test_nodes_with_one_reason_are_counted_together_and_the_most_come_first() -> None:
    short = (CauseCount(Cause.MEMORY, 8, 2 * GIB),)
    reasons = {
        "a": Reason("a", 0, cause=Cause.NO_CARDS),
        "b": Reason("b", 8, 1, "main", None, short),
        "c": Reason("c", 8, 1, "main", None, short),
    }

    assert Decision(None, NodeReasons.of(reasons)).summary() == (
        "0 of 3 nodes fit: 2 nodes: 8 of 8 cards: memory 2 GiB short; 1 node: no cards"
    )


def test_the_summary_counts_fitting_nodes_in_the_plural() -> None:
    reasons = {"a": Reason("a", 0, cause=Cause.NO_CARDS)}

    assert Decision(None, NodeReasons.of(reasons)).summary() == "0 of 1 nodes fit: 1 node: no cards"

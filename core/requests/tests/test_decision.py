from core.requests.decision import NodeReasons
from core.requests.reason import Cause, Reason


def test_equal_reasons_are_kept_once_and_each_node_has_its_own() -> None:
    reasons = {name: Reason(name, 0, cause=Cause.NO_CARDS) for name in ("a", "b")}
    reasons["c"] = Reason("c", 8, cause=Cause.ISOLATION)

    found = NodeReasons.of(reasons)

    assert len(found.distinct) == 2
    assert dict(found) == reasons
    assert found["b"].node == "b"
    assert "d" not in found


def test_each_distinct_reason_has_its_number_of_nodes() -> None:
    reasons = {name: Reason(name, 4, cause=Cause.ISOLATION) for name in ("a", "b")}
    reasons["c"] = Reason("c", 8, cause=Cause.ISOLATION)

    assert NodeReasons.of(reasons).counted() == [
        (Reason("", 4, cause=Cause.ISOLATION), 2),
        (Reason("", 8, cause=Cause.ISOLATION), 1),
    ]


def test_reasons_of_other_nodes_follow() -> None:
    first = NodeReasons.of({"a": Reason("a", 0, cause=Cause.NO_CARDS)})
    other = NodeReasons.of({"b": Reason("b", 8, cause=Cause.ISOLATION)})
    none = NodeReasons.of({})

    assert dict(first.followed_by(other)) == {**first, **other}
    assert first.followed_by(none) is first
    assert none.followed_by(first) is first

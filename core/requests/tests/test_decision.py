from core.requests.decision import NodeReasons, main_cause
from core.requests.reason import Cause, CauseCount, Reason


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


def test_the_reasons_of_all_nodes_but_one_remain() -> None:
    reasons = {name: Reason(name, 0, cause=Cause.NO_CARDS) for name in ("a", "b")}
    reasons["c"] = Reason("c", 8, cause=Cause.ISOLATION)

    for name in reasons:
        found = NodeReasons.of(reasons).without(name)

        assert dict(found) == {each: why for each, why in reasons.items() if each != name}
        assert len(found.distinct) == (1 if name == "c" else 2)


def test_reasons_of_a_cause_get_what_is_known_of_their_nodes() -> None:
    reasons = {name: Reason(name, 0, cause=Cause.NO_CARDS) for name in ("a", "b", "c", "d")}
    reasons["e"] = Reason("e", 8, cause=Cause.ISOLATION)
    found, why = NodeReasons.of(reasons), {"a": "x", "b": "y", "d": "x", "e": "x"}

    detailed = found.detailed(Cause.NO_CARDS, lambda name: why.get(name, ""))

    assert [detailed[name].text() for name in "abcd"] == ["x", "y", "no cards", "x"]
    assert detailed["e"] == reasons["e"]
    assert len(detailed.distinct) == 4
    assert found.detailed(Cause.NO_CARDS, lambda _: "") is found
    assert found.detailed(Cause.TAINT, lambda _: "x") is found


def test_the_main_cause_is_that_of_most_nodes_in_one_word() -> None:
    blocked = Reason("n1", 2, cause=Cause.BLOCKED)
    short = Reason("n2", 2, counts=(CauseCount(Cause.MEMORY, 2, 1),))

    assert main_cause((blocked, 1), (short, 2)) == "memory"
    assert main_cause((blocked, 3), (short, 2)) == "blocked"
    assert main_cause((Reason("n3", 0), 1)) == main_cause() == "no_node"

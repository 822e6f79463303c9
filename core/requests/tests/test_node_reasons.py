from core.requests.node_reasons import NodeReasons
from core.requests.reason import Cause, Reason


def test_equal_reasons_are_kept_once_and_each_node_has_its_own() -> None:
    reasons = {name: Reason(name, 0, cause=Cause.NO_CARDS) for name in ("a", "b")}
    reasons["c"] = Reason("c", 8, cause=Cause.ISOLATION)

    found = NodeReasons.of(reasons)

    assert len(found.distinct) == 2
    assert dict(found) == reasons
    assert found["b"].node == "b"
    assert "d" not in found


def test_texts_are_counted_where_different_reasons_read_alike() -> None:
    alike = {"a": Reason("a", 4, cause=Cause.ISOLATION), "b": Reason("b", 8, cause=Cause.ISOLATION)}

    assert NodeReasons.of(alike).counts() == {Cause.ISOLATION.value: 2}

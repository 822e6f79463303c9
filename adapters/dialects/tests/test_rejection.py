from adapters.dialects.registry import rejection_text
from core.requests.reason import Cause, Reason
from core.requests.request import ContainerRequest, Request


def request(dialect: str, *others: str) -> Request:
    container = ContainerRequest("main", 1, memory=1)
    return Request("u", "d/p", dialect, (container,), alternatives=frozenset(others))


def test_a_node_without_cards_says_where_they_were_looked_for() -> None:
    none = Reason("n", 0, cause=Cause.NO_CARDS)

    assert rejection_text(request("volcano"), none) == (
        "no cards: neither annotation volcano.sh/node-vgpu-register nor its agent lists any; "
        "each is missing, empty or cannot be read"
    )
    assert rejection_text(request("koordinator", "hami"), none) == (
        "no cards: neither object Device nor annotation hami.io/node-nvidia-register nor its agent "
        "lists any; each is missing, empty or cannot be read"
    )
    assert rejection_text(request("other"), none) == "no cards"


def test_any_other_reason_is_its_own_text() -> None:
    other = Reason("n", 1, cause=Cause.NO_DIALECT)
    known = Reason("n", 0, cause=Cause.NO_CARDS, detail="entry 0 has no uuid")

    assert rejection_text(request("volcano"), other) == other.text()
    assert rejection_text(request("volcano"), known) == "entry 0 has no uuid"

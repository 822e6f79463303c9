"""The oracle finds cards that a ledger holds for a pod that has another one."""

from typing import Any

import pytest

from e2e.harness.oracles import blocked_cards, shared_cards
from e2e.harness.oracles.blocked_cards import BlockedCards
from e2e.harness.oracles.shared_cards import ASSIGNED, SharedCards
from e2e.harness.workloads.inventory import Gpu

CARDS = [Gpu("GPU-0", 1000), Gpu("GPU-1", 1000)]


def a_pod(card: str) -> dict[str, Any]:
    about = {"name": "p", "uid": "p", "resourceVersion": "1", "annotations": {ASSIGNED: card}}
    return {"metadata": about, "spec": {"nodeName": "node", "containers": [{}]}}


def a_ledger(*cards: str) -> dict[str, Any]:
    grants = {"grants": [{"card": card} for card in cards]} if cards else {}
    return {"metadata": {"name": "node"}, "spec": {"allocations": [{"uid": "p", **grants}]}}


@pytest.mark.parametrize(
    ("first", "second", "blocked"),
    [
        (a_ledger("GPU-0"), a_ledger("GPU-0"), 0),
        (a_ledger("GPU-0", "GPU-1"), a_ledger("GPU-0"), 1),
        (a_ledger(), a_ledger("GPU-0"), 1),
        (a_ledger("GPU-0"), a_ledger("GPU-1"), 1),
    ],
)
def test_a_card_of_a_pod_that_has_another_one_is_blocked(
    monkeypatch: pytest.MonkeyPatch, first: Any, second: Any, blocked: int
) -> None:
    """The ledger is right or wrong for ten seconds, and the same after it."""
    clock = iter(range(0, 1000, 10))
    for module in (shared_cards, blocked_cards):
        monkeypatch.setattr(module, "monotonic", lambda: next(clock))
    shared = SharedCards(CARDS, {})
    watched = BlockedCards(shared)

    shared.see("ADDED", a_pod("GPU-0"))
    watched.see("ADDED", first)
    watched.see("MODIFIED", second)

    assert len(watched.problems(5)) == blocked
    assert watched.problems(100) == []

"""The oracle finds cards that stand free while a pod waits."""

from typing import Any

import pytest

from e2e.harness.oracles import shared_cards
from e2e.harness.oracles.idle_cards import IdleCards, Need
from e2e.harness.oracles.shared_cards import ASSIGNED, SharedCards
from e2e.harness.workloads.inventory import Gpu

CARDS = [Gpu("GPU-0", 1000), Gpu("GPU-1", 1000)]
RUNS, CLOSED = frozenset({"plugin"}), frozenset[str]()
STATES = [(0.0, "node", RUNS), (1.0, "node", RUNS), (60.0, "node", CLOSED), (80.0, "node", RUNS)]


def a_pod(name: str, card: str, version: int) -> dict[str, Any]:
    about = {"name": name, "uid": name, "resourceVersion": str(version)}
    annotations = {"annotations": {ASSIGNED: card}}
    return {"metadata": about | annotations, "spec": {"nodeName": "node", "containers": [{}]}}


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [((0, 5), 5), ((5, 35), 15), ((22, 28), 0), ((22, 70), 30), ((70, 95), 15)],
)
def test_a_card_is_idle_while_it_is_free_and_its_node_open(
    monkeypatch: pytest.MonkeyPatch, wait: tuple[float, float], seconds: float
) -> None:
    """From 20 to 30 both cards are in use; the second has no room from 10 on."""
    clock = iter((10, 20, 30))
    monkeypatch.setattr(shared_cards, "monotonic", lambda: next(clock))
    shared = SharedCards(CARDS, {}, {"node": ("GPU-0", "GPU-1")})
    shared.see("ADDED", a_pod("stays", "GPU-1", 1))
    shared.see("ADDED", a_pod("goes", "GPU-0", 2))
    shared.see("DELETED", a_pod("goes", "GPU-0", 3))

    found = IdleCards.of(shared, STATES, Need(500, 50, lambda _, has: bool(has)))

    assert found.longest(*wait) == seconds

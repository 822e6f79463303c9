"""Metrics of namespaces."""

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.exported_metrics import NamespaceMetrics
from adapters.service.observe.metrics import plain
from adapters.service.tests.builders import stored
from adapters.stores.store import Change
from core.hardware.quantity import GIB
from core.ledger.node_ledger import Hold
from core.tests.builders import DIALECT, a_grant, empty, held, like_cards

LABELS = f'{{namespace="default",dialect="{DIALECT}",model="A100"}}'


def test_the_shares_of_all_nodes_are_summed_and_follow_the_ledgers() -> None:
    ledgers = LedgerCache()
    first = empty(*like_cards(1)).adopt(held(a_grant("c0", GIB, 25), uid="a"))
    second = empty(*like_cards(1, "d"), name="m")
    ledgers.load({"n": stored(first), "m": stored(second)})
    metrics = NamespaceMetrics(ledgers)
    before = plain(b"", metrics.families()).decode()
    more = second.adopt(held(a_grant("d0", 2 * GIB, 50), uid="b", node="m"))
    ledgers.apply(Change("m", stored(more)))
    after = plain(b"", metrics.families()).decode()

    assert f"dragoman_namespace_shares{LABELS} 1\n" in before
    assert f"dragoman_namespace_shares{LABELS} 2\n" in after
    assert f"dragoman_namespace_memory_granted_bytes{LABELS} {3 * GIB}\n" in after
    assert f"dragoman_namespace_compute_granted_cards{LABELS} 0.75\n" in after


def test_a_namespace_without_shares_has_no_series() -> None:
    ledgers = LedgerCache()
    ledgers.load({"n": stored(empty(*like_cards(1)))})

    text = plain(b"", NamespaceMetrics(ledgers).families()).decode()
    assert "{" not in text


def test_places_that_are_kept_are_no_shares() -> None:
    ledgers = LedgerCache()
    place = held(a_grant("c0", GIB), uid="hold")
    ledger = empty(*like_cards(1)).hold(Hold("plan", "owner", by_name=False, allocation=place))
    ledgers.load({"n": stored(ledger)})

    assert "{" not in plain(b"", NamespaceMetrics(ledgers).families()).decode()

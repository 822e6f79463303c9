"""Records of the store with this process's reservations on top."""

import pytest

from adapters.service.tests.builders import a_ledger_cache, stored
from adapters.stores.store import Change
from core.hardware.quantity import GIB
from core.ledger.node_ledger import LedgerError
from core.tests.builders import a_grant, empty, held, like_cards


def test_an_older_record_does_not_undo_a_newer_one() -> None:
    ledgers = a_ledger_cache()
    older = empty(*like_cards(1))
    newer = older.adopt(held(a_grant("c0"), uid="a"))

    ledgers.apply(Change("n", stored(newer)))
    ledgers.apply(Change("n", stored(older)))

    assert ledgers.inventory.nodes_of("a") == ("n",)


def test_a_repeated_record_changes_nothing() -> None:
    ledgers = a_ledger_cache()
    taken = empty(*like_cards(1)).adopt(held(a_grant("c0"), uid="a"))
    ledgers.apply(Change("n", stored(taken)))
    before = ledgers.revision

    ledgers.apply(Change("n", stored(taken)))

    assert ledgers.revision == before


def test_reservations_count_and_end_where_a_commit_conflicts() -> None:
    ledgers = a_ledger_cache()
    ledgers.reserve(held(a_grant("c0", 10 * GIB), uid="plan"), expires=5)
    with pytest.raises(LedgerError):
        ledgers.reserve(held(a_grant("c0", 10 * GIB), uid="other"), expires=5)

    taken = empty(*like_cards(1)).adopt(held(a_grant("c0", 16 * GIB), uid="real"))
    ledgers.apply(Change("n", stored(taken)))

    assert ledgers.reservation_count() == 0
    assert ledgers.inventory.nodes_of("plan") == ()


def test_a_rejected_reservation_leaves_the_earlier_one() -> None:
    ledgers = a_ledger_cache()
    ledgers.reserve(held(a_grant("c0"), uid="plan"), expires=5)
    with pytest.raises(LedgerError):
        ledgers.reserve(held(a_grant("c0", 17 * GIB), uid="plan"), expires=9)

    found = ledgers.reservation("plan")
    assert found is not None
    assert (found.grants[0].memory, found.expires) == (GIB, 5)


def test_reservations_expire_and_survive_a_reload() -> None:
    ledgers = a_ledger_cache()
    ledgers.reserve(held(a_grant("c0"), uid="plan"), expires=5)
    ledgers.load({"n": stored(empty(*like_cards(1)))})

    assert ledgers.inventory.nodes_of("plan") == ("n",)
    assert (ledgers.expire(4), ledgers.expire(5), ledgers.expire(6)) == (0, 1, 0)
    assert ledgers.inventory.nodes_of("plan") == ()


def test_a_node_with_an_unreadable_record_gets_no_pods_until_it_is_readable() -> None:
    ledgers = a_ledger_cache()

    ledgers.apply(Change("n", None, "not JSON"))
    unreadable = (ledgers.ledger("n"), ledgers.problem("n"))
    ledgers.apply(Change("n", stored(empty(*like_cards(1)))))

    assert unreadable == (None, "not JSON")
    assert ledgers.problem("n") is None
    assert ledgers.ledger("n") is not None


def test_every_change_increases_the_revision() -> None:
    ledgers = a_ledger_cache()
    seen = [ledgers.revision]
    ledgers.reserve(held(a_grant("c0"), uid="plan"), expires=5)
    seen.append(ledgers.revision)
    ledgers.unreserve("plan")
    seen.append(ledgers.revision)
    ledgers.apply(Change("n", None))
    seen.append(ledgers.revision)

    assert sorted(set(seen)) == seen

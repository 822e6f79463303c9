"""Decisions wait until everything that they need is synced."""

import pytest

from adapters.service.decide.ports import LEDGERS, NotReady, Readiness


def test_everything_that_is_awaited_is_named_in_order() -> None:
    readiness = Readiness()
    readiness.mark_unsynced("pods")

    with pytest.raises(NotReady, match=r"^waiting for: ledgers, pods$"):
        readiness.check()


def test_decisions_are_made_when_nothing_is_awaited() -> None:
    readiness = Readiness()
    readiness.mark_synced(LEDGERS)

    readiness.check()

    assert (readiness.awaited, readiness.text()) == (frozenset(), "")

"""A replica stops at each await of a bind, until others have the cards."""

import pytest

from e2e.adversary.late import bind_past_loss, every_stop
from e2e.tests.adversary.conftest import Worlds

pytestmark = [pytest.mark.local("stops its replicas"), pytest.mark.timeout(600)]


def test_a_ledger_that_was_deleted_is_closed_until_no_late_binding_binds(worlds: Worlds) -> None:
    with worlds() as world:
        early, later, late = bind_past_loss(world)

    print(early, later, late, sep="\n")
    assert "cannot be read" in early
    assert later.endswith('{"Error":""}')
    assert "n0: " in late


def test_a_replica_that_was_stopped_at_any_await_binds_no_pod_to_cards_of_others(
    worlds: Worlds,
) -> None:
    with worlds() as world:
        said = {}
        for point, what in every_stop(world):
            print(f"{point}: {what}")
            said[point] = what

    text = "\n".join(said.values())
    assert "released" in text
    assert "at most 30 s may pass" in text

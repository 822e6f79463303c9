"""A replica stops at each await of a bind, until others have the cards."""

import pytest

from e2e.adversary.late import every_stop
from e2e.tests.adversary.conftest import Worlds

pytestmark = [pytest.mark.local("stops its replicas"), pytest.mark.timeout(600)]


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

"""The largest free share of a node is what the engine would allocate."""

import pytest

from adapters.service.web.dashboard.rows import NodeRow
from adapters.service.web.dashboard.tests import fleet
from core.feasibility.fragmentation import free_shares
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import KUBELET, Allocation

NUMBERS = [*range(60), *(int(name[-5:]) for name in (fleet.OVER, fleet.UNREAD, fleet.SICK))]


@pytest.mark.parametrize("number", NUMBERS)
def test_the_largest_share_is_the_one_that_top_lists(number: int) -> None:
    ledger = fleet.a_random_ledger(number)

    row = NodeRow.of(ledger)

    assert row.largest == max(left.largest for left in free_shares(ledger))
    assert row.granted == sum(use.memory for use in ledger.usages)


def test_cards_that_a_pod_of_a_device_plugin_may_have_are_a_problem_as_on_the_map() -> None:
    ledger = NodeLedger.of(fleet.a_random_ledger(0).node)
    cards = frozenset(card.uuid for card in ledger.node.cards)
    unknown = Allocation(
        "u", "team/mystery", KUBELET, ledger.node.name, (), unread="not said yet", blocked=cards
    )

    row = NodeRow.of(ledger.adopt(unknown))

    assert row.problems == ("team/mystery: not said yet",)
    assert {*row.cells[::2]} == {"b"}


def test_a_card_that_is_not_healthy_has_no_free_share() -> None:
    row = NodeRow.of(fleet.a_random_ledger(int(fleet.SICK[-5:])))

    cards = row.view()["cards"]

    assert isinstance(cards, list)
    assert cards[3]["freeMiB"] == 0
    assert row.has_problem
